"""libpq's rules decide where to connect; refusals are told in one line with a hint."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace
from psycopg import sql

from pgdyno.errors import SetupError, UsageError
from pgdyno.server import (
    Cluster,
    connect,
    connect_plain,
    own_database,
    resolve_conninfo,
    server_facts,
)
from pgdyno.server.connecting.conninfo import path_option

pytestmark = pytest.mark.server


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No PG* variables and no password file of the machine's."""
    for name in ("HOST", "PORT", "USER", "DATABASE", "PASSWORD", "SERVICE", "SSLMODE"):
        monkeypatch.delenv(f"PG{name}", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))


@pytest.fixture
def guest(pg: Cluster) -> Iterator[str]:
    """A role without rights, password "guest"; returns a URI over TCP without the password."""
    for statement in ("create role guest login password 'guest'", "drop role guest"):
        with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as conn:
            conn.execute(statement)
        if statement.startswith("create"):
            yield f"postgresql://guest@127.0.0.1:{pg.conninfo.port}"


def test_uri_keywords_flags_and_environment_lead_to_the_same_place(
    pg: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, port, password = pg.conninfo.host, pg.conninfo.port, str(pg.conninfo.password)
    ways = [
        resolve_conninfo(f"postgresql://pgdyno:{password}@/pgdyno?host={host}&port={port}"),
        resolve_conninfo(f"host={host} port={port} user=pgdyno password={password}"),
        resolve_conninfo("pgdyno", host=host, port=port, user="pgdyno"),
    ]
    monkeypatch.setenv("PGHOST", host)
    monkeypatch.setenv("PGPORT", str(port))
    monkeypatch.setenv("PGUSER", "pgdyno")
    ways.append(resolve_conninfo())
    for conninfo in ways:
        assert (conninfo.host, conninfo.port) == (host, port)
        assert (conninfo.user, conninfo.database) == ("pgdyno", "pgdyno")
        assert conninfo.is_socket
        with psycopg.connect(**conninfo.kwargs()):
            pass


def test_the_password_may_come_from_the_password_file(
    pg: Cluster, guest: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "pgpass"
    file.write_text(f"127.0.0.1:{pg.conninfo.port}:*:guest:guest\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    assert resolve_conninfo(guest).password == "guest"


def test_other_parameters_are_kept(pg: Cluster) -> None:
    conninfo = resolve_conninfo(
        f"host={pg.conninfo.host} port={pg.conninfo.port} user=pgdyno sslmode=prefer"
        " options='-c work_mem=7MB'"
    )
    assert conninfo.options == {"sslmode": "prefer", "options": "-c work_mem=7MB"}
    with psycopg.connect(**conninfo.kwargs()) as conn:
        assert conn.execute("show work_mem").fetchone() == ("7MB",)


@pytest.mark.parametrize("password", ["", ":wrong"])
def test_wrong_or_no_password(guest: str, password: str) -> None:
    with pytest.raises(SetupError) as caught:
        resolve_conninfo(guest.replace("guest@", f"guest{password}@"))
    assert caught.value.code == ("wrong-password" if password else "password-missing")
    assert "\n" not in caught.value.message
    assert "PGPASSWORD" in str(caught.value.hint)


def test_missing_database_and_role(pg: Cluster) -> None:
    where = {"host": pg.conninfo.host, "port": pg.conninfo.port}
    with pytest.raises(SetupError) as caught:
        resolve_conninfo("shop", user="pgdyno", **where)
    assert caught.value.code == "no-database"
    assert caught.value.message == snapshot("the database shop does not exist")
    assert caught.value.hint == snapshot("createdb shop, or name an existing one with -d")
    with pytest.raises(SetupError, match='role "stranger" does not exist'):
        resolve_conninfo("pgdyno", user="stranger", **where)


def test_nobody_answers() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        with pytest.raises(SetupError) as caught:
            resolve_conninfo(f"postgresql://127.0.0.1:{port}/x")
    assert caught.value.code == "no-server"
    assert caught.value.message.endswith(f" 127.0.0.1:{port}")


@pytest.mark.parametrize(
    "asked", ["gssencmode=require", "requirepeer=postgres", "sslcrldir=/x", "sslcertmode=require"]
)
def test_what_the_engine_cannot_do_is_refused_plainly(asked: str) -> None:
    with pytest.raises(SetupError) as caught:
        resolve_conninfo(f"postgresql://db.example/x?{asked}")
    assert caught.value.code == "connection-unsupported"
    assert caught.value.message.startswith(f"{asked}: ")


@pytest.mark.parametrize(
    "text", ["postgresql://host:port/x", "host=a nonsense=1", "host='a", "port=70000"]
)
def test_malformed_strings_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError, match=r"^connection: "):
        resolve_conninfo(text)


def test_own_database_is_made_where_the_role_may(pg: Cluster, guest: str) -> None:
    there = "select count(*) from pg_database where datname = 'pgdyno'"
    with psycopg.connect(**{**pg.conninfo.kwargs(), "dbname": "postgres"}, autocommit=True) as conn:
        conn.execute("alter database pgdyno rename to parked")
        try:
            nobody = resolve_conninfo(guest.replace("guest@", "guest:guest@"))
            assert nobody.database == "postgres"
            with pytest.raises(SetupError, match="permission denied to create database") as caught:
                own_database(nobody, ExitStack())
            assert caught.value.code == "no-own-database"
            assert "CREATE DATABASE pgdyno OWNER guest" in (caught.value.hint or "")
            owner = resolve_conninfo(
                "postgres", host=pg.conninfo.host, port=pg.conninfo.port, user="pgdyno"
            )
            with ExitStack() as unbegun:
                assert own_database(owner, unbegun).database == "pgdyno"
                with ExitStack() as later:
                    assert own_database(owner, later).database == "pgdyno"
                assert conn.execute(there).fetchone() == (1,)
            assert conn.execute(there).fetchone() == (0,)
        finally:
            conn.execute("alter database parked rename to pgdyno")


def test_facts_say_what_matters(pg: Cluster) -> None:
    facts = server_facts(pg.conninfo)
    assert facts["version_num"] == pg.installation.version_num
    assert facts["superuser"] is True
    assert facts["is_local"] is True
    assert facts["postmaster_pid"] == pg.pid
    assert facts["data_directory"] == str(pg.data_dir)
    assert facts["settings"]["synchronous_commit"] == "on"
    for name in ("lz4", "zstd", "jit", "io_uring", "icu"):
        assert facts["capabilities"][name] == pg.installation.capabilities[name]
    assert str(pg.conninfo.password) not in str(facts)


def test_facts_for_a_role_without_rights(pg: Cluster, guest: str) -> None:
    conninfo = resolve_conninfo(guest.replace("guest@", "guest:guest@"))
    facts = server_facts(conninfo)
    assert facts["superuser"] is False
    assert facts["monitor"] is False
    assert facts["data_directory"] is None
    assert facts["settings"]["shared_buffers"]


def test_all_servers_of_a_list_are_known_and_not_only_the_one_connected_to(
    pg: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = pg.conninfo
    hosts, ports = f"/nowhere,{own.host}", f"1,{own.port}"
    known = [("/nowhere", 1), (own.host, own.port)]
    options = f"user={own.user} dbname={own.database}"
    named = resolve_conninfo(f"host={hosts} port={ports} {options}")
    assert [(each.host, each.port) for each in named.hosts] == known
    assert (named.host, named.port) == (own.host, own.port)
    monkeypatch.setenv("PGHOST", hosts)
    monkeypatch.setenv("PGPORT", ports)
    inherited = resolve_conninfo(options)
    assert [(each.host, each.port) for each in inherited.hosts] == known
    assert resolve_conninfo(f"host={own.host} port={own.port} {options}").hosts == ()


def test_schemas_of_any_name_are_found_by_the_path(pg18: Cluster) -> None:
    names = ["pg_catalog", "Odd\n\tname", 'a "quoted" \\ one', "plain", "\x1b[1m"]

    def path(schemas: list[str]) -> object:
        options = {"options": path_option(schemas)}
        with connect_plain(replace(pg18.conninfo, options=options)) as conn:
            (found,) = conn.execute("select current_schemas(false)").fetchone() or (None,)
            return found

    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as conn:
        for name in names[1:]:
            conn.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
        try:
            assert path(names) == names
            assert path([]) == []
        finally:
            for name in names[1:]:
                conn.execute(sql.SQL("drop schema {}").format(sql.Identifier(name)))


def test_a_time_limit_that_ends_the_first_statement_is_an_error_of_the_connection(
    pg18: Cluster,
) -> None:
    hasty = replace(pg18.conninfo, options={"options": "-c transaction_timeout=1"})
    refused = 0
    for _ in range(50):
        try:
            connect(hasty).close()
        except SetupError as problem:
            refused += "transaction timeout" in problem.message
    assert refused < 50, "most are quicker"
