"""Exclusive use of a server: a second run waits or is refused, and kill -9 releases the lock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace

from pgdyno.errors import SetupError
from pgdyno.server import Cluster, ConnInfo
from pgdyno.server.connecting.exclusive_use import exclusive_use

pytestmark = [pytest.mark.server, pytest.mark.alike]
HOLDER = """
import sys
from pgdyno.server import resolve_conninfo
from pgdyno.server.connecting.exclusive_use import exclusive_use
with exclusive_use(resolve_conninfo(sys.argv[1]), wait_ms=60_000, note=lambda _: None):
    print("mine", flush=True)
    sys.stdin.read()
"""


# The sessions of the turn before, which were closed or killed, take a moment to end.
WAIT_MS = 60_000


def silent(_: str) -> None:
    """No note."""


def take(conninfo: ConnInfo, wait_ms: int = 0) -> None:
    """Take the turn and give it back."""
    with exclusive_use(conninfo, wait_ms=wait_ms, note=silent):
        pass


@contextmanager
def another_pgdyno(conninfo: ConnInfo) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the turn."""
    command = [sys.executable, "-c", HOLDER, conninfo.uri_without_password]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "mine\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def second_database(pg: Cluster) -> Iterator[ConnInfo]:
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("create database second")
        yield replace(pg.conninfo, database="second")
        connection.execute("drop database second with (force)")


def test_the_second_is_refused_with_who_the_first_is(pg: Cluster) -> None:
    with another_pgdyno(pg.conninfo) as first:
        with pytest.raises(SetupError) as refused:
            take(pg.conninfo)
        assert f"process {first.pid} on " in refused.value.message
        assert "since" in refused.value.message
        assert "--server-wait" in str(refused.value.hint)
    take(pg.conninfo, WAIT_MS)


def test_runs_in_different_databases_meet_too(pg: Cluster, second_database: ConnInfo) -> None:
    with another_pgdyno(second_database), pytest.raises(SetupError, match="another pgdyno"):
        take(pg.conninfo)
    with another_pgdyno(pg.conninfo), pytest.raises(SetupError, match="another pgdyno"):
        take(second_database)


def test_kill_9_lets_go_and_who_waits_has_its_turn(pg: Cluster) -> None:
    with another_pgdyno(pg.conninfo) as first:
        said: list[str] = []

        def note(text: str) -> None:
            said.append(text)
            os.kill(first.pid, signal.SIGKILL)

        with exclusive_use(pg.conninfo, wait_ms=WAIT_MS, note=note):
            assert 1 <= len(said) <= 2, "once for each of the two locks"
            assert said[0].startswith("waiting up to 60 s for process ")


def test_a_role_that_may_not_enter_postgres_has_a_turn(
    pg: Cluster, second_database: ConnInfo
) -> None:
    mine = replace(second_database, user="visitor", password="v")
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("create role visitor login password 'v'")
        connection.execute("revoke connect on database postgres from public")
        try:
            take(mine, WAIT_MS)
            with (
                exclusive_use(second_database, wait_ms=WAIT_MS, note=silent),
                pytest.raises(SetupError),
            ):
                take(mine)
        finally:
            connection.execute("grant connect on database postgres to public")
            connection.execute("drop role visitor")


def test_time_limits_of_the_role_do_not_end_the_turn(pg: Cluster) -> None:
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("alter role current_user set idle_session_timeout = '1ms'")
        try:
            with (
                exclusive_use(pg.conninfo, wait_ms=WAIT_MS, note=silent),
                pytest.raises(SetupError, match="another pgdyno"),
            ):
                take(pg.conninfo)
        finally:
            connection.execute("alter role current_user reset idle_session_timeout")


def test_a_second_run_on_the_same_server_is_refused_with_who_is_there(
    pg: Cluster, open_dir: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "pgdyno",
        "run",
        "select-only",
        "-s",
        "1",
        "-c",
        "1",
        "--think",
        "5ms",
    ]
    to = [*command, "-d", pg.conninfo.uri_without_password]
    first = subprocess.Popen(
        [*to, "-T", "400", "-P", "1"], cwd=open_dir, stderr=subprocess.PIPE, text=True
    )
    assert first.stderr is not None
    try:
        assert any("measuring" in line for line in first.stderr)
        second = subprocess.run(
            [*to, "-T", "1", "--server-wait", "0", "--format", "json"],
            cwd=open_dir,
            capture_output=True,
            check=False,
            text=True,
            timeout=400,
        )
    finally:
        first.kill()
        first.communicate()
    assert second.returncode == 1
    error = json.loads(second.stdout)["error"]
    assert error["code"] == "server-in-use"
    assert str(first.pid) in error["message"]
