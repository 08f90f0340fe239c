"""Captures of a server that counts fewer statements than it executes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest

from capturing import as_client, capture_of
from patience import beside
from pgdyno.server import Cluster, connect_plain

pytestmark = [pytest.mark.server]

TABLES = 300
"""More than pg_stat_statements.max, of which 100 is the least."""
SECONDS = 3.0
MISSING = "of the server's transactions have none of the captured statements"
EVICTED = "pg_stat_statements evicted statements meanwhile"


def load(cluster: Cluster, tables: int) -> AbstractContextManager[None]:
    """Execute an update of each of so many tables, over and over."""
    values = as_client(cluster.conninfo)

    def work(begun: threading.Event, ended: threading.Event) -> None:
        with psycopg.connect(**values, autocommit=True) as connection:
            begun.set()
            while not ended.is_set():
                for number in range(tables):
                    connection.execute(f"update t{number} set v = v + %s", (1,))

    return beside(work)


def test_evicted_statements_are_said_with_their_share(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster(
        18,
        **{"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.max": "100"},
    )
    path = tmp_path / "load.pgdyno"
    with connect_plain(cluster.conninfo) as connection:
        connection.execute("create extension pg_stat_statements")
        for number in range(TABLES):
            connection.execute(f"create table t{number} as select 1 as v")
    for tables, lost in ((TABLES, True), (2, False)):
        with connect_plain(cluster.conninfo) as connection:
            connection.execute("select pg_stat_statements_reset()")
        with load(cluster, tables):
            gaps = capture_of(cluster.conninfo, path, SECONDS).gaps
        assert any(MISSING in each for each in gaps) is lost, gaps
        assert any(EVICTED in each for each in gaps) is lost, gaps
