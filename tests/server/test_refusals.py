"""Real servers that refuse: one message each, with a hint that fits, and status 1."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from pgdyno.errors import SetupError, UsageError
from pgdyno.record import RunFile
from pgdyno.server import Cluster, ConnInfo, Installation, resolve_conninfo
from pgdyno.spec.workload import InitSpec, WorkloadSpec
from pgdyno.workload import load_mix, prepare

pytestmark = [pytest.mark.server, pytest.mark.alike]
ROLES = {
    "refused_ro": "login; alter role refused_ro set default_transaction_read_only = on",
    "refused_slow": "login superuser; alter role refused_slow set statement_timeout = '1ms'",
    "refused_nothing": "login",
    "refused_full": "login connection limit 0",
    "refused_away": "nologin",
}


@pytest.fixture(scope="module")
def refusing(pg: Cluster) -> Iterator[Cluster]:
    """A server with roles that may not do much, and a database that is closed."""
    with psycopg.connect(**pg.conninfo.kwargs() | {"dbname": "postgres"}, autocommit=True) as conn:
        for name, what in ROLES.items():
            for statement in f"create role {name} {what}".split(";"):
                conn.execute(statement.encode())
        conn.execute("create database refused_closed allow_connections false")
        conn.execute("create database refused_shut")
        conn.execute("revoke connect on database refused_shut from public")
        yield pg
        conn.execute("drop database refused_closed")
        conn.execute("drop database refused_shut")
        for name in ROLES:
            conn.execute(f"drop role {name}".encode())


@pytest.mark.parametrize(
    ("user", "database", "message", "hint"),
    [
        ("refused_ro", "postgres", "read-only transaction", "default_transaction_read_only"),
        ("refused_slow", "postgres", "canceling statement", "statement_timeout"),
        ("refused_full", "postgres", "too many connections for role", "CONNECTION LIMIT"),
        ("refused_away", "postgres", "is not permitted to log in", "LOGIN"),
        ("refused_nothing", "refused_closed", "not currently accepting", "ALLOW_CONNECTIONS"),
        ("refused_nothing", "refused_shut", "permission denied for database", "GRANT CONNECT"),
        ("refused_nothing", "refused_none", "does not exist", "createdb refused_none"),
        ("refused_none", "postgres", 'role "refused_none" does not exist', "-U"),
    ],
)
def test_a_refusal_is_told_with_its_hint(
    refusing: Cluster, tmp_path: Path, user: str, database: str, message: str, hint: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pgdyno", "run", "tpcb-like", "-i", "-q", "-T", "1", "-c", "1",
         "-h", refusing.conninfo.host, "-p", str(refusing.conninfo.port), "-U", user,
         "-d", database],
        capture_output=True, text=True, timeout=400, cwd=tmp_path,
    )  # fmt: skip
    said, _, hinted = done.stderr.partition("\n\nhint: ")
    assert (done.returncode, done.stdout) == (1, "")
    assert said.count("error: ") == 1
    assert message in said
    assert hint in hinted


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PGPORT", "abc"),
        ("PGPORT", "70000"),
        ("PGSSLMODE", "bogus"),
        ("PGCONNECT_TIMEOUT", "abc"),
        ("PGSSLMINPROTOCOLVERSION", "bogus"),
        ("PGHOSTADDR", "no-address"),
    ],
)
def test_a_variable_that_libpq_refuses_is_named(
    pg: Cluster, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError) as caught:
        resolve_conninfo("postgres", host=pg.conninfo.host)
    assert caught.value.message.startswith(f"{variable}: ")
    assert value in caught.value.message
    assert caught.value.code == "conninfo"
    assert variable in (caught.value.hint or "")


def test_a_value_of_the_string_that_libpq_refuses_is_told(pg: Cluster) -> None:
    with pytest.raises(UsageError, match='invalid sslmode value: "bogus"') as caught:
        resolve_conninfo("dbname=postgres sslmode=bogus", host=pg.conninfo.host)
    assert "connection string" in (caught.value.hint or "")


def test_a_tablespace_that_is_not_there_is_told_with_its_hint(pg: Cluster) -> None:
    init = InitSpec(tablespace="nowhere")
    with pytest.raises(SetupError, match='tablespace "nowhere" does not exist') as caught:
        prepare(
            pg.conninfo,
            [load_mix("tpcb-like")],
            WorkloadSpec(initialize=True, scale=1, init=init),
            lambda *_: None,
        )
    assert "pg_tablespace" in (caught.value.hint or "")


def test_what_was_recorded_is_told_where_the_result_cannot_be_written(
    pg: Cluster, tmp_path: Path
) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pgdyno", "run", "tpcb-like", "-q", "-T", "1", "-c", "1",
             "--think", "20ms", "-o", "run.db", "-h", pg.conninfo.host, "-p", str(pg.conninfo.port),
             "-U", pg.conninfo.user],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=400, cwd=tmp_path,
            env=os.environ | {"PGPASSWORD": pg.conninfo.password or ""},
        )  # fmt: skip
    assert done.returncode == 2
    assert "hint: the recorded data is kept: pgdyno show run.db" in done.stderr


@pytest.fixture(scope="module")
def trying(installation_of: Callable[[int], Installation]) -> Iterator[ConnInfo]:
    """A server of its own, with a role that may try little."""
    with Cluster.create(installation_of(18)) as cluster:
        with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as conn:
            conn.execute("create role tries login; grant pg_monitor to tries")
            conn.execute("grant create on schema public to tries")
        yield cluster.conninfo


@pytest.mark.parametrize(
    ("role", "setting", "message"),
    [
        ("tries", "max_wal_size=3GB", "may not execute CHECKPOINT"),
        ("tries", "wal_writer_delay=50ms", "may not reload the server's configuration"),
        ("pgdyno", "session_preload_libraries=nosuchlib", "new connections fail"),
        ("pgdyno", "shared_buffers=256MB", "takes effect only after a restart"),
    ],
)
def test_what_a_trial_could_not_do_is_refused_before_the_load(
    trying: ConnInfo, tmp_path: Path, role: str, setting: str, message: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pgdyno", "compare", "tpcb-like", "-q", "-c", "1", "-s", "1",
         "-o", "run.db", "--apply", "--set", setting, "-h", trying.host, "-p", str(trying.port),
         "-U", role],
        capture_output=True, text=True, timeout=400, cwd=tmp_path,
        env=os.environ | {"PGPASSWORD": trying.password or ""},
    )  # fmt: skip
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    with RunFile(tmp_path / "run.db") as run:
        assert run.slices() == []
