"""Indexes that are there and that the plans of the load's statements cannot use, and scans that
look for few of many rows without one."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from pgdyno.facts.plans import (
    PlannedStatement,
    TimedChange,
    nodes_share,
    planned_statements,
    timed_indexes,
    trials_of_sql,
)
from pgdyno.facts.situation import Situation
from pgdyno.plans.wanted_indexes import Search, searches
from pgdyno.record import UnusableIndex, WhyUnusable

OF_INDEX = (
    WhyUnusable.INVALID,
    WhyUnusable.PREDICATE,
    WhyUnusable.METHOD,
    WhyUnusable.LATER_COLUMN,
    WhyUnusable.OF_EXPRESSION,
)
"""Reasons that are in the index, so that one on the column alone could be used; the others are in
the condition."""


class CostlySearch(Struct, frozen=True):
    """A search for few of many rows in the plan of a statement."""

    statement: PlannedStatement
    search: Search
    table: str
    share: float
    """Of the response time."""

    @property
    def condition(self) -> str:
        """The conditions of the search, or its order, as EXPLAIN has them."""
        conditions = self.search.conditions if self.search.has_condition else self.search.order
        return ", ".join(conditions)


def untried_searches(s: Situation) -> list[CostlySearch]:
    """Return the searches for few of many rows in tables of which no index was tried, those that
    take most time first. Raises Skip if the plans were not looked at."""
    tried = {table for each in timed_indexes(s) for table in each.change.indexes}
    found = [
        CostlySearch(each, search, table, nodes_share(s, each, [search.node]))
        for each in planned_statements(s)
        if each.plan is not None
        for search in searches(each.plan)
        if search.is_for_few and (table := search.table_in(each.plan)) not in tried
    ]
    return sorted(found, key=lambda each: -each.share)


def instead_of(s: Situation, table: str, column: str) -> UnusableIndex | None:
    """Return the index of a table that is there for comparisons of a column and cannot be used;
    None if there is none. An invalid one comes first."""
    found = {
        each.reason: each
        for each in s.run.unusable_indexes(s.slice_ids)
        if (each.relation, each.compared) == (table, column)
    }
    return next((found[reason] for reason in OF_INDEX if reason in found), None)


def hidden_indexes(s: Situation) -> list[UnusableIndex]:
    """Return the indexes that conditions cannot use as they are written, each once."""
    rows = s.run.unusable_indexes(s.slice_ids)
    return [*{each.index_name: each for each in rows if each.reason not in OF_INDEX}.values()]


def timed_use(
    s: Situation, unusable: Iterable[UnusableIndex]
) -> list[tuple[TimedChange, UnusableIndex]]:
    """Return the trials of what would let statements use an index, each with the first index that
    it is for, those that save most first."""
    made: dict[tuple[str, ...], UnusableIndex] = {}
    for each in unusable:
        made.setdefault((each.make,), each)
    return trials_of_sql(s, made)


def scan_share(s: Situation, table: str) -> float:
    """Return the share of the response time that scans of a whole table take, by the plans that
    were executed."""
    share = 0.0
    for each in planned_statements(s):
        nodes = () if each.plan is None else each.plan.nodes()
        scans = [node for node in nodes if node.reads_whole_table and node.relation == table]
        share += nodes_share(s, each, scans)
    return share
