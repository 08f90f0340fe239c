"""The planner's statistics of the tables that plans read, and ANALYZE as a candidate where they are
missing or estimates are far from what was found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pgdyno.plans.tree import Plan, misestimated
from pgdyno.record import TableStatistics
from pgdyno.server.sql_files import query_at
from pgdyno.spec.change import Change
from pgdyno.spec.sql_text import on_one_line, relation

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

TABLES_MAX = 2
_COUNTS = (
    b"select oid, relpages, reltuples, relallvisible from pg_catalog.pg_class"
    b" where oid operator(pg_catalog.>=) 16384::pg_catalog.oid"
)
_MAY_PUT_BACK = b"select pg_catalog.has_table_privilege('pg_catalog.pg_class', 'update')"
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


class PageCounts:
    """The numbers of pages and rows in pg_class that plans are made by.

    ANALYZE and CREATE INDEX write them at once, so that they stay where their transaction is rolled
    back.
    """

    def __init__(self, conn: Control) -> None:
        self._conn = conn
        self._before = self._now()
        self.may_put_back: bool = conn.execute(_MAY_PUT_BACK).fetchall()[0][0]

    def put_back(self) -> None:
        """Put back the numbers as they were; without the right to that, leave the true ones."""
        if not self.may_put_back:
            return
        for oid, now in self._now().items():
            if self._before.get(oid, now) != now:
                self._conn.execute(_PUT_BACK, (*self._before[oid], oid))

    def _now(self) -> dict[int, tuple[float, ...]]:
        return {row[0]: row[1:] for row in self._conn.execute(_COUNTS)}
