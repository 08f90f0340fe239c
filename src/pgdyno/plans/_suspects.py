"""Tables and indexes that may cost more than they need, and SQL that is tried against them.

Indexes that statements write and no scan has read are dropped; those that keep a list of pending
entries are built again; tables that scans read as a whole, with many more pages than their rows
need, are written again in the order of an index, as VACUUM FULL would do outside of a transaction,
and with full pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.plans.tree import Plan
from pgdyno.plans.wanted_indexes import INDEXED_BYTES_MAX
from pgdyno.record import Suspect, Suspicion
from pgdyno.server.sql_files import query_at
from pgdyno.spec.change import Change
from pgdyno.spec.sql_text import quoted, relation

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

TRIED_MAX = 3
ASKED_MAX = 20
"""Tables that are asked for: the sizes of hundreds of partitions take as long as a trial."""
_KINDS = frozenset(("ModifyTable", "Bitmap Heap Scan"))
BLOAT_MIN = 4.0
"""Size of a table, of that of its rows, from which on it is tried without what is empty."""
ROW_HEADER_BYTES = 28
"""Of each row: its header of 24 bytes and its line pointer."""
UNKNOWN_ROW_BYTES = 100.0
"""Of the columns of a row, where there are no statistics."""
BLOATED_BYTES_MIN = 64 << 10


class _Index(Struct, frozen=True):
    """A row of the query."""

    table: str
    name: str
    """Both are schema.name."""
    size_bytes: int
    is_unread: bool
    has_pending_list: bool
    is_order: bool
    table_bytes: int
    row_bytes: float
    has_fillfactor: bool
    """Of the table."""


def suspects(conn: Control, plans: Sequence[Plan]) -> list[Suspect]:
    """Ask for the tables that plans write, read as a whole or by bitmaps, those that take most time
    first, and for their indexes."""
    times_ms: dict[str, float] = {}
    for node in (each for plan in plans for each in plan.nodes()):
        if node.relation and (node.kind in _KINDS or node.reads_whole_table):
            times_ms[node.relation] = times_ms.get(node.relation, 0.0) + (node.time_ms or node.cost)
    if not times_ms:
        return []
    relations = sorted(times_ms, key=lambda name: -times_ms[name])[:ASKED_MAX]
    rows = conn.execute(query_at(conn, "plans", "suspects"), (relations,))
    indexes = [_Index(*row) for row in rows]
    return [*_bloated(indexes, plans), *_of_indexes(indexes, plans)]


def _bloated(indexes: Sequence[_Index], plans: Sequence[Plan]) -> Iterator[Suspect]:
    rows: dict[str, float] = {}
    for node in (each for plan in plans for each in plan.nodes()):
        if node.reads_whole_table and node.loops:
            rows[node.relation] = max(rows.get(node.relation, 0.0), node.read / node.loops)
    orders = {each.table: each for each in indexes if each.is_order}
    for table, each in orders.items():
        row_bytes = ROW_HEADER_BYTES + (each.row_bytes or UNKNOWN_ROW_BYTES)
        needed = rows.get(table, 0.0) * row_bytes
        least = max(BLOATED_BYTES_MIN, BLOAT_MIN * needed)
        if table in rows and least <= each.table_bytes <= INDEXED_BYTES_MAX:
            order = quoted(each.name.split(".", 1)[1])
            full = f"alter table {relation(table)} reset (fillfactor); "
            make = f"{full if each.has_fillfactor else ''}cluster {relation(table)} using {order}"
            yield Suspect(table, "", each.table_bytes, Suspicion.BLOATED, make)


def _of_indexes(indexes: Sequence[_Index], plans: Sequence[Plan]) -> Iterator[Suspect]:
    nodes = [node for plan in plans for node in plan.nodes()]
    written = {node.relation for node in nodes if node.kind == "ModifyTable"}
    read = {node.index for node in nodes}
    unread: dict[str, list[_Index]] = {}
    for each in indexes:
        is_read = each.name.split(".", 1)[1] in read
        if each.is_unread and each.table in written and not is_read:
            unread.setdefault(each.table, []).append(each)
        if each.has_pending_list and is_read:
            make = f"reindex index {relation(each.name)}"
            yield Suspect(each.table, each.name, each.size_bytes, Suspicion.PENDING, make)
    for mine in unread.values():
        make = f"drop index {', '.join(relation(each.name) for each in mine)}"
        for each in mine:
            yield Suspect(each.table, each.name, each.size_bytes, Suspicion.UNREAD, make)


def of_suspects(found: Iterable[Suspect]) -> list[Change]:
    """Return what is tried, each statement a change of its own."""
    made = dict.fromkeys(each.make for each in found)
    return [Change(sql={"make": (each,)}) for each in [*made][:TRIED_MAX]]
