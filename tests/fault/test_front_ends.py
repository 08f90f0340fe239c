"""``pgdyno front`` from its start to its end, also by kill -9: what it prints, and what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import psycopg
import pytest
from msgspec.structs import replace

from patience import PATIENCE_S, wait_until
from pgdyno.disk import dismantle
from pgdyno.results import schemas
from pgdyno.server import Cluster, sweep
from remains import directories, left_over, running_in

pytestmark = pytest.mark.server

Begin = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def begin(
    own_home: Path, front_jar: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Begin]:
    """Starts ``pgdyno front`` with a home of its own; one that still runs is ended."""
    monkeypatch.setenv("PGDYNO_FRONT_JAR", str(front_jar))
    runs: list[subprocess.Popen[str]] = []

    def run(*arguments: str, password: str | None = None) -> subprocess.Popen[str]:
        environment = {**os.environ, **({"PGPASSWORD": password} if password else {})}
        command = [sys.executable, "-m", "pgdyno", "front", *arguments]
        runs.append(
            subprocess.Popen(
                command,
                text=True,
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        )
        return runs[-1]

    yield run
    for each in runs:
        each.kill()
        each.communicate()
    sweep(dismantle)


def next_line(run: subprocess.Popen[str]) -> str:
    assert run.stdout is not None
    line = run.stdout.readline()
    assert line, run.stderr.read() if run.stderr else ""
    return line.rstrip("\n")


def has_served(run: subprocess.Popen[str], url: str) -> bool:
    """Whether the next line counts requests; one is sent before it, which may be too early."""
    with urllib.request.urlopen(url) as answer:
        assert answer.status == 200
    return "requests/s: pool" in next_line(run)


def test_it_prints_what_it_serves_until_ctrl_c(begin: Begin, tmp_path: Path) -> None:
    run = begin("--pool", "hikari", "--max-total", "3", "--max-wait", "2s", "--log", "front.log")
    url = next_line(run)
    pages = [next_line(run)]
    while pages[-1].startswith("  /"):
        pages.append(next_line(run))
    assert "  /order     a new order of 6 or 7 items" in "\n".join(pages)
    assert pages[-1] == (
        "HikariCP 7.1.0: at most 3 connections, 3 kept idle; a request waits at most 2,000 ms for"
        " one"
    )
    assert next_line(run).startswith("Tomcat 10.1.52, pgjdbc 42.7.14, Java ")
    assert next_line(run).startswith("PostgreSQL 18")
    wait_until(lambda: has_served(run, f"{url}order"), "orders are in a line")
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=PATIENCE_S)
    assert (run.returncode, "Traceback" in said) == (0, False)
    assert left_over() == []
    assert (tmp_path / "front.log").exists()


def test_a_server_of_the_user_stays_as_it_is(begin: Begin, pg18: Cluster) -> None:
    server = pg18.conninfo_tcp
    with psycopg.connect(**server.kwargs(), autocommit=True) as conn:
        conn.execute("create database front_shop")
    try:
        named = ("-h", server.host, "-p", str(server.port), "-U", server.user, "-d", "front_shop")
        run = begin(*named, "-i", "-T", "1", password=server.password)
        out, said = run.communicate(timeout=PATIENCE_S)
        assert run.returncode == 0, said
        assert f"your server: {replace(server, database='front_shop').uri_without_password}" in out
        assert "no requests, 0 of 8 connections in use" in out
        assert server.password is not None
        assert server.password not in out + said
        again = begin(*named, "-T", "1", password=server.password)
        assert again.wait(timeout=PATIENCE_S) == 0, "the tables that are there are used"
    finally:
        with psycopg.connect(**server.kwargs(), autocommit=True) as conn:
            conn.execute("drop database front_shop")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-i", "-i requires a named server"),
        ("-d shop --set work_mem=1MB", "--set cannot be used with a running server"),
        ("business", "pgdyno front makes no load, so it takes no workload"),
        ("--java /nowhere", "--java names /nowhere, in which there is none"),
        ("--log /nowhere/log", "--log /nowhere/log cannot be written: No such file or directory"),
        ("--log .", "--log . cannot be written: there is a directory of this name"),
    ],
    ids=["initialize", "setting", "workload", "java", "log", "log-directory"],
)
def test_what_cannot_be_is_said_at_once(begin: Begin, arguments: str, message: str) -> None:
    run = begin(*arguments.split())
    out, said = run.communicate(timeout=PATIENCE_S)
    assert (run.returncode, out) == (1, "")
    assert message in said


def test_a_server_that_it_cannot_reach_stays_as_it_was(pg18: Cluster, begin: Begin) -> None:
    server = pg18.conninfo_tcp
    socket = pg18.conninfo
    with psycopg.connect(**server.kwargs(), autocommit=True) as conn:
        conn.execute("create database front_unreached")
        try:
            before = conn.execute("select datname from pg_database order by 1").fetchall()
            named = ("-h", socket.host, "-p", str(socket.port), "-U", socket.user)
            run = begin(*named, "-d", "front_unreached", password=socket.password)
            _, said = run.communicate(timeout=PATIENCE_S)
            assert "its driver, pgjdbc, connects over TCP only" in said
            assert conn.execute("select datname from pg_database order by 1").fetchall() == before
        finally:
            conn.execute("drop database front_unreached")


def test_nothing_survives_a_kill(begin: Begin, open_dir: Path) -> None:
    run = begin("--format", "json")
    reading = json.loads(next_line(run))
    jsonschema.validate(reading, schemas()["front"])
    assert reading["pool"]["max"] == 8
    os.kill(run.pid, signal.SIGKILL)
    run.wait(timeout=PATIENCE_S)
    wait_until(lambda: not running_in(open_dir), "all that it started has ended")
    wait_until(lambda: not directories(), "the directories of server and front end are gone")
