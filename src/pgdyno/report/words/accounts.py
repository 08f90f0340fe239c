"""Tables of figures: latency, client groups, ledger, errors, the load generator, facts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgdyno import numbers
from pgdyno.errors import UsageError
from pgdyno.facts.groups import GroupAccount, group_accounts, open_loop_sentence
from pgdyno.facts.statement_times import never_touched, time_notes
from pgdyno.json_types import Fields
from pgdyno.record import (
    Distribution,
    ErrorTotal,
    Ledger,
    RunFile,
    RunInfo,
    StatementTotal,
    position_of,
    server_details,
)
from pgdyno.record.facts import EngineFacts, ServerFacts
from pgdyno.record.latencies import ConnectKind, ScriptKind
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import prose, sentences
from pgdyno.report.words.prose import cut
from pgdyno.report.words.tables import Table, figures_table

if TYPE_CHECKING:
    from pgdyno._engine import Histogram

ERRORS_MAX = 40
STATEMENTS_MAX = 30
UNTOUCHED_WIDTH = 60

LATENCY_PARTS: dict[ScriptKind, str] = {
    "response": "response",
    "wait": "of which wait",
    "client_lag": "of this, for a client",
    "pool_wait": "of this, for a pooled connection",
    "connect": "of this, connecting",
    "service": "of which service",
}
"""response = wait + service; wait = client lag + pool wait + connect."""
CONNECT_PHASES: dict[ConnectKind, str] = {
    "tcp": "socket",
    "tls": "TLS",
    "auth": "authentication",
    "ready": "until ready",
    "total": "total",
}
HIDDEN_FACTS = (
    "settings",
    "altered",
    "options",
    "started_epoch_s",
    "postmaster_pid",
    "is_local",
    "version_num",
)
"""Facts that have a table of their own or are meant for programs."""

_FACT_LABELS = {
    "monitor": "role pg_monitor",
    "superuser": "role is a superuser",
    "database_bytes": "size of the database",
    "database_named": "database given",
    "capabilities": "built with",
    "io_uring": "io_uring",
    "cores_host": "cores of the machine",
    "memory_bytes": "memory",
    "memory_host_bytes": "memory of the machine",
    "cpu_model": "CPU model",
    "wal": "WAL",
    "uri": "connection string",
    "entrance_uri": "connection string of the pooler",
    "reactor": "event loop",
    "reactor_why": "reason for the event loop",
    "same_host_as_server": "server on this machine",
}
"""Names of facts that their keys do not spell."""

PGDYNO_CODES = {
    "pool-timeout": "no pooled connection became free in time",
    "connect-failed": "no connection could be made",
    "connect-timeout": "connecting took too long",
    "connection-lost": "the connection was lost",
    "expected-error-missing": "an error that the script expects did not occur",
    "commit-rolled-back": "COMMIT was answered with ROLLBACK, as the transaction had failed",
}


def latency_table(run: RunFile, summary: RunSummary) -> Table | None:
    """Return the percentiles of the response time and its parts, of each state of the run."""
    states = summary.budget_states()
    rows = []
    for state, slice_ids in states.items():
        for kind, histogram in shown_times(run, slice_ids).items():
            name = LATENCY_PARTS[kind]
            label = name if len(states) == 1 else f"{state}: {name}"
            rows.append([label, numbers.ns(histogram.mean), *_figures(histogram)])
    if not rows:
        return None
    return figures_table("Response time and its parts", ["Time", "mean", *_HEAD], rows)


PERCENTILES = (50.0, 95.0, 99.0, 99.9, 99.99)
PERCENTILE_NAMES = tuple(f"p{p:g}" for p in PERCENTILES)
_HEAD = (*PERCENTILE_NAMES, "max", "samples")


def _figures(histogram: Histogram) -> list[str]:
    """Return percentiles, the maximum and the number of samples."""
    return [*percentile_cells(histogram), numbers.ns(histogram.max), numbers.count(histogram.count)]


def percentile_cells(histogram: Histogram) -> list[str]:
    """Return the percentiles of a histogram; a dash for those with too few samples beyond them."""
    percentiles_ns = Distribution.of(histogram).percentiles_ns
    return [numbers.ns(percentiles_ns[p]) for p in PERCENTILES]


def percentile_ms(histogram: Histogram, percentile: float) -> str:
    """Return one percentile in ms without the unit; a dash if too few samples lie beyond it."""
    ns = Distribution.of(histogram).percentiles_ns[percentile]
    return numbers.ms_figure(None if ns is None else ns / 1e6)


def shown_times(run: RunFile, slice_ids: Collection[int] | None) -> dict[ScriptKind, Histogram]:
    """Return the histograms of response, wait and service, and of the wait's parts above zero."""
    times = {kind: run.histogram(kind, slice_ids) for kind in LATENCY_PARTS}
    parts: tuple[ScriptKind, ...] = ("client_lag", "pool_wait", "connect")
    left_out = [kind for kind in parts if not times[kind].max]
    return {kind: histogram for kind, histogram in times.items() if kind not in left_out}


def groups_table(run: RunFile, slice_ids: Collection[int] | None) -> Table | None:
    """Return the figures of each client group, if there are several or one is an open loop."""
    groups = group_accounts(run, slice_ids)
    if len(groups) < 2 and all(group.arrival is None for group in groups):
        return None
    rows = [group_row(run, slice_ids, group) for group in groups]
    if len(groups) > 1:
        rows.append(_all_groups(run, slice_ids, groups))
    return figures_table("Client groups, over the measured slices", GROUP_HEAD, rows)


def _all_groups(
    run: RunFile, slice_ids: Collection[int] | None, groups: Sequence[GroupAccount]
) -> list[str]:
    """Return the row of all groups; without a target rate unless each group has one."""
    ledger = run.ledger(slice_ids)
    response, wait = (run.histogram(kind, slice_ids) for kind in _WAITED)
    asked = [group.asked_tps for group in groups if not group.idle]
    known = [each for each in asked if each is not None]
    return [
        "all",
        numbers.count(sum(group.clients for group in groups)),
        numbers.tps(sum(known)) if len(known) == len(asked) else "",
        numbers.tps(sum(group.done_tps for group in groups)),
        *(percentile_ms(response, p) for p in (50, 99, 99.9)),
        percentile_ms(wait, 99),
        *(numbers.count(n) for n in (ledger.late, ledger.failed, ledger.skipped)),
        numbers.count(sum(group.waiting for group in groups)),
        numbers.count(sum(group.connects.made for group in groups)),
    ]


_WAITED: tuple[ScriptKind, ScriptKind] = ("response", "wait")


GROUP_HEAD = (
    "Group", "clients", "target/s", "done/s", "p50", "p99", "p99.9", "wait p99", "late", "failed",
    "skipped", "waiting", "connects",
)  # fmt: skip


def group_row(run: RunFile, slice_ids: Collection[int] | None, group: GroupAccount) -> list[str]:
    """Return a row under ``GROUP_HEAD``; latencies are in ms, without the unit."""
    response = run.histogram("response", slice_ids, group=group.name)
    wait = run.histogram("wait", slice_ids, group=group.name)
    ledger = group.ledger
    return [
        group.name,
        numbers.count(group.clients),
        "" if group.asked_tps is None else numbers.tps(group.asked_tps),
        "" if group.idle else numbers.tps(group.done_tps),
        *(percentile_ms(response, p) for p in (50, 99, 99.9)),
        percentile_ms(wait, 99),
        *(numbers.count(n) for n in (ledger.late, ledger.failed, ledger.skipped, group.waiting)),
        numbers.count(group.connects.made),
    ]


def connects_table(run: RunFile, slice_ids: Collection[int] | None) -> Table | None:
    """Return the times to establish a connection by phase, of groups that kept connecting."""
    rows = [
        [f"{group.name}: {name}", *_figures(histogram)]
        for group in group_accounts(run, slice_ids)
        if group.connects.is_notable
        for phase, name in CONNECT_PHASES.items()
        if (histogram := run.histogram(phase, slice_ids, group=group.name)).count
    ]  # fmt: skip
    if not rows:
        return None
    return figures_table("Establishing connections", ["Phase", *_HEAD], rows)


def open_loop_sentences(run: RunFile, slice_ids: Collection[int] | None) -> dict[str, str]:
    """Return for each open loop, by group, whether its rate was held."""
    by_group = {group.name: open_loop_sentence(group) for group in group_accounts(run, slice_ids)}
    return {name: sentence for name, sentence in by_group.items() if sentence}


def statements_table(run: RunFile, summary: RunSummary) -> Table | None:
    """Return the statements with their share of the time, under the settings at the end of the run;
    those that take the most time first."""
    totals = by_time(run.statements(summary.after.slice_ids if summary.after else None))
    if not totals:
        return None
    several = len({(total.client_group, total.script) for total in totals}) > 1
    rows = [
        [
            f"{statement_origin(t)}: {t.statement}" if several else t.statement,
            numbers.percent(share),
            numbers.count(t.done),
            numbers.count(t.failed),
            *_service_cells(t),
        ]
        for t, share in list(totals.items())[:STATEMENTS_MAX]
    ]
    caption = f"Service time of each statement{', at the end' if summary.changed else ''}"
    if len(totals) > STATEMENTS_MAX:
        caption += f"; the {STATEMENTS_MAX} of {len(totals)} that take the most time"
    head = ["Statement", "share", "done", "failed", "mean", *PERCENTILE_NAMES, "max"]
    return figures_table(caption, head, rows)


def statement_notes(run: RunFile, summary: RunSummary) -> str:
    """Return the limits of that table, and statements that changed nothing; '' for none."""
    totals = by_time(run.statements(summary.after.slice_ids if summary.after else None))
    notes = time_notes(run, list(totals)[:STATEMENTS_MAX])
    said = ["; ".join([*notes, *filter(None, [untouched_words(totals)])])]
    if summary.single_run is not None:
        said.insert(0, f"costliest statement: {summary.single_run.costliest.sentence}")
    return " ".join(prose.sentence(each) for each in said if each)


def untouched_words(totals: Iterable[StatementTotal]) -> str:
    """Return the statements that never changed a row, as a sentence without a period; '' if there
    are none."""
    named = [
        f"{cut(each.statement, UNTOUCHED_WIDTH)} ({numbers.count(each.done)} times)"
        for each in never_touched(totals)
    ]
    return f"the server changed no row in any execution of {'; '.join(named)}" if named else ""


def _service_cells(total: StatementTotal) -> list[str]:
    """Return mean, percentiles and maximum; dashes for a statement that was never done."""
    if not total.service.count:
        return [numbers.ABSENT] * (len(PERCENTILE_NAMES) + 2)
    service = total.service
    return [numbers.ns(service.mean), *percentile_cells(service), numbers.ns(service.max)]


def by_time(totals: Sequence[StatementTotal]) -> dict[StatementTotal, float]:
    """Return the statements with their share of the total service time, the largest first."""
    spent = {total: total.spent_ns for total in totals}
    whole = sum(spent.values())
    in_order = sorted(spent, key=lambda total: -spent[total])
    return {total: spent[total] / whole if whole else 0.0 for total in in_order}


def statement_origin(total: StatementTotal) -> str:
    """Return group and script of a statement; one word if both have the same name."""
    names = dict.fromkeys((total.client_group, total.script))
    return " ".join(names)


def ledger_table(ledger: Ledger) -> Table:
    """Return the ledger as a table."""
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
    rows.append(["retried (within the above)", numbers.count(ledger.retried)])
    rows.append(["expected errors (within done)", numbers.count(ledger.expected_errors)])
    if ledger.late:
        rows.append(["later than the latency limit (within done)", numbers.count(ledger.late)])
    return figures_table("Transactions, over the whole run", ["", "transactions"], rows)


def ledger_identity(ledger: Ledger) -> str:
    """Return the identity of the ledger with its figures, and that it does not hold if so."""
    parts = [f"{numbers.count(ledger.done)} done"]
    for name in ("failed", "skipped", "cancelled", "backlog"):
        if value := getattr(ledger, name):
            parts.append(f"{numbers.count(value)} {name}")
    carried = f" + {numbers.count(ledger.carried_in)} carried in" if ledger.carried_in else ""
    identity = f"{numbers.count(ledger.intended)} intended{carried} = {' + '.join(parts)}"
    if ledger.balanced:
        return identity
    return f"{identity} does not add up: {numbers.count(ledger.unaccounted)} unaccounted for"


def ledger_sentence(ledger: Ledger) -> str:
    """Return the identity of the ledger as a sentence."""
    identity = ledger_identity(ledger)
    return f"{identity}: all transactions are accounted for." if ledger.balanced else f"{identity}."


def errors_table(errors: Sequence[ErrorTotal]) -> Table | None:
    """Return the errors by SQLSTATE, with a mark on those that the script expects."""
    if not errors:
        return None
    rows = [
        [
            PGDYNO_CODES.get(e.sqlstate, e.sqlstate),
            numbers.count(e.count),
            _error_nature(e),
            "\n".join([e.message, *server_details(e)]),
            position_of(e),
            e.statement,
        ]
        for e in errors[:ERRORS_MAX]
    ]
    caption = "Errors by SQLSTATE, over the whole run"
    if len(errors) > ERRORS_MAX:
        caption += f"; the {ERRORS_MAX} most frequent of {len(errors)} kinds"
    head = ["SQLSTATE", "count", "Kind", "First message", "First position", "Statement"]
    return Table(caption, head, rows, right=frozenset((1,)))


def sqlstate_words(error: ErrorTotal) -> str:
    """Return an error in a few words."""
    name = PGDYNO_CODES.get(error.sqlstate) or error.words
    nature = _error_nature(error)
    return name if nature == "failed" else f"{name} ({nature})"


def _error_nature(error: ErrorTotal) -> str:
    if error.expected:
        return "expected"
    return "retried" if error.retried else "failed"


def generator_table(run: RunFile) -> Table | None:
    """Return the CPU time that the load generator used, and its delays."""
    total = run.generator()
    if not total.threads:
        return None
    late = run.histogram("send_late")
    rows = [
        ["CPU per transaction", _us(cpu_us_per_transaction(run))],
        ["send lateness p50", numbers.ns(late.percentile(50))],
        ["send lateness p99", numbers.ns(late.percentile(99))],
        ["longest stall of the event loop", numbers.ms(total.loop_stall_us_max / 1000)],
        [
            "run-queue delay (ready, waiting for a CPU)",
            numbers.duration(total.run_queue_delay_us / 1e6),
        ],
        ["threads", numbers.count(total.threads)],
    ]
    return figures_table("The load generator, over the whole run", ["", "measured"], rows)


def _us(value: float | None) -> str:
    return numbers.ABSENT if value is None else f"{numbers.significant(value)} µs"


def cpu_us_per_transaction(run: RunFile) -> float | None:
    """Return the CPU time of the load generator per finished transaction, in microseconds."""
    total, done = run.generator(), run.ledger().done
    return (total.cpu_user_us + total.cpu_system_us) / done if done else None


def reactor_words(engine: EngineFacts) -> str:
    """Return the event loop that the engine chose and the reason; '' if it is not recorded."""
    name, why = engine.get("reactor"), engine.get("reactor_why")
    return f"{name} ({why})" if name and why else str(name or "")


def generator_words(run: RunFile) -> str:
    """Return CPU time and delays of the load generator in one line."""
    late = numbers.ns(run.histogram("send_late").percentile(99))
    profile = run.run.engine.get("profile")
    build = f"; {profile} build" if profile not in (None, "release") else ""
    if reactor := reactor_words(run.run.engine):
        build = f"; {reactor}{build}"
    return (
        f"{_us(cpu_us_per_transaction(run))} of CPU per transaction, 99 % sent within {late} of the"
        f" earliest possible time{build}"
    )


def fact_tables(run: RunFile) -> list[Table]:
    """Return the facts of run, server, host and load engine as tables."""
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
        ["started", sentences.started_at(info)],
        ["duration", sentences.time_taken(info)],
        ["status", f"{info.status} {info.status_detail}".strip()],
        ["run file", file_name],
        ["pgdyno", info.pgdyno_version],
        ["disks", sentences.disks(info)],
    ]
    return [row for row in rows if row[1]]


def _settings(server: ServerFacts) -> list[list[str]]:
    return [[str(n), str(v)] for n, v in sorted((server.get("settings") or {}).items())]


def _flat(facts: Mapping[str, object], *, prefix: str = "") -> list[list[str]]:
    """Return facts as rows, nested ones under their joined names; empty ones are left out."""
    rows = []
    for name, value in facts.items():
        label = f"{prefix}{_FACT_LABELS.get(name) or name.removesuffix('_bytes').replace('_', ' ')}"
        if name in HIDDEN_FACTS or value in (None, "", {}, []):
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


def spec_lines(fields: Fields) -> list[str]:
    """Return the spec that repeats the run, with the texts of its scripts and without defaults."""
    from pgdyno.spec import spec_from_fields, spec_to_toml

    try:
        return spec_to_toml(spec_from_fields(fields), defaults=False).strip().splitlines()
    except UsageError:
        # What is recorded is shown, even if it is damaged.
        return json.dumps(fields, indent=2, ensure_ascii=False).splitlines()
