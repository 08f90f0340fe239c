"""Statements of the load that it could do without. Those that neither read nor change rows set up
or divide transactions and sessions, or check a connection. Those that a transaction repeats for one
row after another could be one statement. Each costs a round trip, and both programs' work for it.
Tables that a transaction makes and drops cost rows of the catalogs, and files.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from pgdyno.facts.plans import planned_statements, was_looked_at
from pgdyno.facts.shapes import shape
from pgdyno.facts.situation import Situation
from pgdyno.plans.conditions import functions_in
from pgdyno.plans.tree import Plan
from pgdyno.record import StatementTotal
from pgdyno.record.finding import Skip
from pgdyno.spec.change import begins_with, controls_transaction
from pgdyno.spec.sql_text import is_commit

_WITHOUT_ROWS = frozenset(("deallocate", "discard", "release", "reset", "savepoint", "set", "show"))
_OF_SCHEMA = frozenset(("alter", "create", "drop", "truncate"))
_OF_ROWS = frozenset(("copy", "delete", "insert", "merge", "update", "with"))
_OF_SESSION = frozenset(("deallocate", "discard"))
_Script: TypeAlias = tuple[str, str]
"""Client group and name."""


class NeedlessStatement(Struct, frozen=True):
    """A statement that reads and changes no rows of the application's."""

    total: StatementTotal
    ms: float
    """Of each transaction of the load, as its clients see it."""


class RepeatedStatement(Struct, frozen=True):
    """A statement that each transaction of a script executes more than once, also in a loop, if
    only with other values."""

    text: str
    per_transaction: float
    """Executions for each transaction of its script."""
    repeats_per_s: float
    """Executions beyond the first one of each transaction."""


def needless_statements(s: Situation) -> list[NeedlessStatement]:
    """Return the statements without rows, those that take most time first. Raises Skip if the
    statements of the load have no times of their own."""
    _refuse_without_times(s)
    plans = {}
    if was_looked_at(s):
        plans = {each.total.place: each.plan for each in planned_statements(s)}
    return _by_time(
        s,
        [
            each
            for each in s.statements
            if begins_with(each.statement, _WITHOUT_ROWS) or _reads_nothing(plans.get(each.place))
        ],
    )


def schema_statements(s: Situation) -> list[NeedlessStatement]:
    """Return the statements that make, change, empty or drop tables and the like, as
    ``needless_statements``; and the COMMIT of a script that writes nothing else."""
    _refuse_without_times(s)
    only_changing = _scripts_with(s, _OF_SCHEMA) - _scripts_with(s, _OF_ROWS)
    return _by_time(
        s,
        [
            each
            for each in s.statements
            if begins_with(each.statement, _OF_SCHEMA)
            or (is_commit(each.statement) and _script_of(each) in only_changing)
        ],
    )


def part_of(s: Situation, statements: Callable[[Situation], list[NeedlessStatement]]) -> float:
    """Return the part of the time of all statements that these take; 0 if it is not known."""
    try:
        taken_ms = sum(each.ms for each in statements(s))
    except Skip:
        return 0.0
    whole_ms = sum(_ms(s, each) for each in s.statements)
    return taken_ms / whole_ms if whole_ms > 0 else 0.0


def repeated_statements(s: Situation) -> list[RepeatedStatement]:
    """Return these statements, those that are repeated most first. Raises Skip for requests."""
    if s.is_http:
        raise Skip("the load sends requests, not statements")
    same: dict[tuple[_Script, str], list[StatementTotal]] = defaultdict(list)
    for each in s.statements:
        if not controls_transaction(each.statement) and not begins_with(
            each.statement, _WITHOUT_ROWS
        ):
            same[_script_of(each), shape(each.statement)].append(each)
    transactions = _transactions(s)
    repeated = (_repeated(s, totals, transactions[script]) for (script, _), totals in same.items())
    found = [each for each in repeated if each.repeats_per_s > 0]
    return sorted(found, key=lambda each: -each.repeats_per_s)


def forgets_prepared(s: Situation) -> bool:
    """Return whether a statement of the load gives up what its session has prepared."""
    return any(begins_with(each.statement, _OF_SESSION) for each in s.statements)


def _refuse_without_times(s: Situation) -> None:
    if s.is_http or s.overlapping_groups or not s.statements:
        raise Skip("the statements have no times of their own")


def _scripts_with(s: Situation, beginnings: Collection[str]) -> set[_Script]:
    """Return the scripts that have a statement with one of these beginnings."""
    return {_script_of(each) for each in s.statements if begins_with(each.statement, beginnings)}


def _script_of(total: StatementTotal) -> _Script:
    return total.client_group, total.script


def _by_time(s: Situation, totals: Iterable[StatementTotal]) -> list[NeedlessStatement]:
    return sorted([NeedlessStatement(each, _ms(s, each)) for each in totals], key=lambda e: -e.ms)


def _ms(s: Situation, total: StatementTotal) -> float:
    return total.spent_ns / 1e6 / (s.throughput_tps * s.seconds)


def _reads_nothing(plan: Plan | None) -> bool:
    if plan is None or plan.root.kind != "Result" or plan.root.children:
        return False
    return not any(map(functions_in, plan.root.output))


def _transactions(s: Situation) -> defaultdict[_Script, float]:
    """Return how often each script was executed; as often as any of its statements in the load of
    others."""
    if s.is_observed:
        return defaultdict(lambda: math.inf)
    found: defaultdict[_Script, float] = defaultdict(float)
    for each in s.run.intervals(s.slice_ids, by=("client_group", "script")):
        found[each.client_group or "", each.script or ""] += each.done + each.failed
    return found


def _repeated(
    s: Situation, totals: Sequence[StatementTotal], transactions: float
) -> RepeatedStatement:
    executions = sum(each.done for each in totals)
    # Those of a condition are in a part of the script's transactions, those of a loop in each.
    having = min(transactions, max(each.done for each in totals))
    return RepeatedStatement(
        text=totals[0].statement,
        per_transaction=executions / having if having else 0.0,
        repeats_per_s=(executions - having) / s.seconds,
    )
