"""The order of a table's rows, of which bitmaps in place of plain scans of an index tell."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest

from capturing import WATCHER, as_client, capture_of
from patience import beside
from pgdyno.clone import clone_of
from pgdyno.server import Cluster, connect_plain

SECONDS = 2.0
SCHEMA = """
create extension pg_stat_statements;
create role watcher login password 'hush' in role pg_monitor;
create table mixed (id bigint primary key, note text not null);
create table ordered (id bigint primary key, note text not null);
insert into ordered select i, repeat('x', 50) from generate_series(1, 20000) i;
insert into mixed select * from ordered order by hashint8(id);
analyze;
"""


def load(cluster: Cluster) -> AbstractContextManager[None]:
    """A session that looks for rows of both tables by lists of keys."""

    def work(begun: threading.Event, ended: threading.Event) -> None:
        with psycopg.connect(**as_client(cluster.conninfo), autocommit=True) as conn:
            while not ended.wait(0.005):
                listed = [random.randint(1, 20_000) for _ in range(12)]
                for table in (b"mixed", b"ordered"):
                    conn.execute(b"select note from " + table + b" where id = any(%s)", [listed])
                begun.set()

    return beside(work)


@pytest.mark.parametrize("major", [18, 15])
def test_rows_that_bitmaps_read_have_no_order(
    new_cluster: Callable[..., Cluster], tmp_path: Path, major: int
) -> None:
    cluster = new_cluster(major, shared_preload_libraries="pg_stat_statements")
    with connect_plain(cluster.conninfo) as conn:
        conn.execute(SCHEMA.encode())
    with load(cluster):
        found = capture_of(cluster.conninfo, tmp_path / "x.pgdyno", SECONDS, **WATCHER)
    order = {each.name: each.columns[0].correlation for each in found.tables}
    assert order == {"mixed": 0.0, "ordered": None}
    setup = clone_of(found, "x").setup_text
    assert "\\rows 20000 permute(:row, 20000) + 1," in setup
    assert "\\rows 20000 :row + 1," in setup
