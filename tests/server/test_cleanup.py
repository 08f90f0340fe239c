"""``pgdyno cleanup``: what bears the mark goes, whatever it is called; all else stays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from patience import wait_until
from pgdyno.server import Cluster, ConnInfo, Installation
from pgdyno.server.connecting.marks import PLAIN, UNFINISHED

pytestmark = [pytest.mark.server, pytest.mark.alike]

ODD = 'we"ird\ndb'
_OURS = (
    "create table pgbench_branches (bid int primary key);"
    "create table pgbench_accounts (aid int, bid int references pgbench_branches)"
    " partition by range (aid);"
    "create table pgbench_accounts_1 partition of pgbench_accounts default;"
    f"comment on table pgbench_branches is '{UNFINISHED}';"
    "comment on table pgbench_accounts is"
    " 'made by pgdyno at scale 3, 1 range partitions; pgdyno cleanup removes it';"
    "create sequence test_table_id;"
    "create table test_table (id bigint default nextval('test_table_id'));"
    f"comment on table test_table is '{PLAIN}'; comment on sequence test_table_id is '{PLAIN}'"
)
_THEIRS = (
    "create table pgbench_history (id int); create table mine (id int);"
    "comment on table mine is 'made by pgdyno and me';"
    "create table kept (id int);"
    f"comment on table kept is '{PLAIN}'"
)


@pytest.fixture(scope="module", params=[18, 15])
def server(
    request: pytest.FixtureRequest, installation_of: Callable[[int], Installation]
) -> Iterator[Cluster]:
    with Cluster.create(installation_of(request.param), {}) as cluster:
        yield cluster


@pytest.fixture
def made(server: Cluster) -> Iterator[Cluster]:
    """Tables of ours and of others in two databases; the database pgdyno is ours."""
    at(server, "postgres", f"create database shop; create database {quoted(ODD)}", apart=True)
    at(server, "postgres", f"comment on database pgdyno is '{PLAIN}'")
    at(server, "shop", f"{_OURS};{_THEIRS}")
    at(server, ODD, _OURS)
    at(server, "pgdyno", _OURS)
    yield server
    names = ("shop", quoted(ODD), "pgdyno")
    at(server, "postgres", ";".join(f"drop database if exists {n}" for n in names), apart=True)
    at(server, "postgres", "create database pgdyno")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def at(server: Cluster, database: str, statements: str, *, apart: bool = False) -> None:
    conninfo = replace(server.conninfo, database=database)
    with psycopg.connect(**conninfo.kwargs(), autocommit=True) as conn:
        for statement in statements.split(";") if apart else [statements]:
            conn.execute(statement.encode())


def shown_at(conninfo: ConnInfo, setting: str) -> object:
    with psycopg.connect(**conninfo.kwargs()) as conn:
        (value,) = conn.execute(f"show {setting}".encode()).fetchone() or (None,)
        return value


def tables(server: Cluster, database: str) -> set[str]:
    conninfo = replace(server.conninfo, database=database)
    with psycopg.connect(**conninfo.kwargs()) as conn:
        rows = conn.execute(
            "select relname from pg_class where relkind in ('r', 'p', 'S')"
            " and relnamespace = 'public'::regnamespace"
        )
        return {row[0] for row in rows}


def databases(server: Cluster) -> set[str]:
    with psycopg.connect(**{**server.conninfo.kwargs(), "dbname": "postgres"}) as conn:
        return {row[0] for row in conn.execute("select datname from pg_database")}


def cleanup(conninfo: ConnInfo, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pgdyno", "cleanup", conninfo.uri_without_password, *arguments],
        text=True,
        capture_output=True,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PGPASSWORD": conninfo.password or ""},
        **more,
    )


def test_what_we_made_goes_and_nothing_else(made: Cluster) -> None:
    """From within the database that goes, as the role's default leads there."""
    shown = cleanup(made.conninfo, "--dry-run")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == snapshot("""\
kept: public.kept in the database shop was made by pgdyno, but has been renamed
to remove: the database pgdyno
to remove: in the database shop: public.pgbench_accounts, public.pgbench_branches, public.test_table, public.test_table_id
to remove: in the database we"ird\\ndb: public.pgbench_accounts, public.pgbench_branches, public.test_table, public.test_table_id
""")
    before = tables(made, "shop")
    unasked = cleanup(made.conninfo)
    assert unasked.returncode == 1
    assert unasked.stderr == snapshot("""\
error: nothing was removed: no terminal to confirm on

hint: add -y
""")
    assert tables(made, "shop") == before
    done = cleanup(made.conninfo, "-y")
    assert (done.returncode, done.stderr) == (0, "")
    assert tables(made, "shop") == {"pgbench_history", "mine", "kept"}
    assert tables(made, ODD) == set()
    assert "pgdyno" not in databases(made)
    again = cleanup(replace(made.conninfo, database="shop"), "-y")
    assert again.returncode == 0
    assert again.stdout.endswith("nothing to remove\n")


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("create view v as select 1", "the relation public.v"),
        ("create function f() returns int language sql as 'select 1'", "the routine public.f"),
        ('create schema "A b"', "the schema A b"),
        ("create type mood as enum ('good')", "the type public.mood"),
        ("select lo_create(4711)", "the large object 4711"),
    ],
)
def test_our_database_stays_where_something_else_is_in_it(
    made: Cluster, foreign: str, shown: str
) -> None:
    at(made, "pgdyno", foreign)
    said = cleanup(made.conninfo, "-y")
    kept = [line for line in said.stdout.splitlines() if line.startswith("kept: ")]
    assert sum(line.endswith(f" {shown}") for line in kept) == 1
    assert (said.returncode, "pgdyno" in databases(made)) == (0, True)
    assert tables(made, "pgdyno") == set()


def test_what_may_not_be_removed_is_told_and_the_rest_goes(made: Cluster) -> None:
    at(made, "shop", "create view uses as select * from test_table")
    said = cleanup(replace(made.conninfo, database="shop"), "-y")
    assert said.returncode == 2
    assert said.stderr == snapshot("""\
error: not everything was removed: in the database shop: public.pgbench_accounts, public.pgbench_branches, public.test_table, public.test_table_id: cannot drop desired object(s) because other objects depend on them

hint: view public.uses depends on table public.test_table
""")
    assert "test_table" in tables(made, "shop")
    assert tables(made, ODD) == set()
    at(made, "postgres", "create role guest login password 'guest'; revoke connect on database"
       " shop from public")  # fmt: skip
    try:
        guest = replace(made.conninfo, user="guest", password="guest", database="postgres")
        said = cleanup(guest, "-y")
        (kept,) = [line for line in said.stdout.splitlines() if line.startswith("kept: ")]
        assert "shop" in kept.split()
        assert (said.returncode, "pgdyno" in databases(made)) == (0, False)
    finally:
        at(made, "postgres", "drop role guest")


def test_what_a_killed_run_left_changed_is_put_back(server: Cluster) -> None:
    """As the mark on the server tells it, which a run leaves that was killed elsewhere."""
    mark = '{"run": "gone", "settings": {"work_mem": [null, "7MB"]}}'
    at(
        server,
        "postgres",
        f"""set "pgdyno.undo" = '';alter system set "pgdyno.undo" = '{mark}';"""
        "alter system set work_mem = '7MB';"
        "select pg_reload_conf()",
        apart=True,
    )
    postgres = replace(server.conninfo, database="postgres")
    # The postmaster reads its files some time later.
    wait_until(lambda: shown_at(postgres, "work_mem") == "7MB", "it has read its files")
    shown = cleanup(postgres, "--dry-run")
    assert shown.stdout == snapshot("to restore: work_mem, left changed by a killed pgdyno\n")
    done = cleanup(postgres, "-y")
    assert (done.returncode, done.stderr) == (0, "")
    assert shown_at(postgres, "work_mem") == "4MB"
    assert cleanup(postgres).stdout.endswith("nothing to remove\n")
