"""The page's tables of accounts: latency, ledger, errors, the generator's audit, facts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pgdyno.errors import UsageError
from pgdyno.record import ErrorTotal, Ledger, RunFile, RunInfo
from pgdyno.report import numbers, wording
from pgdyno.report.chart import Table, figures_table
from pgdyno.report.loadcharts import budget_states
from pgdyno.report.story import Story

ERRORS_MAX = 40
STATEMENTS_MAX = 30

LATENCY_PARTS: dict[Literal["response", "wait", "pool_wait", "service"], str] = {
    "response": "response",
    "wait": "of which wait",
    "pool_wait": "of which for a connection",
    "service": "of which service",
}
UNTOLD = ("settings", "options", "started_epoch_s", "postmaster_pid", "is_local", "version_num")
"""Facts with a table of their own, or of use to programs only."""
PERCENTILES = (50, 95, 99)

PGDYNO_CODES = {
    "pool-timeout": "no pooled connection came free in time",
    "connection-lost": "the connection was lost",
    "expected-error-missing": "an error that the script expects did not come",
}


def latency_table(run: RunFile, story: Story) -> Table | None:
    """Percentiles of response, wait, pool wait and service; by setting when there are two."""
    states = budget_states(story)
    rows = []
    for state, slice_ids in states.items():
        for kind, name in LATENCY_PARTS.items():
            histogram = run.histogram(kind, slice_ids)
            if kind == "pool_wait" and not histogram.max:
                continue
            label = name if len(states) == 1 else f"{state}: {name}"
            figures = [numbers.ns(histogram.percentile(p)) for p in PERCENTILES]
            rows.append([label, numbers.ns(histogram.mean), *figures, numbers.ns(histogram.max)])
    if not rows:
        return None
    head = ["Time", "mean", *(f"p{p}" for p in PERCENTILES), "max"]
    return figures_table("Response time and its parts", head, rows)


def statements_table(run: RunFile, story: Story) -> Table | None:
    """Service time of each statement, at the end of the run's chain of settings."""
    totals = run.statements(story.after.slice_ids if story.after else None)
    if not totals:
        return None
    several = len({total.script for total in totals}) > 1
    rows = [
        [
            " ".join((f"{t.script}: " if several else "", t.statement)).strip(),
            numbers.count(t.done),
            numbers.count(t.failed),
            *(numbers.ns(t.service.percentile(p)) for p in PERCENTILES),
            numbers.ns(t.service.max),
        ]
        for t in totals[:STATEMENTS_MAX]
    ]
    when = ", at the end" if story.changed else ""
    head = ["Statement", "done", "failed", *(f"p{p}" for p in PERCENTILES), "max"]
    return figures_table(f"Service time of each statement{when}", head, rows)


def ledger_table(ledger: Ledger) -> Table:
    """Where every intended transaction went, adding up."""
    rows = [
        ["intended", numbers.count(ledger.intended)],
        ["= done", numbers.count(ledger.done)],
        ["+ failed", numbers.count(ledger.failed)],
        ["+ skipped", numbers.count(ledger.skipped)],
        ["+ cancelled", numbers.count(ledger.cancelled)],
        ["+ backlog at the end", numbers.count(ledger.backlog)],
    ]
    if ledger.unaccounted:
        rows.append(["unaccounted for", numbers.count(ledger.unaccounted)])
    rows.append(["tried again (within the above)", numbers.count(ledger.retried)])
    rows.append(["expected errors (within done)", numbers.count(ledger.expected_errors)])
    return figures_table("Transactions, over all of the run", ["", "transactions"], rows)


def ledger_identity(ledger: Ledger) -> str:
    """The identity with its figures, and whether it holds."""
    parts = [f"{numbers.count(ledger.done)} done"]
    for name in ("failed", "skipped", "cancelled", "backlog"):
        if value := getattr(ledger, name):
            parts.append(f"{numbers.count(value)} {name}")
    identity = f"{numbers.count(ledger.intended)} intended = {' + '.join(parts)}"
    if ledger.balanced:
        return identity
    return f"{identity} does not add up: {numbers.count(ledger.unaccounted)} unaccounted for"


def ledger_sentence(ledger: Ledger) -> str:
    """The identity in a sentence."""
    said = ledger_identity(ledger)
    return f"{said}: every transaction is accounted for." if ledger.balanced else f"{said}."


def errors_table(errors: Sequence[ErrorTotal]) -> Table | None:
    """Errors by SQLSTATE; those that a script injects on purpose are marked."""
    if not errors:
        return None
    rows = [
        [
            PGDYNO_CODES.get(e.sqlstate, e.sqlstate),
            numbers.count(e.count),
            _error_nature(e),
            e.message,
            e.statement,
        ]
        for e in errors[:ERRORS_MAX]
    ]
    caption = "Errors by SQLSTATE, over all of the run"
    if len(errors) > ERRORS_MAX:
        caption += f"; the {ERRORS_MAX} most frequent of {len(errors)} kinds"
    head = ["SQLSTATE", "count", "Kind", "First message", "Statement"]
    return Table(caption, head, rows, right=frozenset((1,)))


def sqlstate_words(error: ErrorTotal) -> str:
    """An error in a few words, for a line."""
    name = PGDYNO_CODES.get(error.sqlstate, f"{error.sqlstate} {error.message}".strip())
    nature = _error_nature(error)
    return name if nature == "failed" else f"{name} ({nature})"


def _error_nature(error: ErrorTotal) -> str:
    if error.expected:
        return "expected"
    return "tried again" if error.retried else "failed"


def generator_table(run: RunFile) -> Table | None:
    """What the load generator used, and how late it was."""
    total = run.generator()
    if not total.threads:
        return None
    late = run.histogram("send_late")
    rows = [
        ["CPU per transaction", _us(cpu_us_per_transaction(run))],
        ["send lateness p50", numbers.ns(late.percentile(50))],
        ["send lateness p99", numbers.ns(late.percentile(99))],
        ["longest stall of its event loop", numbers.ms(total.loop_stall_us_max / 1000)],
        ["ready but waiting for a core", numbers.duration(total.run_queue_delay_us / 1000)],
        ["threads", numbers.count(total.threads)],
    ]
    return figures_table("The load generator, over all of the run", ["", "measured"], rows)


def _us(value: float | None) -> str:
    return numbers.ABSENT if value is None else f"{numbers.significant(value)} µs"


def cpu_us_per_transaction(run: RunFile) -> float | None:
    """Processor time of the load generator per transaction done, in microseconds."""
    total, done = run.generator(), run.ledger().done
    return (total.cpu_user_us + total.cpu_system_us) / done if done else None


def generator_words(run: RunFile) -> str:
    """The audit in a line."""
    late = numbers.ns(run.histogram("send_late").percentile(99))
    profile = run.run.engine.get("profile")
    build = f"; {profile} build" if profile not in (None, "release") else ""
    return (
        f"{_us(cpu_us_per_transaction(run))} of CPU per transaction, 99 of 100 sent within {late}"
        f" of when they could be{build}"
    )


def fact_tables(run: RunFile) -> list[Table]:
    """Where and with what it ran."""
    info = run.run
    tables = [
        Table("This run", ["Fact", "value"], _run_facts(info, run.path.name)),
        Table("Server", ["Fact", "value"], _flat(info.server)),
        Table("Server settings at the start", ["Setting", "value"], _settings(info.server)),
        Table("Host", ["Fact", "value"], _flat(info.host)),
        Table("Load engine", ["Fact", "value"], _flat(info.engine)),
    ]
    return [table for table in tables if table.rows]


def _run_facts(info: RunInfo, file_name: str) -> list[list[str]]:
    rows = [
        ["command", f"pgdyno {info.command}"],
        ["started", wording.started_at(info)],
        ["took", wording.time_taken(info)],
        ["status", f"{info.status} {info.status_detail}".strip()],
        ["run file", file_name],
        ["pgdyno", info.pgdyno_version],
        ["disk", wording.emulated_disk(info)],
    ]
    return [row for row in rows if row[1]]


def _settings(server: Mapping[str, Any]) -> list[list[str]]:
    return [[str(n), str(v)] for n, v in sorted((server.get("settings") or {}).items())]


def _flat(facts: Mapping[str, Any], *, prefix: str = "") -> list[list[str]]:
    """Facts as rows, nested ones under their joined names; empty ones are left out."""
    rows = []
    for name, value in facts.items():
        label = f"{prefix}{name.removesuffix('_bytes').replace('_', ' ')}"
        if name in UNTOLD or value in (None, "", {}, []):
            continue
        if isinstance(value, Mapping):
            rows += _flat(value, prefix=f"{label}, ")
        else:
            rows.append([label, _fact(name, value)])
    return rows


def _fact(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes") and isinstance(value, int | float):
        return numbers.size(value)
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return str(value)


def spec_lines(info: RunInfo) -> list[str]:
    """The spec to run again: as written, else as resolved from the command line."""
    if info.spec_text.strip():
        return info.spec_text.strip().splitlines()
    from pgdyno.spec import spec_from_fields, spec_to_toml

    try:
        return spec_to_toml(spec_from_fields(info.spec)).strip().splitlines()
    except UsageError:
        # The spec of another pgdyno version may not fit this one's model; say it all the same.
        return json.dumps(info.spec, indent=2, ensure_ascii=False).splitlines()
