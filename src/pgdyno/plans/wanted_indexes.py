"""Indexes that may make the load's statements faster: for what scans of many rows compare to find a
few, by no index or by one that leaves many rows or has the column behind others; for the order of
which statements want the first rows alone; and for foreign keys.

Whether one does is measured afterwards; a candidate is no finding. Its keys are columns, or
expressions as EXPLAIN has them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.plans.conditions import (
    IS,
    ORDERED,
    PATTERNS,
    alternatives,
    comparisons,
    has_columns,
    names_in,
    refers_to,
    without_alias,
)
from pgdyno.plans.tree import Node, Plan
from pgdyno.server.sql_files import query_at
from pgdyno.spec.change import Change
from pgdyno.spec.index_text import BTREE, IndexText, together
from pgdyno.spec.sql_text import columns_text, folded

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

SCANNED_SHARE_MAX = 0.2
"""Part of the rows of a scan that a condition may leave for an index to be tried: beyond, fetching
rows one by one reads every page anyway."""
ROWS_MIN = 1000
"""Rows of a scan below which no index is tried."""
INDEXED_BYTES_MAX = 256 << 20
"""Largest table for which an index is made for a trial."""
INDEXES_MAX = 3
KEYS_MAX = 3
_JOINS = ("Hash Cond", "Merge Cond", "Join Filter")
_PASSING = frozenset(("Gather", "Gather Merge", "LockRows", "Result"))
"""Kinds of nodes that hand on rows in the order in which they get them."""
_DIRECTION = re.compile(r"(?s)(.*?)((?: (?:DESC|NULLS FIRST|NULLS LAST))*)")
_EXTREME = re.compile(r"(?s)(?:PARTIAL )?(?:min|max)\((.*)\)")
_TEXT = re.compile(r"(?s)\((.*)\)::text")
_BEGINNING = {"~~": re.compile(r"'[^%_']"), "~": re.compile(r"'\^\w")}
"""Operators whose patterns may begin with the letters that are looked for, and such a pattern."""
_RANGE, _GEOMETRY = "R", "G"
"""Categories of types."""
Wanted = tuple[str, str, float]
"""Table, text of the index, and time or cost of the scan."""


class Search(Struct, frozen=True):
    """A scan of many rows that an index might spare."""

    node: Node
    joins: tuple[str, ...]
    """Conditions of the joins above it."""
    order: tuple[str, ...]
    """Keys of a sort, or of a minimum or maximum, of which the first rows are wanted."""
    behind: str = ""
    """The first key of the index that it reads, which its condition does not compare: it looks for
    rows in all of that index, or once for each value of the key (from version 18)."""

    @property
    def has_condition(self) -> bool:
        """True if a condition keeps few of the rows or entries that it reads."""
        return bool(self.behind) or "Filter" in self.node.conditions

    @property
    def is_for_few(self) -> bool:
        """True if a condition keeps few of the rows that it reads, or few of these are wanted; else
        it serves a join, or all rows are needed."""
        return bool(self.order) or self.has_condition

    @property
    def conditions(self) -> tuple[str, ...]:
        """Its own conditions, or else those of the joins above it."""
        if self.behind:
            return self.node.scan_conditions or self.joins
        return (self.node.conditions["Filter"],) if "Filter" in self.node.conditions else self.joins

    def table_in(self, plan: Plan) -> str:
        """Return the table that it reads, or whose partition it does."""
        return plan.wholes.get(self.node.relation, self.node.relation)


def searches(plan: Plan) -> list[Search]:
    """Return the scans of a plan that look for a few of many rows, or serve a join."""
    return [*_searches(plan, plan.root, (), (), first=False, parts=_partitions_read(plan))]


def reads_much_for_little(node: Node, parts: int = 1) -> bool:
    """True if a scan finds a small part of the rows that it reads, or serves a join; where it was
    not executed, every one may. Of a partition, ``parts`` are read alike."""
    if not _reads_many(node, parts):
        return False
    is_executed = node.rows is not None and node.loops
    return (
        not is_executed
        or "Filter" not in node.conditions
        or (node.rows or 0.0) <= SCANNED_SHARE_MAX * node.read
    )


def _reads_many(node: Node, parts: int) -> bool:
    return node.rows is None or not node.loops or parts * node.read / node.loops >= ROWS_MIN


def _partitions_read(plan: Plan) -> Counter[str]:
    """Return the number of scans of partitions by the table that these belong to."""
    scanned = [each.relation for each in plan.nodes() if each.kind != "ModifyTable"]
    return Counter(plan.wholes[each] for each in scanned if each in plan.wholes)


def _searches(
    plan: Plan,
    node: Node,
    joins: tuple[str, ...],
    order: tuple[str, ...],
    *,
    first: bool,
    parts: Mapping[str, int],
) -> Iterator[Search]:
    """Yield those of a node and below it. ``first``: its first rows alone are wanted; ``order``:
    the first in this order; ``parts``: partitions read of each table."""
    if node.relation and node.kind != "ModifyTable":
        behind, alike = _key_before(plan, node), parts.get(plan.wholes.get(node.relation, ""), 1)
        if behind or _discards_most(node, alike) or (order and _reads_many(node, alike)):
            yield Search(node, joins, order, behind)
    mine = tuple(node.conditions[name] for name in _JOINS if name in node.conditions)
    below = order if node.kind in _PASSING else ()
    if node.kind == "Sort" and first and has_columns(node.sort_keys[0]):
        below = node.sort_keys
    elif (node.kind, node.strategy, len(node.output)) == ("Aggregate", "Plain", 1):
        below = tuple(found[1] for found in map(_EXTREME.fullmatch, node.output) if found)
    first = node.kind == "Limit" or (first and node.kind in _PASSING)
    for child in node.children:
        yield from _searches(plan, child, (*joins, *mine), below, first=first, parts=parts)


def _discards_most(node: Node, parts: int) -> bool:
    """True for a scan of a whole table that finds little, or serves a join, and for one by an index
    whose filter was seen to leave little."""
    if node.reads_whole_table:
        return reads_much_for_little(node, parts)
    was_filtered = "Filter" in node.conditions and bool(node.loops) and node.rows is not None
    return bool(node.index_searches) and was_filtered and reads_much_for_little(node, parts)


def _key_before(plan: Plan, node: Node) -> str:
    """Return the first key of an index that a scan searches by other keys alone; '' if none."""
    schema = node.relation.rpartition(".")[0]
    for each in node.index_searches:
        key = plan.first_keys.get(f"{schema}.{each.index}")
        condition = each.conditions.get("Index Cond")
        if key and condition and names_in(key).isdisjoint(names_in(condition)):
            return key
    return ""


def index_candidates(conn: Control, plans: Sequence[Plan]) -> list[Change]:
    """Return the indexes to try, each a change of its own, those of the longest scans first."""
    wanted: dict[tuple[str, str], float] = {}
    for relation, text, time_ms in (*_of_scans(conn, plans), *_of_foreign_keys(conn, plans)):
        key = (relation, text)
        wanted[key] = wanted.get(key, 0.0) + time_ms
    longest = sorted(wanted, key=lambda key: -wanted[key])[:INDEXES_MAX]
    return [Change(indexes={relation: text}) for relation, text in longest]


class _Column(Struct, frozen=True):
    name: str
    leads_index: bool
    """True if an index that finds single rows, of all rows, begins with it."""
    type_name: str
    category: str
    """Of its type, as pg_type has it."""
    size_bytes: int
    """Of the table."""
    methods: Sequence[str]
    """Of the indexes of all rows that have it."""


class _Key(Struct, frozen=True):
    """A key that an index of one method would have."""

    sql: str
    is_equal: bool
    column: str = ""
    """Its name, if it is a column and nothing else."""
    method: str = BTREE


def _of_scans(conn: Control, plans: Sequence[Plan]) -> Iterator[Wanted]:
    found = [(each.table_in(plan), each) for plan in plans for each in searches(plan)]
    known = _columns(conn, {table for table, _ in found})
    for table, search in found:
        columns = known.get(table, {})
        if columns and next(iter(columns.values())).size_bytes <= INDEXED_BYTES_MAX:
            for indexes in _wanted(search, columns):
                text = together(*map(_text, indexes))
                yield table, text, search.node.time_ms or search.node.cost


def _columns(conn: Control, relations: Iterable[str]) -> dict[str, dict[str, _Column]]:
    found: dict[str, dict[str, _Column]] = {}
    for relation, *members in conn.execute(query_at(conn, "plans", "columns"), ([*relations],)):
        column = _Column(*members)
        found.setdefault(relation, {})[column.name] = column
    return found


def _wanted(search: Search, columns: Mapping[str, _Column]) -> Iterator[Sequence[Sequence[_Key]]]:
    """Yield the indexes that a scan might use, those together that it needs together, as their
    keys."""
    node = search.node
    own = node.scan_conditions
    compared: list[_Key] = []
    for conditions in (own, *([each] for each in search.joins)):
        for condition in conditions:
            compared += _compared(condition, node.alias, columns)
        if compared:
            break  # What applies to the scan itself decides before the joins above it.
    if not compared and (lacking := _lacking_alternatives(own, node.alias, columns)):
        yield [[key] for key in lacking]
    for key in compared:
        if key.method != BTREE:
            yield [[key]]
    ordered = [key for key in compared if key.method == BTREE]
    equal = [key for key in ordered if key.is_equal]
    sorted_by = [] if len(ordered) > len(equal) else _sorted_by(search, columns)
    rest = sorted_by or [key for key in ordered if not key.is_equal][:1]
    keys = [*{key.sql: key for key in (*equal, *rest)}.values()][:KEYS_MAX]
    leading = [key for key in keys if key.column and columns[key.column].leads_index]
    by_index = bool(node.index_searches) and len(keys) > 1
    if keys and (not leading or (sorted_by and equal) or by_index):
        yield [keys]


def _lacking_alternatives(
    conditions: Iterable[str], alias: str, columns: Mapping[str, _Column]
) -> list[_Key]:
    """Return the keys of the indexes that the alternatives of a condition lack, which are used only
    together; none where an alternative can have no index, or they are many."""
    for condition in conditions:
        parts = alternatives(condition)
        lacking: dict[str, _Key] = {}
        for part in parts if len(parts) > 1 else ():
            keys = [*_compared(part, alias, columns)]
            if not keys:
                break
            if not any(key.column and columns[key.column].leads_index for key in keys):
                key = next((each for each in keys if each.is_equal), keys[0])
                lacking[key.sql] = key
        else:
            if 0 < len(lacking) <= INDEXES_MAX:
                return [*lacking.values()]
    return []


def _compared(condition: str, alias: str, columns: Mapping[str, _Column]) -> Iterator[_Key]:
    """Yield the keys for the comparisons of a condition, those of one column once."""
    for comparison in comparisons(condition):
        for side, other in comparison.sides():
            if refers_to(side, alias) and not refers_to(other, alias):
                key = _key(without_alias(side, alias), comparison.operator, other, columns)
                if key is not None:
                    yield key


def _key(expression: str, operator: str, other: str, columns: Mapping[str, _Column]) -> _Key | None:
    """Return the key for a comparison of an expression of the table; None if there is none."""
    cast = _TEXT.fullmatch(expression)
    inner = columns.get(folded(cast[1])) if cast is not None else None
    if cast is not None and inner is not None and inner.type_name == "varchar":
        expression = cast[1]  # The same values.
    column, sql = _named(expression, columns)
    name = "" if column is None else column.name
    if operator in ORDERED or (operator == IS and name):
        within = {folded(each) for each in names_in(expression)}
        if not name and any(columns[each].leads_index for each in within & columns.keys()):
            return None  # That index cannot be used as the condition is written.
        return _Key(sql, operator in ("=", IS), name)
    if operator in PATTERNS:
        if _may_begin_with(operator, other):
            is_there = column is not None and column.leads_index
            return None if is_there else _Key(f"{sql} text_pattern_ops", is_equal=False)
        return _unless_there(column, _Key(f"{sql} gin_trgm_ops", is_equal=False, method="gin"))
    if operator in (IS, "<>"):
        return None
    is_gist = column.category in (_RANGE, _GEOMETRY) if column is not None else operator == "&&"
    return _unless_there(column, _Key(sql, is_equal=False, method="gist" if is_gist else "gin"))


def _unless_there(column: _Column | None, key: _Key) -> _Key | None:
    """Return a key of a column; None if an index of its method has that: it is there and not
    used."""
    return None if column is not None and key.method in column.methods else key


def _named(expression: str, columns: Mapping[str, _Column]) -> tuple[_Column | None, str]:
    """Return the column that an expression is, if it is one, and the expression as a key."""
    column = columns.get(folded(expression))
    return column, f"({expression})" if column is None else columns_text([column.name])


def _may_begin_with(operator: str, pattern: str) -> bool:
    """Return whether a pattern may begin with letters; if it is no constant, it may."""
    beginning = _BEGINNING.get(operator)
    if beginning is None:
        return False
    return not pattern.startswith("'") or beginning.match(pattern) is not None


def _sorted_by(search: Search, columns: Mapping[str, _Column]) -> list[_Key]:
    """Return the keys of a search's order; none if it is not by its table alone."""
    alias, keys, directions = search.node.alias, [], []
    for each in search.order:
        found = _DIRECTION.fullmatch(each)
        if found is None or " USING " in each:
            return []
        expression = without_alias(found[1], alias)
        column, text = _named(expression, columns)
        if column is None and not refers_to(found[1], alias):
            return []  # Of a query on a single table, EXPLAIN gives output without its alias.
        keys.append(_Key(text, False, "" if column is None else column.name))
        directions.append(found[2])
    if len({*directions}) <= 1 and "NULLS" not in "".join(directions):
        return keys  # An index is read in either direction.
    return [
        _Key(f"{key.sql}{direction}", False)
        for key, direction in zip(keys, directions, strict=True)
    ]


def _text(keys: Sequence[_Key]) -> str:
    names = [key.column for key in keys]
    listed = ", ".join(key.sql for key in keys)
    return IndexText(listed, keys[0].method, tuple(names) if all(names) else ()).text


def _of_foreign_keys(conn: Control, plans: Sequence[Plan]) -> Iterator[Wanted]:
    """Yield the foreign keys whose triggers look for rows without an index."""
    times: dict[str, float] = {}
    for trigger in (each for plan in plans for each in plan.triggers if each.constraint):
        times[trigger.constraint] = times.get(trigger.constraint, 0.0) + trigger.time_ms
    if not times:
        return
    rows = conn.execute(query_at(conn, "plans", "foreign_key_without_index"), ([*times],))
    for constraint, relation, columns in rows:
        yield relation, columns_text(columns), times[constraint]
