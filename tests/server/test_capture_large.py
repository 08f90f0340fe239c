"""Captures of servers with much in them: more tables, partitions and statements than a capture
has."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg

from capturing import as_client, capture_of
from patience import beside
from pgdyno.capture._catalogue import TABLES_MAX
from pgdyno.capture._readings import STATEMENTS_MAX
from pgdyno.clone import Capture, clone_of
from pgdyno.report.words.capture import summary_text
from pgdyno.server import Cluster, connect_plain

SECONDS = 1.0
BYTES_MAX = 5_000_000
TABLES, PARTITIONS = 20_000, 500
SETTINGS = {"fsync": "off", "shared_preload_libraries": "pg_stat_statements"}
MADE = f"""
do $$ begin
    for i in 1..{TABLES} loop
        execute format('create table t%s (id int, n int)', i);
        if i % 500 = 0 then commit; end if;
    end loop;
end $$;
"""
PARTITIONED = f"""
create extension pg_stat_statements;
create table parted (id int primary key, n int) partition by range (id);
do $$ begin
    for i in 1..{PARTITIONS} loop
        execute format('create table p%s partition of parted for values from (%s) to (%s)',
                       i, 10 * i - 10, 10 * i);
    end loop;
end $$;
insert into parted select i, i from generate_series(0, {10 * PARTITIONS - 1}) i;
insert into t9 select i, i from generate_series(1, 1000) i;
create table "Queue ""of"" Größe" (id int, n int);
insert into "Queue ""of"" Größe" values (1, 1);
delete from "Queue ""of"" Größe";
analyze parted, t9;
"""
COLUMNS = 50
WIDE = f"""
create extension pg_stat_statements;
create table wide as select {", ".join(f"i as c{each}" for each in range(COLUMNS))}
  from generate_series(1, 10) i;
"""


def load(cluster: Cluster, statements: Iterable[str]) -> AbstractContextManager[None]:
    """Execute statements over and over."""
    values = as_client(cluster.conninfo)
    listed = [*statements]

    def work(begun: threading.Event, ended: threading.Event) -> None:
        with psycopg.connect(**values, autocommit=True) as connection:
            while not ended.is_set():
                for each in listed:
                    connection.execute(each.encode())
                begun.set()

    return beside(work)


def taken(cluster: Cluster, path: Path, seconds: float) -> Capture:
    found = capture_of(cluster.conninfo, path, seconds)
    assert path.stat().st_size < BYTES_MAX
    assert len(summary_text(found)) < 30
    return found


def test_tables_that_are_used_are_captured_of_many(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster(18, **SETTINGS)
    with connect_plain(cluster.conninfo) as connection:
        connection.execute(MADE.encode())
        connection.execute(PARTITIONED.encode())
    queue = '"Queue ""of"" Größe"'
    statements = (
        f"insert into {queue} values (1, 2)",
        f"delete from {queue} where id = 1",
        "select n from t9 where id = 7",
        "update parted set n = n + 1 where id = 8",
    )
    with load(cluster, statements):
        found = taken(cluster, tmp_path / "many.pgdyno", SECONDS)
    assert len(found.tables) == TABLES_MAX
    tables = {each.name: each for each in found.tables}
    assert tables.keys() >= {'Queue "of" Größe', "t9", "parted"}
    assert tables["parted"].partitions is not None
    assert tables["parted"].partitions.count == PARTITIONS
    assert found.tables[0].name == "parted"
    assert len(found.statements) == len(statements)
    assert any(f"tables beyond the {TABLES_MAX:,}" in each for each in found.gaps)


def test_statements_that_take_most_time_are_captured_of_many(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster(18, **SETTINGS)
    with connect_plain(cluster.conninfo) as connection:
        connection.execute(WIDE.encode())
    pairs = itertools.product(range(COLUMNS), repeat=2)
    statements = [f"select c{one} from wide where c{other} = 1" for one, other in pairs]
    with load(cluster, statements):
        found = taken(cluster, tmp_path / "wide.pgdyno", 3 * SECONDS)
    # Those of the capture itself are among the first, and are none of the load's.
    assert 0.95 * STATEMENTS_MAX < len(found.statements) <= STATEMENTS_MAX
    assert any(f"left out beyond the {STATEMENTS_MAX:,}" in each for each in found.gaps)
    assert len(clone_of(found, "wide").scripts) == len(found.transactions)
