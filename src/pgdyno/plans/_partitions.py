"""The tables and indexes that the partitions in a plan belong to, which EXPLAIN does not tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pgdyno.plans.tree import APPENDS, Plan
from pgdyno.record import TablePartition
from pgdyno.server.sql_files import query_at

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control


def partitioned_wholes(conn: Control, plan: Plan) -> dict[str, str]:
    """Return partition → partitioned table of the tables in a plan, and the same of its indexes,
    each as schema.name. Raises psycopg.Error."""
    nodes = [each for each in plan.nodes() if each.relation]
    names = {name for each in nodes for name in (each.relation.rpartition(".")[2], each.index)}
    if not names:
        return {}
    return dict(
        conn.execute(query_at(conn, "plans", "partitioned_wholes"), (sorted(names),)).fetchall()
    )


def table_partitions(conn: Control, plans: Sequence[Plan]) -> Iterator[TablePartition]:
    """Ask which of the tables that plans read below an Append are partitions."""
    appended = {
        node.relation
        for plan in plans
        if any(each.kind in APPENDS for each in plan.nodes())
        for node in plan.nodes()
        if node.relation
    }
    if appended:
        for row in conn.execute(query_at(conn, "plans", "partitions"), ([*appended],)):
            yield TablePartition(*row)
