"""The clone of a queue: what a transaction puts into a table, another takes from it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest

from capturing import WATCHER, as_client, capture_of, likeness_of, source_with
from patience import beside
from pgdyno.server import Cluster

pytestmark = [pytest.mark.server]

SECONDS = 2.0
SCHEMA = """
create extension pg_stat_statements;
create role watcher login password 'hush' in role pg_monitor;
create table batches (batch_id bigint primary key, place text not null);
create table waiting (batch_id bigint not null, note text not null);
create table done (batch_id bigint not null, note text not null);
create index on waiting (batch_id);
create table people (person_id bigint primary key, name text not null);
insert into people select i, 'x' from generate_series(1, 50) i;
create table holding (batch_id bigint, place text, primary key (batch_id, place));
insert into batches select i, 'here' from generate_series(1, 200) i;
vacuum analyze;
"""
PUT = "insert into waiting (batch_id, note) values (%s, %s), (%s, %s), (%s, %s)"
NAME = "select name from people where person_id = %s"
BATCH = "insert into batches (batch_id, place) values (%s, %s)"
DONE = "insert into done (batch_id, note) select batch_id, note from waiting where batch_id = %s"
TAKE = "delete from waiting where batch_id = %s"
HOLD = "insert into holding (batch_id, place) values (%s, 'here') on conflict do nothing"
LET = "delete from holding where batch_id = %s and place = 'here'"


def load(cluster: Cluster) -> AbstractContextManager[None]:
    """A session that puts rows into a queue, and takes them out of it."""

    def work(begun: threading.Event, ended: threading.Event) -> None:
        values = as_client(cluster.conninfo)
        with psycopg.connect(**values, autocommit=True) as conn:
            batch = 200
            while not ended.wait(0.001):
                batch += 1
                with conn.transaction():
                    conn.execute(PUT, (batch, "a", batch, "b", batch, "c"))
                    ended.wait(0.002)
                    conn.execute(NAME, (batch % 50 + 1,))
                with conn.transaction():
                    conn.execute(BATCH, (batch, "here"))
                    ended.wait(0.002)
                    conn.execute(DONE, (batch,))
                    conn.execute(TAKE, (batch,))
                conn.execute(HOLD, (batch % 100 + 1,))
                ended.wait(0.002)
                conn.execute(LET, (batch % 100 + 1,))
                begun.set()

    return beside(work)


def test_rows_of_a_queue_are_taken_as_often_as_they_are_put(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = source_with(new_cluster, SCHEMA)
    path = tmp_path / "queue.pgdyno"
    with load(cluster):
        found = capture_of(cluster.conninfo, path, SECONDS, **WATCHER)
    likeness = likeness_of(found, path, SECONDS)
    assert likeness.done > 10
    assert not likeness.failed
    rows = [each for each in likeness.compared if each.name == "rows of a call"]
    assert [each for each in rows if each.verdict != "alike"] == []
    assert len(rows) == 7
