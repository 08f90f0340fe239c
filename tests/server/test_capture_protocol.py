"""Statements that clients have the server parse each time that they execute them, and their
clone."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest

from capturing import WATCHER, as_client, capture_of, source_with
from patience import beside
from pgdyno.clone import clone_of
from pgdyno.server import Cluster

SECONDS = 2.0
SCHEMA = """
create extension pg_stat_statements;
create role watcher login password 'hush' in role pg_monitor;
create table parts (id bigint primary key, kind int not null, amount int not null);
insert into parts select i, i % 7, i from generate_series(1, 5000) i;
analyze;
"""
READ = "select kind, amount from parts where id = %s"


def load(cluster: Cluster, *, is_prepared: bool) -> AbstractContextManager[None]:
    """A session that reads a row by a statement that it has prepared, and adds two or three rows by
    one that it has, or has not."""

    def work(begun: threading.Event, ended: threading.Event) -> None:
        with psycopg.connect(**as_client(cluster.conninfo), autocommit=True) as conn:
            for number in itertools.count(1):
                rows = range(3 * number, 3 * number + 2 + number % 2)
                places = ", ".join(["(%s, %s, %s)"] * len(rows))
                text = f"insert into parts values {places} on conflict do nothing"
                values = [each for row in rows for each in (row, row % 7, row)]
                conn.execute(READ, (number % 5000 + 1,), prepare=True)
                conn.execute(text, values, prepare=is_prepared)
                if number == 3:
                    begun.set()
                if ended.is_set():
                    return

    return beside(work)


@pytest.mark.parametrize("is_prepared", [True, False])
def test_statements_that_are_not_prepared(
    new_cluster: Callable[..., Cluster], tmp_path: Path, is_prepared: bool
) -> None:
    cluster = source_with(new_cluster, SCHEMA)
    with load(cluster, is_prepared=is_prepared):
        found = capture_of(cluster.conninfo, tmp_path / "parts.pgdyno", SECONDS, **WATCHER)
    parsed = {each.text.split()[0]: each.is_parsed for each in found.statements}
    assert parsed == {"select": False, "insert": not is_prepared}
    script = "".join(clone_of(found, "parts").scripts.values())
    assert ("values :rows on conflict do nothing \\rows :count" in script) != is_prepared
