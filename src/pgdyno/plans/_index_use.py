"""Indexes that are there for what a scan of many rows compares, and the reason why its plan cannot
use them.

Of a comparison, the side of the table decides: a column, or an expression around one. Whether
another index would be used instead is measured afterwards, where it may be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.plans.conditions import (
    ORDERED,
    PATTERNS,
    TRIED_INDEX,
    Comparison,
    comparisons,
    functions_in,
    names_in,
    refers_to,
    without_alias,
)
from pgdyno.plans.tree import Node, Plan
from pgdyno.plans.wanted_indexes import searches
from pgdyno.record import Place, UnusableIndex, WhyUnusable
from pgdyno.server.sql_files import query_at
from pgdyno.spec.sql_text import relation

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

_PLAIN_METHODS = frozenset(("btree", "hash"))
_CAST = re.compile(r"\(?(?P<inner>.*?)\)?::(?P<type>[\w ]+(?:\([\d,]+\))?(?:\[\])?)", re.DOTALL)
_COLLATE = re.compile(r'\sCOLLATE\s("(?:[^"]|"")+"|[\w$]+)')
_TEXT_PATTERNS = ("~~", "~")
_C = frozenset(("C", "POSIX", "ucs_basic"))


class TableIndex(Struct, frozen=True):
    """An index of a table."""

    relation: str
    name: str
    """schema.name, as that of the table."""
    method: str
    is_valid: bool
    predicate: str
    """Of a partial index; '' if it has all rows."""
    keys: Sequence[str]
    """Columns and expressions, as SQL has them."""
    classes: Sequence[str]
    collations: Sequence[str]

    @property
    def is_plain(self) -> bool:
        """True if it can be used for any rows by comparisons of its first key."""
        return self.is_valid and not self.predicate and self.method in _PLAIN_METHODS


class VolatileFunction(Struct, frozen=True):
    """A function that may give another result each time."""

    name: str
    signature: str
    """As ALTER FUNCTION has it; '' of one that is built in."""


def unusable_indexes(
    conn: Control, plans: Iterable[tuple[Place, Plan]], indexes: Iterable[TableIndex]
) -> list[UnusableIndex]:
    """Return the indexes that scans of many rows cannot use, each once for a statement."""
    scans = [(place, each, each.table_in(plan)) for place, plan in plans for each in searches(plan)]
    names = {n for _, each, _ in scans for c in each.conditions for n in functions_in(c)}
    volatile = _volatile(conn, names) if names else []
    by_relation: dict[str, list[TableIndex]] = {}
    for each in indexes:
        by_relation.setdefault(each.relation, []).append(each)
    found: dict[tuple[object, ...], UnusableIndex] = {}
    for place, search, table in scans:
        node = search.node
        # One that is made in its place is one of all partitions.
        mine = [replace(each, relation=table) for each in by_relation.get(node.relation, [])]
        for comparison in (each for text in search.conditions for each in comparisons(text)):
            for unusable in _of_comparison(place, node, comparison, mine, volatile):
                # Of a join, the plan may be the best one: what is not tried says nothing.
                if unusable.make or search.has_condition:
                    found.setdefault((unusable.place, unusable.index_name), unusable)
    return [*found.values()]


def table_indexes(conn: Control, plans: Iterable[Plan]) -> list[TableIndex]:
    """Ask for the indexes of the tables in which plans read many rows."""
    read = {each.node.relation for plan in plans for each in searches(plan)}
    if not read:
        return []
    rows = conn.execute(query_at(conn, "plans", "table_indexes"), ([*read],))
    return [TableIndex(*row) for row in rows]


def first_keys(conn: Control, plan: Plan) -> dict[str, str]:
    """Return index → its first key of the indexes of several keys that a plan reads, which EXPLAIN
    does not tell, each as schema.name. Raises psycopg.Error."""
    names = {each.index for each in plan.nodes() if each.index}
    if not names:
        return {}
    return dict(conn.execute(query_at(conn, "plans", "first_keys"), (sorted(names),)).fetchall())


def _volatile(conn: Control, names: Iterable[str]) -> list[VolatileFunction]:
    rows = conn.execute(query_at(conn, "plans", "volatile_functions"), ([*names],))
    return [VolatileFunction(*row) for row in rows]


def _of_comparison(
    place: Place,
    node: Node,
    comparison: Comparison,
    indexes: Sequence[TableIndex],
    volatile: Sequence[VolatileFunction],
) -> Iterator[UnusableIndex]:
    """Yield the indexes that a scan cannot use for a comparison; none if it could use another."""
    if comparison.operator not in (*ORDERED, *PATTERNS):
        return
    for side, other in comparison.sides():
        if not refers_to(side, node.alias) or refers_to(other, node.alias):
            continue
        mine = without_alias(side, node.alias)
        whys = [(each, _why(each, mine, comparison, other, volatile)) for each in indexes]
        if any(e.is_plain and e.keys[0] == mine and why is None for e, why in whys):
            continue  # One could be used, and was not chosen.
        for index, why in whys:
            if why is not None:
                yield UnusableIndex(*place, node.relation, index.name, mine, *why)


_Why = tuple[WhyUnusable, str, str]


def _why(
    index: TableIndex,
    mine: str,
    comparison: Comparison,
    other: str,
    volatile: Sequence[VolatileFunction],
) -> _Why | None:
    """Return why an index cannot be used for a comparison of ``mine`` with ``other``, a detail, and
    SQL with which one could, if pgdyno knows some; None if the index has nothing to do with it, or
    could be used."""
    leading = index.keys[0]
    within = names_in(mine)
    if mine == leading:
        return _of_column(index, mine, comparison, other, volatile)
    if mine in index.keys[1:] and leading not in within:
        return WhyUnusable.LATER_COLUMN, leading, ""
    if leading in within and index.is_plain:
        return _of_expression(index, mine)
    if mine in names_in(leading):
        return WhyUnusable.OF_EXPRESSION, leading, ""
    return None


def _of_column(
    index: TableIndex,
    column: str,
    comparison: Comparison,
    other: str,
    volatile: Sequence[VolatileFunction],
) -> _Why | None:
    """Judge an index whose first key is what is compared."""
    if not index.is_valid:
        return WhyUnusable.INVALID, "", ""
    if index.predicate:
        return WhyUnusable.PREDICATE, index.predicate, ""
    if index.method not in _PLAIN_METHODS:
        return WhyUnusable.METHOD, index.method, ""
    for function in volatile:
        if function.name in functions_in(other):
            make = f"alter function {function.signature} stable" if function.signature else ""
            return WhyUnusable.VOLATILE, function.signature or function.name, make
    wanted = _COLLATE.search(other)
    if wanted is not None and wanted[1].strip('"') != index.collations[0]:
        return WhyUnusable.COLLATION, wanted[1], _made(index, f"{column} collate {wanted[1]}")
    is_pattern = comparison.operator in _TEXT_PATTERNS
    if is_pattern and index.collations[0] not in _C and "pattern" not in index.classes[0]:
        return (
            WhyUnusable.OPERATOR_CLASS,
            index.classes[0],
            _made(index, f"{column} text_pattern_ops"),
        )
    return None


def _of_expression(index: TableIndex, mine: str) -> _Why | None:
    """Judge an index on a column around which there is an expression."""
    cast = _CAST.fullmatch(mine)
    if cast is not None and cast["inner"] == index.keys[0]:
        if cast["type"] == "text" and index.classes[0].startswith(("text", "varchar", "bpchar")):
            return None  # The same values: an index on the column serves both types.
        return WhyUnusable.CAST, mine, _made(index, f"({mine})")
    return WhyUnusable.EXPRESSION, mine, _made(index, f"({mine})")


def _made(index: TableIndex, key: str) -> str:
    return f"create index {TRIED_INDEX} on {relation(index.relation)} ({key})"
