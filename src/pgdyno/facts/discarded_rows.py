"""Rows that statements read and do not need: skipped by OFFSET, or removed by a condition after a
subquery has read them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Struct

from pgdyno.facts.plans import PlannedStatement, TimedChange, executed_ms, planned_statements
from pgdyno.facts.situation import Situation
from pgdyno.facts.without import without_time
from pgdyno.plans.conditions import columns_of, plain_columns
from pgdyno.plans.tree import Node
from pgdyno.plans.wanted_indexes import reads_much_for_little
from pgdyno.record import Place

_SUBQUERIES = ("CTE Scan", "Subquery Scan")


class SkippedRows(Struct, frozen=True):
    """A statement that skips rows."""

    statement: PlannedStatement
    skipped: float
    """Rows of an execution, all executions of the node together."""
    returned: float
    ms: float
    """Time until they were skipped, of the sort or the scan that must come before them apart."""
    timed: TimedChange
    """The statements without this time; its change is empty."""


def skipped_rows(s: Situation) -> list[SkippedRows]:
    """Return the statements that were executed and skip rows, those that it takes most time first.
    Raises Skip if the plans were not looked at."""
    executed = executed_ms(s)
    found = [
        SkippedRows(
            each,
            skipped=(limit.children[0].rows or 0.0) - (limit.rows or 0.0),
            returned=limit.rows or 0.0,
            ms=_ms(limit),
            timed=without_time(s, executed, {each.total.place: _ms(limit)}),
        )
        for each, limit in _nodes(s, executed)
        if limit.kind == "Limit" and (limit.children[0].rows or 0.0) > (limit.rows or 0.0)
    ]
    return sorted(found, key=lambda each: -each.timed.saved)


def _ms(limit: Node) -> float:
    """Return the time from the first row below a Limit to the first that it returns."""
    below_ms = limit.children[0].startup_ms or 0.0
    return max(0.0, (limit.startup_ms or 0.0) - below_ms)


class LateCondition(Struct, frozen=True):
    """A statement with a condition on the result of a subquery that keeps few of its rows."""

    statement: PlannedStatement
    condition: str
    """As EXPLAIN has it."""
    read: float
    """Rows of the subquery, in all executions of the node together."""
    kept: float
    ms: float
    """Time of the subquery for the rows that are removed."""
    timed: TimedChange
    """The statements without this time; its change is empty."""


def late_conditions(s: Situation) -> list[LateCondition]:
    """Return the statements that were executed with such conditions, those that it takes most time
    first. Raises Skip if the plans were not looked at."""
    executed = executed_ms(s)
    found = [
        LateCondition(
            each,
            condition=node.conditions["Filter"],
            read=node.read,
            kept=node.rows or 0.0,
            ms=_removed_ms(node),
            timed=without_time(s, executed, {each.total.place: _removed_ms(node)}),
        )
        for each, node in _nodes(s, executed)
        if node.kind in _SUBQUERIES
        and node.loops
        and "Filter" in node.conditions
        and reads_much_for_little(node)
        and not _is_of_window(node)
    ]
    return sorted(found, key=lambda each: -each.timed.saved)


def _is_of_window(node: Node) -> bool:
    """Return whether the condition of a subquery is on what its window functions compute, which
    needs all rows: a column that is none of those below it."""
    window = next((each for each in _above_others(node) if each.kind == "WindowAgg"), None)
    if window is None:
        return False
    return not columns_of(node.conditions["Filter"], node.alias) <= plain_columns(window.output)


def _above_others(node: Node) -> Iterator[Node]:
    """Yield the nodes below one, the first with several or no children being the last."""
    while len(node.children) == 1:
        (node,) = node.children
        yield node


def _removed_ms(node: Node) -> float:
    return (node.time_ms or 0.0) * node.removed / node.read


def _nodes(s: Situation, executed: Collection[Place]) -> Iterator[tuple[PlannedStatement, Node]]:
    """Yield the nodes of the plans that were executed, each with its statement."""
    for each in planned_statements(s):
        if each.plan is not None and each.total.place in executed:
            for node in each.plan.nodes():
                yield each, node
