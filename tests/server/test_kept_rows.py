"""Rows that nodes of plans keep in files, as real servers count them."""

from __future__ import annotations

import psycopg
import pytest

from pgdyno.plans.tree import IN_MEMORY, read_plan
from pgdyno.server import Cluster

pytestmark = pytest.mark.server

ROWS = "select n, repeat('x', 90) as note from generate_series(1, 20000) n"
KEEPING = {
    "CTE Scan": f"with kept as materialized ({ROWS}) select * from kept",
    "Function Scan": "select * from json_to_recordset((select json_agg(k) from "
    f"({ROWS}) k)) as r(n int, note text)",
    "WindowAgg": f"select count(*) over (), * from ({ROWS} offset 0) kept",
}


def spilled_kb(conn: psycopg.Connection, query: str, kind: str) -> float:
    """Return the most that a node of this kind writes."""
    explained = conn.execute(f"explain (analyze, buffers, format json) {query}".encode())
    ((answer,),) = explained.fetchall()
    return max(node.spilled_kb for node in read_plan(answer[0]).nodes() if node.kind == kind)


@pytest.mark.parametrize("kind", KEEPING)
def test_rows_that_a_node_keeps_in_files_fit_in_memory(pg: Cluster, kind: str) -> None:
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as conn:
        conn.execute("set work_mem = '64kB'")
        needed_kb = spilled_kb(conn, KEEPING[kind], kind)
        assert needed_kb > 1000
        conn.execute(f"set work_mem = '{IN_MEMORY * needed_kb:.0f}kB'".encode())
        assert spilled_kb(conn, KEEPING[kind], kind) == 0
