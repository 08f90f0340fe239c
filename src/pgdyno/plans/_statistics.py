"""The planner's statistics of the tables that plans read, and ANALYZE as a candidate where they are
missing or estimates are far from what was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg

from pgdyno.plans.tree import Plan, misestimated
from pgdyno.record import TableStatistics
from pgdyno.server.sql_files import query_at
from pgdyno.spec.change import Change
from pgdyno.spec.sql_text import on_one_line, relation

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

TABLES_MAX = 2
_PUT_BACK = (
    "update pg_catalog.pg_class set relpages = %s, reltuples = %s, relallvisible = %s"
    " where oid operator(pg_catalog.=) %s::pg_catalog.oid"
)


def table_statistics(conn: Control, plans: Iterable[Plan]) -> list[TableStatistics]:
    """Ask for the statistics of the tables that plans read."""
    read = {n.relation for plan in plans for n in plan.nodes() if n.relation}
    if not read:
        return []
    rows = conn.execute(query_at(conn, "plans", "table_statistics"), ([*read],))
    return [
        TableStatistics(name, has_statistics, "; ".join(map(on_one_line, repairs)))
        for name, has_statistics, repairs in rows
    ]


def of_statistics(plans: Sequence[Plan], statistics: Iterable[TableStatistics]) -> list[Change]:
    """Return ANALYZE of the tables of which plans expect ten times more or fewer rows than there
    are, each a change of its own."""
    off: dict[str, None] = {}
    for plan in plans:
        off.update(dict.fromkeys(node.relation for node in misestimated(plan)))
    known = {each.relation: each for each in statistics}
    wanted = [known[name] for name in off if name in known]
    return [
        Change(sql={"make": (*each.statements, f"analyze {relation(each.relation)}")})
        for each in wanted[:TABLES_MAX]
    ]


@contextmanager
def counts_kept(conn: Control) -> Iterator[None]:
    """Put back the numbers of pages and rows that ANALYZE writes into pg_class at once, where a
    rolled back transaction leaves them. Without the right to that, its true ones stay."""
    columns = "oid, relpages, reltuples, relallvisible"
    of_tables = (
        f"select {columns} from pg_catalog.pg_class"
        " where oid operator(pg_catalog.>=) 16384::pg_catalog.oid"
    )
    before = {row[0]: row[1:] for row in conn.execute(of_tables.encode())}
    try:
        yield
    finally:
        with suppress(psycopg.errors.InsufficientPrivilege):
            for oid, *now in conn.execute(of_tables.encode()).fetchall():
                if oid in before and before[oid] != tuple(now):
                    conn.execute(_PUT_BACK, (*before[oid], oid))
