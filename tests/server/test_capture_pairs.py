"""The clone of tables whose keys are pairs of rows of two others: it names those that are there."""

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
ROOMS, PEOPLE, MEMBERS = 6, 12, 36
SCHEMA = f"""
create extension pg_stat_statements;
create role watcher login password 'hush' in role pg_monitor;
create table rooms (room_id bigint primary key);
create table people (person_id bigint primary key);
create table members (
    room_id bigint not null references rooms, person_id bigint not null references people,
    since bigint not null, unique (person_id, room_id)
);
create table places (
    room_id bigint not null references rooms, person_id bigint not null references people,
    thread text, place bigint not null, unique (room_id, person_id, thread)
);
create unique index on places (room_id, person_id) where thread is null;
insert into rooms select generate_series(1, {ROOMS});
insert into people select generate_series(1, {PEOPLE});
insert into members select i % {ROOMS} + 1, (i + i / 12) % {PEOPLE} + 1, 0
  from generate_series(0, {MEMBERS - 1}) i;
insert into places (room_id, person_id, place) select room_id, person_id, 0 from members;
vacuum analyze;
"""
SETTINGS = 8
ALONE = "set default_transaction_isolation to default"
LEAVE = "delete from members where room_id = %s and person_id = %s"
RETURN = "insert into members (room_id, person_id, since) values (%s, %s, %s)"
READ = """
insert into places (room_id, person_id, place) values (%s, %s, %s)
on conflict (room_id, person_id) where thread is null
do update set place = excluded.place where places.place < excluded.place
"""
SINCE = "select since from members where person_id = %s and room_id = %s"
PLACE = "select place from places where room_id = %s and person_id = %s and thread is null"


def load(cluster: Cluster) -> AbstractContextManager[None]:
    """A session in which members leave, return, and read."""

    def work(begun: threading.Event, ended: threading.Event) -> None:
        values = as_client(cluster.conninfo)
        with psycopg.connect(**values, autocommit=True) as conn:
            number = 0
            while not ended.is_set():
                number += 1
                both = (number % ROOMS + 1, (number + number // 12 % 3) % PEOPLE + 1)
                for _ in range(SETTINGS):
                    conn.execute(ALONE, prepare=False)  # Prepared, it is counted once.
                with conn.transaction():
                    conn.execute(LEAVE, both)
                    ended.wait(0.002)
                    conn.execute(RETURN, (*both, number))
                conn.execute(READ.encode(), (*both, number))
                conn.execute(SINCE, both[::-1])
                conn.execute(PLACE, both)
                begun.set()

    return beside(work)


def test_pairs_are_those_that_are_there(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = source_with(new_cluster, SCHEMA)
    path = tmp_path / "chat.pgdyno"
    with load(cluster):
        found = capture_of(cluster.conninfo, path, SECONDS, **WATCHER)
    (places,) = (each for each in found.tables if each.name == "places")
    assert [each.unique for each in places.indexes] == [True]
    assert [each.name for each in places.columns if each.null_share == 1] == ["thread"]
    assert len(found.statements) == 5
    # SET commits, too, and is none of these. Sessions report their transactions once a second.
    known = sum(each.commits_per_s for each in found.transactions)
    assert known / 3 < found.source.transactions_per_s < known * SETTINGS / 4

    likeness = likeness_of(found, path, SECONDS)
    assert likeness.done > 10
    assert not likeness.failed
    rows = [each for each in likeness.compared if each.name == "rows of a call"]
    assert [each for each in rows if each.verdict != "alike"] == []
    assert len(rows) == 5
