"""The capture of transactions that only have a loop, on a real server: how many there are, and the
rows that their clone names."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest

from capturing import as_client, capture_of, likeness_of
from patience import beside
from pgdyno.server import Cluster, connect_plain

pytestmark = [pytest.mark.server]

SECONDS = 2.0
KINDS = 5
SCHEMA = f"""
create extension pg_stat_statements;
create table jobs (kind int, id bigint, state int not null, primary key (kind, id));
create table results (kind int, job_id bigint, found int not null, primary key (kind, job_id));
insert into jobs select i % {KINDS}, i, 0 from generate_series(1, 50000) i;
insert into results select i % {KINDS}, i, 0 from generate_series(1, 50000) i;
create table words (id bigint primary key, uses int not null);
insert into words select i, 0 from generate_series(1, 1000) i;
analyze;
"""
OLDEST = "delete from jobs where kind = %s and id = (select min(id) from jobs where kind = %s) returning id"
RESULT = "update results set found = 1 where kind = %s and job_id = %s"
WORD = "update words set uses = uses + 1 where id = %s"


def loaded(cluster: Cluster) -> AbstractContextManager[None]:
    """A session that empties queues, the oldest of each in one transaction, and does something else
    in the next: two sessions would meet at the oldest."""
    values = as_client(cluster.conninfo)

    def work(begun: threading.Event, ended: threading.Event) -> None:
        def empty(conn: psycopg.Connection) -> None:
            for kind in range(KINDS):
                row = conn.execute(OLDEST, (kind, kind)).fetchone()
                assert row is not None
                ended.wait(0.001)
                conn.execute(RESULT, (kind, row[0]))
                ended.wait(0.001)

        def use(conn: psycopg.Connection) -> None:
            conn.execute(WORD, (1,))
            ended.wait(0.002)
            conn.execute("select uses from words where id = %s", (2,))

        with psycopg.connect(**values, autocommit=True) as conn:
            begun.set()
            for does in itertools.cycle((empty, use)):
                if ended.is_set():
                    break
                with conn.transaction():
                    does(conn)

    return beside(work)


def test_a_loop_over_queues_and_its_clone(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster(18, shared_preload_libraries="pg_stat_statements")
    with connect_plain(cluster.conninfo) as conn:
        conn.execute(SCHEMA.encode())
    path = tmp_path / "queues.pgdyno"
    with loaded(cluster):
        found = capture_of(cluster.conninfo, path, SECONDS)
    (loop,) = (each for each in found.transactions if each.steps[0].times > 1.5)
    texts = [found.statements[each.statement].text.split()[0] for each in loop.steps]
    assert texts == ["delete", "update"]
    assert [each.times for each in loop.steps] == pytest.approx([KINDS, KINDS], rel=0.5)

    likeness = likeness_of(found, path, SECONDS)
    assert likeness.done > 10
    assert not likeness.failed
    # Sessions of a clone may meet at the oldest row, which one of them then does not find.
    rows = [each for each in likeness.compared if each.name == "rows of a call"]
    updates = [each for each in rows if each.of.startswith("update")]
    assert [each for each in updates if each.verdict != "alike"] == []
    assert len(updates) == 2
