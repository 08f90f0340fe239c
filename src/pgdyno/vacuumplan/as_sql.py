"""A plan as SQL to paste into psql, each statement below its reasons."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator

from pgdyno.escaping import visible
from pgdyno.numbers import counted, duration, effect, figure, listed, percent, size
from pgdyno.results.vacuum_plan import (
    PlannedTable,
    Proof,
    ProofEffects,
    ProofSide,
    VacuumPlanResult,
)
from pgdyno.vacuumplan._advising import shown

_WIDTH = 110
_NAMED = 20
"""Tables without a statement that are named."""
_NO_RATIO = "without a ratio (zero or not counted in a round)"
PERIODS_MIN = 2.0
"""Of the plan's periods: before the end of the first one, nothing has been vacuumed."""


def as_sql(plan: VacuumPlanResult) -> str:
    """Return the plan as SQL with comments; it runs as it is."""
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: VacuumPlanResult) -> Iterator[str]:
    yield from _comment(
        f"PostgreSQL {plan.version}, database {plan.database}; rates over {duration(plan.over_s)}"
        f" ({plan.since}); aim: a vacuum about every {duration(3600 * plan.every_h)}"
    )
    if plan.xids_h:
        forced = plan.to_forced_vacuum_h
        until = "" if forced is None else f": forced freezing in {duration(3600 * forced)}"
        yield from _comment(f"{figure(plan.xids_h)} transaction IDs an hour{until}")
    for warning in plan.warnings:
        yield from _comment(f"warning: {warning}")
    if plan.proof is not None:
        yield from _proof(plan.proof, plan.every_h)
    for setting in plan.settings:
        yield ""
        yield from _comment(f"{setting.name}: {setting.reason}")
        yield f"ALTER SYSTEM SET {setting.name} = {shown(setting.name, float(setting.value))};"
    for table in plan.tables:
        if table.statement:
            yield ""
            yield from _table(table, table.statement)
    yield from _left(plan)


def _left(plan: VacuumPlanResult) -> Iterator[str]:
    """Tables without a statement: however many there are, in few lines."""
    same = [each for each in plan.tables if not each.statement]
    if same or plan.not_planned:
        yield ""
    if same:
        what = counted(len(same), "table", "tables")
        line = f"left as they are, {what} that no plan would vacuum earlier:"
        line += f" {listed([each.relation for each in same], _NAMED)}"
        if unsure := sum(bool(each.unsure) for each in same):
            line += f" (something is not known of {figure(unsure)}: --format json)"
        yield from _comment(line)
    for each in plan.not_planned[:_NAMED]:
        yield from _comment(f"{each.relation}: not planned; {each.why}")
    if (more := len(plan.not_planned) - _NAMED) > 0:
        yield from _comment(f"and {figure(more)} more not planned: --format json")


def _proof(proof: Proof, every_h: float) -> Iterator[str]:
    once = " (one run each: small differences mean nothing)" if proof.effects is None else ""
    yield from _comment(
        f"tried on a model of {counted(len(proof.tables), 'table', 'tables')},"
        f" {counted(proof.rounds, 'round', 'rounds')} of {duration(proof.seconds)} each,"
        f" {figure(proof.times_faster)} times faster than the real load{once}"
    )
    yield from _comment(f"present settings: {_side(proof.present)}")
    yield from _comment(f"plan:             {_side(proof.plan)}")
    if proof.effects is not None:
        yield from _comment(f"plan over present: {_effects(proof.effects)}")
    period_s = 3600 * every_h / proof.times_faster
    periods = proof.seconds / period_s
    if periods < PERIODS_MIN:
        yield from _comment(
            f"warning: {figure(periods)} of the plan's periods of {duration(3600 * every_h)} are"
            " too short to see their effect: try it for longer, as with --prove"
            f" {math.ceil(PERIODS_MIN * period_s)}s"
        )


def _effects(effects: ProofEffects) -> str:
    named = {
        "size": effects.size_ratio,
        "dead rows": effects.dead_share,
        "vacuum's share of I/O": effects.vacuum_io_share,
        "p99": effects.p99_ms,
    }
    said = [
        f"{name} {_NO_RATIO if each is None else effect(each.ratio, *each.ci95)}"
        for name, each in named.items()
    ]
    return ", ".join(said) + " (95 % intervals, paired by round)"


def _side(side: ProofSide) -> str:
    share, p99, left = side.vacuum_io_share, side.p99_ms, side.to_forced_vacuum_h
    said = [
        f"{figure(side.vacuums)} {'vacuum' if side.vacuums == 1 else 'vacuums'}",
        f"tables {side.size_ratio:.3g} times their size",
        f"{percent(side.dead_share)} of the rows dead",
        f"vacuum's share of I/O {'not known' if share is None else percent(share)}",
        f"p99 {'not known' if p99 is None else f'{figure(p99)} ms'}",
    ]
    if left is not None:
        said.append(f"forced freezing in {duration(3600 * left)}")
    return ", ".join(said)


def _table(table: PlannedTable, statement: str) -> Iterator[str]:
    hot = "" if table.hot_share is None else f" ({percent(table.hot_share)} HOT)"
    bytes_now = "size not known" if table.size_bytes is None else size(table.size_bytes)
    yield from _comment(
        f"{table.relation}: {figure(table.rows)} rows, {bytes_now}; per hour"
        f" {figure(table.inserts_h)} inserts, {figure(table.updates_h)} updates{hot},"
        f" {figure(table.deletes_h)} deletes"
    )
    now, planned = _every(table.now_every_h), _every(table.planned_every_h)
    same = table.now_every_h == table.planned_every_h
    yield from _comment(
        f"vacuumed {now}, now and with the plan"
        if same
        else f"vacuumed {now} now, {planned} with the plan"
    )
    for option in table.options:
        yield from _comment(f"{option.name}: {option.reason}", indent="  ")
    for each in table.unsure:
        yield from _comment(f"not known: {each}", indent="  ")
    yield statement


def _every(hours: float | None) -> str:
    return "never" if hours is None else f"every {duration(3600 * hours)}"


def _comment(text: str, indent: str = "") -> list[str]:
    """Return comment lines; a name with a line break cannot end one."""
    plain = visible(" ".join(text.split()))
    return textwrap.wrap(
        plain,
        _WIDTH,
        initial_indent=f"-- {indent}",
        subsequent_indent=f"--   {indent}",
        break_on_hyphens=False,
        break_long_words=False,
    )
