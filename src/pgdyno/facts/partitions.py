"""Partitions that statements read and find nothing in, by their plans."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from pgdyno.facts.plans import PlannedStatement, TimedChange, executed_ms, planned_statements
from pgdyno.facts.situation import Situation
from pgdyno.facts.without import without_time
from pgdyno.plans.conditions import comparisons, refers_to, without_alias
from pgdyno.plans.tree import Node
from pgdyno.record import Place, TablePartition
from pgdyno.spec.sql_text import NAME

_SETTING = "enable_partition_pruning"


class WhyUnpruned(Enum):
    """The reason why partitions are read that have no row for a statement."""

    SETTING = "setting"
    NO_CONDITION = "no condition"
    """None compares a column of the key."""
    EXPRESSION = "expression"
    """A column of the key is within an expression, or cast."""
    VALUES = "values"
    """The values lie in these partitions, or are known too late."""


class ReadPartitions(Struct, frozen=True):
    """The partitions of a table that a statement reads."""

    statement: PlannedStatement
    root: str
    key: str
    partitions: int
    """Number of partitions that the table has."""
    read: int
    empty: int | None
    """Those that gave no row; None if the statement was not executed."""
    empty_ms: float
    """Time that it took to find nothing in them."""
    why: WhyUnpruned
    timed: TimedChange | None
    """The load without this time; None if the statement was not executed."""


def read_partitions(s: Situation) -> list[ReadPartitions]:
    """Return the partitioned tables that statements read, those with most time in partitions that
    gave no row first. Raises Skip if the plans were not looked at."""
    known = {each.relation: each for each in s.run.table_partitions(s.slice_ids)}
    executed = executed_ms(s)
    found = []
    for each in planned_statements(s):
        if each.plan is None:
            continue
        by_root: dict[str, list[Node]] = {}
        for node in _scans(each.plan.root):
            if node.relation in known:
                by_root.setdefault(known[node.relation].root, []).append(node)
        for nodes in by_root.values():
            found.append(_read(s, each, nodes, known[nodes[0].relation], executed))
    return sorted(found, key=lambda each: (-each.empty_ms, -each.read))


def _scans(node: Node) -> Iterator[Node]:
    """Yield the nodes that read a table, without those below them."""
    if node.relation and node.kind != "ModifyTable":
        yield node
        return
    for child in node.children:
        yield from _scans(child)


def _read(
    s: Situation,
    statement: PlannedStatement,
    nodes: Sequence[Node],
    partition: TablePartition,
    executed: Mapping[Place, float],
) -> ReadPartitions:
    place, is_executed = statement.total.place, nodes[0].loops is not None
    read = [node for node in nodes if node.loops or not is_executed]
    empty = [node for node in read if is_executed and not node.rows]
    empty_ms = sum(node.time_ms or 0.0 for node in empty)
    return ReadPartitions(
        statement=statement,
        root=partition.root,
        key=partition.key,
        partitions=partition.partitions,
        read=len({node.relation for node in read}),
        empty=len({node.relation for node in empty}) if is_executed else None,
        empty_ms=empty_ms,
        why=_why(statement, nodes[0], partition.key),
        timed=without_time(s, executed, {place: empty_ms}) if is_executed else None,
    )


def _why(statement: PlannedStatement, node: Node, key: str) -> WhyUnpruned:
    assert statement.plan is not None, "the node is of it"
    if statement.plan.settings.get(_SETTING) == "off":
        return WhyUnpruned.SETTING
    columns = set(re.findall(NAME, key.partition("(")[2]))
    is_within = False
    for below in node.walk():
        for condition in below.conditions.values():
            for comparison in comparisons(condition):
                for side, _ in comparison.sides():
                    mine = without_alias(side, node.alias)
                    if not refers_to(side, node.alias):
                        continue
                    if mine in columns:
                        return WhyUnpruned.VALUES
                    is_within = is_within or not columns.isdisjoint(re.findall(NAME, mine))
    return WhyUnpruned.EXPRESSION if is_within else WhyUnpruned.NO_CONDITION
