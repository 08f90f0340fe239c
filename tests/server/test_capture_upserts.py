"""The clone of statements that insert rows or update those that are there, and of rows that need
others: none of them fails."""

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
PERSONS = 40
SCHEMA = f"""
create extension pg_stat_statements;
create role watcher login password 'hush' in role pg_monitor, pg_read_all_data;
create table persons (name text primary key);
create table profiles (person_id text primary key, title text, full_person_id text unique);
create table counts (person_id text primary key, visits int not null, at bigint not null);
insert into persons select 'person number ' || i from generate_series(1, {PERSONS}) i;
insert into profiles select name, 'title of ' || name, name from persons;
insert into counts select name, 50 + row_number() over () * 3, row_number() over () from persons;
vacuum analyze;
"""
RENAME = """
insert into profiles (person_id, title, full_person_id) values (%s, %s, %s)
on conflict (person_id)
do update set title = excluded.title, full_person_id = excluded.full_person_id
"""
COUNT = """
insert into counts (person_id, visits, at) values (%s, %s, %s)
on conflict (person_id)
do update set visits = counts.visits + excluded.visits, at = excluded.at
"""


def load(cluster: Cluster) -> AbstractContextManager[None]:
    """A session that writes rows that are there already."""

    def work(begun: threading.Event, ended: threading.Event) -> None:
        with psycopg.connect(**as_client(cluster.conninfo), autocommit=True) as conn:
            number = 0
            while not ended.is_set():
                number += 1
                name = f"person number {number % PERSONS + 1}"
                conn.execute(RENAME, (name, f"title {number}", name))
                conn.execute(COUNT, (name, number % 3, number))
                begun.set()
                ended.wait(0.002)

    return beside(work)


def test_rows_are_written_that_are_there(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = source_with(new_cluster, SCHEMA)
    path = tmp_path / "shop.pgdyno"
    with load(cluster):
        found = capture_of(cluster.conninfo, path, SECONDS, **WATCHER)
    uses = {p.column: p.use for each in found.statements for p in each.parameters}
    assert uses["visits"] == "added"
    assert uses["at"] == "inserted"

    likeness = likeness_of(found, path, SECONDS)
    assert likeness.done > 10
    assert not likeness.failed
