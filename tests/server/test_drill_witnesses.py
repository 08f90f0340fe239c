"""What is noted of a database before a crash: only what the load surely cannot change."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace
from pgbench_tables import make_pgbench_tables

from pgdyno._engine import builtin_scripts
from pgdyno.drill.witnesses import Witnesses, prepare
from pgdyno.server import Cluster, ConnInfo, connect_plain
from pgdyno.workload import Tables, WeightedScript, Workload

pytestmark = [pytest.mark.server, pytest.mark.alike]

TABLES = """
    create table looked_at (id int);
    create table changed (id int);
    create table grown (id int);
    create table "Left alone" (id int);
    create table parent (id int) partition by range (id);
    create table part partition of parent for values from (0) to (10);
    insert into "Left alone" values (1), (2);
"""
SCRIPT = """
    -- insert into looked_at
    select * from looked_at; update changed set id = 2;
    insert into public.grown values (1) on conflict do nothing; insert into parent values (1);
"""


def own_database(cluster: Cluster) -> Iterator[ConnInfo]:
    with connect_plain(cluster.conninfo) as own:
        own.execute("create database witnesses")
        yield replace(cluster.conninfo, database="witnesses")
        own.execute("drop database witnesses with (force)")


@pytest.fixture
def database(pg: Cluster) -> Iterator[ConnInfo]:
    """A database of its own."""
    yield from own_database(pg)


@pytest.fixture
def conn(database: ConnInfo) -> Iterator[psycopg.Connection]:
    """A connection to it."""
    with connect_plain(database) as conn:
        yield conn


def noted(conn: psycopg.Connection, *texts: str) -> Witnesses:
    scripts = [WeightedScript(f"s{i}", text, "s", 1) for i, text in enumerate(texts)]
    return prepare(conn, {"g": Workload("w", scripts, Tables.NONE)})


def test_tables_that_the_scripts_leave_alone_are_known(conn: psycopg.Connection) -> None:
    conn.execute(TABLES)
    found = noted(conn, SCRIPT)
    assert found.why_untouched == ""
    states = {state.name: (state.rows, state.digest is not None) for state in found.untouched}
    assert states == {
        "public.looked_at": (0, False),
        "public.changed": (0, False),
        'public."Left alone"': (2, True),
    }
    assert found.zero_sum is None
    assert found.why_no_zero_sum == snapshot("no script of pgbench writes to its tables")
    assert prepare(conn).untouched == ()


@pytest.mark.parametrize(
    ("before", "script", "why"),
    [
        ("create function f() returns int language sql as 'select 1'", "select 1;", "functions"),
        ("create rule r as on insert to grown do also nothing", "select 1;", "rules"),
        ("select 1", "do 'begin end';", "may change any table"),
        ("select 1", "call p();", "may change any table"),
    ],
)
def test_where_anything_may_be_changed_nothing_is_held_against_it(
    conn: psycopg.Connection, before: str, script: str, why: str
) -> None:
    conn.execute(TABLES)
    conn.execute(before.encode())
    found = noted(conn, script)
    assert found.untouched == ()
    assert why in found.why_untouched


def test_balances_are_held_to_what_the_scripts_do(
    database: ConnInfo, conn: psycopg.Connection
) -> None:
    make_pgbench_tables(database)
    tpcb, simple = (builtin_scripts()[name] for name in ("tpcb-like", "simple-update"))
    both, alone = noted(conn, tpcb, simple).zero_sum, noted(conn, tpcb).zero_sum
    assert both is not None
    assert alone is not None
    assert (len(both.differences()), len(alone.differences())) == (2, 3)
    assert "another script" in noted(conn, tpcb, "truncate pgbench_history;").why_no_zero_sum
    conn.execute("alter table pgbench_history set unlogged")
    assert "unlogged" in noted(conn, tpcb).why_no_zero_sum
