"""``pgdyno snapshot save --from``: copies of databases, and all that keeps one from being made."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace
from printed import Said

from patience import wait_until
from pgdyno.disk import dismantle
from pgdyno.record import RunFile
from pgdyno.server import Cluster, ConnInfo, connect_plain, sweep
from pgdyno.server.directories import clusters_dir, snapshots_dir
from pgdyno.server.local.snapshots import list_snapshots, read_snapshot, remove_snapshot
from pgdyno.spec.sql_text import quoted
from remains import running_in

Pgdyno = Callable[..., Any]
pytestmark = [pytest.mark.server, pytest.mark.usefixtures("nothing_left")]
SHOP = r"""
create schema app;
create schema "Odd schema";
create role clerk;
create domain app.money as numeric check (value >= 0);
create table app.orders (id bigserial primary key, customer int not null, total app.money,
  note text, doc jsonb default '{}');
insert into app.orders (customer, total, note)
  select n % 50, n, e'back\\slash\ttab\n\\.' from generate_series(1, 500) n;
create table "Odd schema"."a ""table"" x" ("a b" text);
insert into "Odd schema"."a ""table"" x" values (e'\\N');
create function app.total() returns numeric language sql as 'select sum(total) from app.orders';
alter table app.orders enable row level security;
create policy own on app.orders to clerk using (false);
create foreign data wrapper nowhere;
create server other foreign data wrapper nowhere;
create user mapping for clerk server other options (password 'theirs');
select lo_from_bytea(4711, '\x00ff');
create publication everything for all tables;
"""


@pytest.fixture(autouse=True)
def _no_snapshots() -> Iterator[None]:
    yield
    for name, _ in list_snapshots():
        remove_snapshot(name)
    assert [path.name for path in snapshots_dir().iterdir()] in ([], [".lock"])


@pytest.fixture
def shop(pg: Cluster) -> Iterator[ConnInfo]:
    """A database of a shop, reached by TCP with a password."""
    with connect_plain(pg.conninfo) as conn:
        conn.execute("create database shop template template0 encoding 'LATIN1' locale 'C'")
        conn.execute('alter database shop set search_path = app, "Odd schema"')
        conn.execute("alter database shop set work_mem = '1MB'")
    there = replace(pg.conninfo_tcp, database="shop")
    try:
        with connect_plain(there) as conn:
            conn.execute(SHOP.encode())
        yield there
    finally:
        with connect_plain(pg.conninfo) as conn:
            conn.execute("drop database shop with (force)")
            conn.execute("drop role clerk")


def uri(conninfo: ConnInfo) -> str:
    return conninfo.uri_without_password.replace("@", f":{conninfo.password}@", 1)


def refused(pgdyno: Pgdyno, *arguments: str) -> Said:
    said = pgdyno("snapshot", "save", "shop", *arguments)
    assert said.status == 1, said.out
    assert list_snapshots() == []
    return said


def test_a_database_is_copied_and_loaded(pgdyno: Pgdyno, pg: Cluster, shop: ConnInfo) -> None:
    said = pgdyno("snapshot", "save", "shop", "--from", uri(shop))
    assert said.status == 0, said.err
    version = pg.installation.version
    start = f"snapshot shop: PostgreSQL {version}, a copy of shop of PostgreSQL {version}, postgres"
    assert said.out.startswith(start)
    assert "note: settings of shop or its role are not copied: work_mem" in said.err
    assert "user mappings and row-level security (3 entries)" in " ".join(said.err.split())
    made = read_snapshot("shop")
    assert made.rows == {"app.orders": 500, '"Odd schema"."a ""table"" x"': 1}
    assert made.origin is not None
    assert (made.origin.database, made.origin.version) == ("shop", version)
    listed = pgdyno("snapshot", "list").out
    assert f"shop of PostgreSQL {version}, {shop.uri_without_password}" in listed
    assert shop.password is not None
    description = snapshots_dir() / "shop" / "snapshot.json"
    assert shop.password not in listed + description.read_text()
    # Names without a schema are found as at the source.
    Path("orders.sql").write_text(
        "\\set n random(1, 500)\nupdate orders set total = total + 1 where id = :n;\n"
        'select total();\ninsert into "a ""table"" x" values (\'x\');\n'
        "select 1 / (getdatabaseencoding() = 'LATIN1')::int;\nselect lo_get(4711);\n"
    )
    run = ("-f", "orders.sql", "-T", "1", "-c", "2", "-q", "--think", "20ms", "-o", "run.db")
    said = pgdyno("run", *run, "--snapshot", "shop", "--format", "json")
    assert said.status in (0, 4), said.err
    with RunFile(Path("run.db")) as file:
        ledger = file.ledger()
        assert (ledger.done > 0, ledger.failed) == (True, 0)
    later = pgdyno("snapshot", "save", "later", "mixed", "--snapshot", "shop", "-q")
    assert later.status == 0, later.err
    assert read_snapshot("later").origin == made.origin


def test_what_contradicts_it(pgdyno: Pgdyno) -> None:
    assert refused(pgdyno, "tpcb-like", "--from", "shop").err == snapshot("""\
error: "tpcb-like" cannot be used with --from, which copies a database and makes no load

hint: give it to the command that makes a load, with --snapshot
""")
    for option in (("-s", "2"), ("-T", "1"), ("-f", "x.sql"), ("-c", "3"), ("--snapshot", "x")):
        said = refused(pgdyno, "--from", "shop", *option)
        assert (said.code, "--from" in said.err) == ("contradiction", True)
    assert refused(pgdyno, "--from", "shop", "-h", "db.example").err == snapshot("""\
error: --host cannot be used with --from, which copies a database and makes no load

hint: the database is named by --from alone
""")


def test_a_source_that_cannot_be_read(pgdyno: Pgdyno, pg: Cluster, shop: ConnInfo) -> None:
    server = uri(replace(shop, database="")).rstrip("/")
    assert refused(pgdyno, "--from", server).code == "no-database-named"
    assert "nosuch" in refused(pgdyno, "--from", uri(replace(shop, database="nosuch"))).err
    with connect_plain(shop) as conn:
        conn.execute("alter role clerk login password 'clerk'")
        clerk = uri(replace(shop, user="clerk", password="clerk"))
        said = refused(pgdyno, "--from", clerk, "-q")
        assert said.code == "source-unreadable"
        assert said.err == snapshot("""\
error: the role clerk may not read "Odd schema"."a ""table"" x", app.orders and app.orders_id_seq, so that the database cannot be copied

hint: as a superuser: GRANT pg_read_all_data TO clerk, or name another role
""")
        conn.execute("grant pg_read_all_data to clerk")
        said = refused(pgdyno, "--from", clerk, "-q")
        assert said.code == "source-unreadable"
        assert said.err == snapshot("""\
error: row-level security hides rows of app.orders from the role clerk, so that the database cannot be copied

hint: as a superuser: ALTER ROLE clerk BYPASSRLS, or name another role
""")
        conn.execute("alter role clerk bypassrls")
        conn.execute("set allow_system_table_mods = on")
        conn.execute("update pg_extension set extname = e'no\\nsuch' where extname = 'plpgsql'")
        said = refused(pgdyno, "--from", clerk, "-q")
        build = pg.installation
        assert said.code == "extensions-missing"
        assert f" {build.version} in {build.bindir} " in said.err
        assert ": no\\nsuch\n" in said.err


def test_versions_and_space(pgdyno: Pgdyno, pg18: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    own = uri(pg18.conninfo_tcp)
    said = refused(pgdyno, "--from", own, "--pg-version", "15")
    assert (said.code, "pgdyno server get 18" in said.err) == ("pg-version", True)
    with monkeypatch.context() as patch:
        patch.setattr("pgdyno.scenario.snapshot_copying._SPARE_BYTES", 1 << 60)
        assert refused(pgdyno, "--from", own).code == "copy-space"


def test_an_older_source_is_copied_into_a_newer_server(
    pgdyno: Pgdyno, pg15: Cluster, pg18: Cluster
) -> None:
    name = 'old"er\n\x1b[2J'
    icu = pg15.installation.capabilities["icu"]
    with connect_plain(pg15.conninfo) as conn:
        options = "template template0 encoding 'UTF8' locale_provider icu icu_locale 'de'"
        conn.execute(f"create database {quoted(name)} {options if icu else ''}".encode())
    there = replace(pg15.conninfo, database=name)
    try:
        with connect_plain(there) as conn:
            conn.execute("create table t as select generate_series(1, 10) as n")
        said = pgdyno(
            *("snapshot", "save", "newer", "--from", there.uri_without_password),
            *("--pg-bindir", str(pg18.installation.bindir), "-q", "--format", "json"),
        )
        assert said.status == 0, said.err
        made = json.loads(said.out)
        assert made["rows"] == {"public.t": 10}
        assert made["origin"]["version"] == pg15.installation.version
        assert made["version"] == pg18.installation.version
        lacks = icu and not pg18.installation.capabilities["icu"]
        assert ("sorts and compares text by the locale C, not ICU's de" in said.err) is lacks
        listed = pgdyno("snapshot", "list").out
        assert 'old"er\\n\\x1b[2J of PostgreSQL 15' in listed
        assert len(listed.splitlines()) == 2
    finally:
        with connect_plain(pg15.conninfo) as conn:
            conn.execute(f"drop database {quoted(name)}".encode())


def test_what_pg_dump_and_pg_restore_say(
    pgdyno: Pgdyno, shop: ConnInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdyno.scenario.snapshot_copying._LOCK_WAIT", "--lock-wait-timeout=100ms")
    with connect_plain(shop) as conn:
        with conn.transaction():
            conn.execute("lock table orders in access exclusive mode")
            said = refused(pgdyno, "--from", uri(shop), "-q")
        assert (said.code, " pg_dump " in said.err) == ("copy-failed", True)
        assert " 30 s" in said.err, "the time that it waits for a locked table"
        # It needs a table that is not on its path while it is restored.
        conn.execute("create table app.limits (n int)")
        conn.execute("insert into app.limits values (9)")
        conn.execute(
            "create function app.fits(n int) returns bool language plpgsql as"
            " 'begin return n < (select max(l.n) from limits l); end'"
        )
        conn.execute("create table app.checked (n int check (app.fits(n)))")
        conn.execute("insert into app.checked values (1)")
    said = refused(pgdyno, "--from", uri(shop), "-q")
    assert (said.code, " pg_restore " in said.err) == ("copy-failed", True)
    assert 'relation "limits" does not exist' in said.err


def test_nothing_is_left_after_a_kill_and_no_password_is_seen(
    tmp_path: Path, shop: ConnInfo
) -> None:
    before = set(clusters_dir().iterdir())
    words = ["snapshot", "save", "killed", "--from", f"{shop.uri_without_password}", "-q"]
    assert shop.password is not None
    with connect_plain(shop) as conn, conn.transaction():
        conn.execute("lock table orders in access exclusive mode")
        process = subprocess.Popen(
            [sys.executable, "-m", "pgdyno", *words],
            start_new_session=True,
            cwd=tmp_path,
            env={**os.environ, "PGPASSWORD": shop.password},
        )
        try:
            wait_until(lambda: _new(before) and "pg_dump" in _commands(*_new(before)), "pg_dump")
            (directory,) = _new(before)
            service = directory / "source.conf"
            assert service.stat().st_mode & 0o777 == 0o600
            assert shop.password not in _commands(directory) + service.read_text()
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        wait_until(lambda: not running_in(directory), "the end of the server")
        wait_until(lambda: not directory.exists(), "the end of its directory")
        wait_until(lambda: _commands(directory) == "", "the end of what removes it")
    part = snapshots_dir() / ".killed.part"
    assert any(line.endswith(f" {part}") for line in sweep(dismantle))
    assert list_snapshots() == []


def _new(before: set[Path]) -> set[Path]:
    """Return the directories of servers that were not there before."""
    return set(clusters_dir().iterdir()) - before - {clusters_dir() / ".lock"}


def _commands(directory: Path) -> str:
    """Return the command lines of the processes that work in a directory."""
    lines = [Path(each, "cmdline") for each in running_in(directory)]
    return "\n".join(
        line.read_bytes().replace(b"\0", b" ").decode() for line in lines if line.exists()
    )
