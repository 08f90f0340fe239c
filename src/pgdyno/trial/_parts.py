"""Parts of a result that only some runs have, from the run file: the figures of entity-resolution
and tpcc-like, the governor, the server's own counts of statements, and vacuum."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from pgdyno import numbers
from pgdyno.facts.vacuums import TableAtEnd, VacuumCourse, VacuumRatios, vacuum_account
from pgdyno.record import RunFile, StatementCount, StatementTotal
from pgdyno.record.events import evictions_in, governed_in, statements_absent
from pgdyno.record.failures import is_out_of_ids
from pgdyno.results.run_parts import (
    EntityResolution,
    RunGovernor,
    ServerStatements,
    StatementFigures,
    StatementGroup,
    TableState,
    TableVacuum,
    TpccLike,
    VacuumEffect,
    VacuumPhase,
    Vacuums,
)
from pgdyno.spec.age import STOP_AGE
from pgdyno.spec.sql_text import beginning

_FINISHES = r"(?i)update\s+er_observed\s+set\s+features\b"
"""The statement that finishes a record."""
_ORDERS = r"(?i)insert\s+into\s+tpcc_new_orders\b|select\s+tpcc_new_order\b"
"""Statements of New-Order: it is many, or one that calls a function."""
_OF_FUNCTION = r"select\s+tpcc_\w+\("
_BEGINS, _COMMITS, _UNDOES = (
    *(rf"(?i){word}\b|{_OF_FUNCTION}" for word in ("begin", "commit")),
    r"(?i)rollback\b",
)
"""The first and the last statement of a transaction of tpcc-like, and that which undoes one."""


def entities_of(run: RunFile, slice_ids: Sequence[int]) -> EntityResolution | None:
    """Return the figures over the slices; None if the tables were not checked."""
    found = _checked(run, "entity-resolution")
    if found is None:
        return None
    totals = run.statements(slice_ids)
    records = sum(total.done for total in totals if re.match(_FINISHES, total.statement))
    seconds = run.seconds(slice_ids)
    broken = _broken(found)
    return EntityResolution(
        records=records,
        records_per_s=round(records / seconds, 2) if seconds else 0.0,
        statements_per_record=round(_executed(totals) / records, 2) if records else None,
        records_in_tables=found["records"],
        unfinished=found["unfinished"],
        entities=found["entities"],
        consistent=not broken,
        broken=broken,
    )


def tpcc_of(run: RunFile, slice_ids: Sequence[int]) -> TpccLike | None:
    """Return the figures over the slices; None if the tables were not checked."""
    found = _checked(run, "tpcc-like")
    if found is None:
        return None
    totals: dict[str, list[StatementTotal]] = {}
    for each in run.statements(slice_ids):
        totals.setdefault(each.script, []).append(each)
    begun = {script: _executed_once(each, _BEGINS) for script, each in totals.items()}
    ordering = [
        s for s, each in totals.items() if any(re.match(_ORDERS, t.statement) for t in each)
    ]
    # A function fails where an order is to be rolled back.
    failed = [e.count for e in run.errors(slice_ids) if e.expected and e.script in ordering]
    new_orders = sum(_executed_once(totals[each], _COMMITS) for each in ordering) - sum(failed)
    minutes = run.seconds(slice_ids) / 60
    broken = _broken(found)
    return TpccLike(
        new_orders=new_orders,
        new_orders_per_min=round(new_orders / minutes, 1) if minutes else 0.0,
        transactions_per_min=round(run.ledger(slice_ids).done / minutes, 1) if minutes else 0.0,
        mix={name: round(count / sum(begun.values()), 4) for name, count in begun.items() if count},
        consistent=not broken,
        broken=broken,
    )


def _executed_once(totals: Iterable[StatementTotal], pattern: str) -> int:
    """Return how often a statement of ``pattern`` was done in scripts of tpcc-like, without those
    of the empty block that follows a ROLLBACK."""
    done, undone = 0, 0
    for each in totals:
        if re.match(pattern, each.statement):
            done += each.done
        elif re.match(_UNDOES, each.statement):
            undone += each.done
    return done - undone


def _checked(run: RunFile, workload: str) -> Mapping[str, Any] | None:
    """Return the check of the tables of a workload after the load."""
    found = (each.detail for each in run.events("consistency"))
    return next((detail for detail in found if detail["workload"] == workload), None)


def _broken(found: Mapping[str, Any]) -> dict[str, int]:
    return {rule: count for rule, count in found["broken"].items() if count}


def _executed(totals: Iterable[StatementTotal]) -> int:
    return sum(total.done + total.failed for total in totals)


def governor_of(run: RunFile) -> RunGovernor | None:
    """Return the actions of the governor and their effect; None for a run without one."""
    summary = governed_in(run)
    if summary is None:
        return None
    errors = [each for each in run.errors() if is_out_of_ids(each) and not each.retried]
    refused = sum(each.count for each in errors)
    governor = RunGovernor.model_validate({**summary, "refused": refused, "sentence": ""})
    sentence = f"{_what_it_did(governor)}; {_how_old(governor)}; {_refusals(refused)}"
    return governor.model_copy(update={"sentence": sentence})


def _what_it_did(governor: RunGovernor) -> str:
    if not governor.on:
        return "the governor was off: clients did not keep to it"
    if not (governor.slow_s or governor.paused_s):
        return "the governor let the clients go on"
    said = []
    if governor.slow_s:
        said.append(f"slowed the clients down for {numbers.duration(governor.slow_s)}")
    if governor.paused_s:
        times = "once" if governor.pauses == 1 else f"{governor.pauses:,} times"
        said.append(f"paused them {times}, for {numbers.duration(governor.paused_s)} in all")
    if governor.unknown_s:
        said.append(
            f"of which the server could not be asked for {numbers.duration(governor.unknown_s)}"
        )
    if governor.vacuumed:
        said.append(f"vacuumed {governor.vacuumed:,} tables meanwhile")
    return f"the governor {', '.join(said)}"


def _how_old(governor: RunGovernor) -> str:
    age, high, beyond = governor.age_max, governor.marks.high, governor.beyond_high
    noun = {"transaction IDs": "transaction ID", "multixacts": "multixact"}
    oldest = f"the oldest {noun.get(governor.of, 'multixact member')} was {age:,} old at most"
    if age >= STOP_AGE:
        return f"{oldest}, where the server assigns no more"
    if beyond:
        return f"{oldest}, {beyond:,} beyond the high mark of {high:,}"
    return f"{oldest}, below the high mark of {high:,}"


def _refusals(refused: int) -> str:
    if not refused:
        return "the server refused no transaction an ID"
    times = "1 transaction" if refused == 1 else f"{numbers.figure(refused)} transactions"
    return f"the server refused {times} an ID"


def statements_of(run: RunFile, slice_ids: list[int]) -> ServerStatements | None:
    """Return the counts of pg_stat_statements; None for a run that does not ask for them."""
    if not (run.run.spec.get("server") or {}).get("statements"):
        return None
    counts = run.statement_counts(slice_ids)
    total_ms = sum(each.exec_ms for each in counts)
    groups = _by(counts, lambda each: beginning(each.statement))
    return ServerStatements(
        absent=statements_absent(run) or (None if counts else "no statement was counted"),
        exec_ms=numbers.rounded(total_ms),
        evictions=evictions_in(run, slice_ids),
        groups=tuple(
            StatementGroup(**_figures(text, each, total_ms), shapes=len(each))
            for text, each in groups.items()
        ),
        shapes=tuple(
            StatementFigures(**_figures(text, each, total_ms))
            for text, each in _by(counts, lambda each: each.statement).items()
        ),
    )


def _by(
    counts: Iterable[StatementCount], key: Callable[[StatementCount], str]
) -> dict[str, list[StatementCount]]:
    """Return the counts by group, those first that took the most time."""
    groups: dict[str, list[StatementCount]] = {}
    for each in counts:
        groups.setdefault(key(each), []).append(each)
    by_time = sorted(groups.items(), key=lambda item: -sum(each.exec_ms for each in item[1]))
    return dict(by_time)


def _figures(text: str, counts: list[StatementCount], total_ms: float) -> dict[str, object]:
    rows = [asdict(each) for each in counts]
    sums: dict[str, object] = {"text": text}
    for name in rows[0]:
        known = [row[name] for row in rows if row[name] is not None]
        if name != "statement":
            sums[name] = _rounded(sum(known)) if known else None
    taken_ms = sum(each.exec_ms for each in counts)
    return {**sums, "share": numbers.rounded(taken_ms / total_ms) if total_ms else 0.0}


def _rounded(value: float) -> float:
    return numbers.rounded(value) if isinstance(value, float) else value


def vacuums_of(run: RunFile, slice_ids: Sequence[int]) -> Vacuums | None:
    """Return the account of vacuum; None if the server was not probed."""
    account = vacuum_account(run, slice_ids)
    if account is None:
        return None
    return Vacuums(
        tables=tuple(_table(each) for each in account.states),
        vacuums=tuple(_vacuum(each) for each in account.courses),
        effect=_effect(account.effect),
        xid_age=account.xid_age,
        mxid_age=account.mxid_age,
        members=account.members,
        members_share=_known(account.members_share),
    )


def _table(each: TableAtEnd) -> TableState:
    return TableState(
        relation=each.relation,
        live=each.live,
        dead=each.dead,
        size_bytes=each.size_bytes,
        dead_bytes=each.dead_bytes,
        growth=_known(each.growth),
        xid_age=each.xid_age,
        mxid_age=each.mxid_age,
        toast_xid_age=each.toast_xid_age,
        toast_mxid_age=each.toast_mxid_age,
        vacuums=each.vacuums,
        autovacuums=each.autovacuums,
    )


def _vacuum(each: VacuumCourse) -> TableVacuum:
    return TableVacuum(
        relation=each.relation,
        automatic=each.automatic,
        to_prevent_wraparound=each.to_prevent_wraparound,
        failsafe=each.failsafe,
        count=each.count,
        phases=tuple(VacuumPhase(phase=name, seconds=seen) for name, seen in each.phases),
        scanned_share=_known(each.scanned_share),
        index_passes=each.index_passes,
        memory_share=_known(each.memory_share),
        asleep_share=_known(each.asleep_share),
        pages_per_s=_known(each.pages_per_s),
        left_s=_known(each.left_s),
        effect=_effect(each.effect),
    )


def _effect(effect: VacuumRatios) -> VacuumEffect:
    tps, tps_ci95 = _ratio(effect.throughput)
    p99, p99_ci95 = _ratio(effect.p99)
    return VacuumEffect(
        seconds_during=effect.seconds_during,
        seconds_without=effect.seconds_without,
        seconds_held=effect.seconds_held,
        throughput_ratio=tps,
        throughput_ci95=tps_ci95,
        latency_p99_ratio=p99,
        latency_p99_ci95=p99_ci95,
    )


def _ratio(
    found: tuple[float, float, float] | None,
) -> tuple[float | None, tuple[float, float] | None]:
    if found is None:
        return None, None
    ratio, lo, hi = map(numbers.rounded, found)
    return ratio, (lo, hi)


def _known(value: float | None) -> float | None:
    return None if value is None else numbers.rounded(value)
