"""Databases in other encodings, and names that are in none: everything runs and is readable."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace

from pgdyno.server import Cluster, ConnInfo, connect_plain, server_facts

pytestmark = pytest.mark.server

ENDED_WELL = (0, 4)
"""The second one: a machine that is busy otherwise made the load generator the limit."""


@pytest.fixture(params=["SQL_ASCII", "LATIN1", "EUC_JP"])
def odd(request: pytest.FixtureRequest, pg18: Cluster) -> Iterator[ConnInfo]:
    """A database in that encoding; in SQL_ASCII a table's name and texts are no UTF-8."""
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute(
            f"create database odd encoding '{request.param}' template template0 locale 'C'"
        )
        conninfo = replace(pg18.conninfo, database="odd")
        with psycopg.connect(**conninfo.kwargs(), autocommit=True) as inside:
            if request.param == "SQL_ASCII":
                inside.execute(b'create table "caf\xe9" (a text)')
                inside.execute(b"""insert into "caf\xe9" values ('\xff\xfe')""")
        # Settings are read by every session of every database.
        connection.execute("set client_encoding = 'utf8'")
        connection.execute("alter database odd set application_name = 'x'")
        yield conninfo
        connection.execute("drop database odd with (force)")


def test_texts_of_any_bytes_are_texts(odd: ConnInfo) -> None:
    with connect_plain(odd) as connection:
        names = [row[0] for row in connection.execute("select relname from pg_class")]
        assert all(isinstance(name, str) for name in names)
        if odd_name := next((name for name in names if name.startswith("caf")), None):
            (text,) = connection.execute(f'select a from "{odd_name}"').fetchone() or ("",)
            assert text == "\xff\xfe", "what was read can be sent back"
    assert server_facts(odd)["settings"]["max_connections"].isdecimal()


def test_a_run_in_it_ends_well(odd: ConnInfo, open_dir: Path) -> None:
    script = open_dir / "one.sql"
    # With pauses, so that the load generator is not the limit on a busy machine.
    script.write_text("select pg_sleep(0.05);\nselect count(*) from pg_class;\n")
    command = [sys.executable, "-m", "pgdyno", "run", "-f", "one.sql", "-c", "2", "-T", "1"]
    command += ["-o", "run.db", "--report", "run.html", "--think", "20ms"]
    done = subprocess.run(
        [*command, "-q", "-d", odd.uri_without_password],
        cwd=open_dir,
        env={**os.environ, "PGDYNO_TRACEBACK": "1"},
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )
    assert done.returncode in ENDED_WELL, done.stderr + done.stdout
    assert "throughput" in done.stdout
    assert "<html" in (open_dir / "run.html").read_text()


def run_bytes(odd: ConnInfo, open_dir: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A short run of a script that sends and receives bytes which are no UTF-8."""
    (open_dir / "bytes.sql").write_text(
        "select E'\\xe9\\xff', current_setting('client_encoding');\n"
    )
    command = [sys.executable, "-m", "pgdyno", "run", "-f", "bytes.sql", "-c", "1", "-t", "2"]
    return subprocess.run(
        [*command, "-q", "-o", "bytes.db", "-d", odd.uri_without_password],
        cwd=open_dir,
        env={**os.environ, **env},
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("odd", ["SQL_ASCII"], indirect=True)
def test_bytes_of_a_sql_ascii_database_are_not_converted(odd: ConnInfo, open_dir: Path) -> None:
    done = run_bytes(odd, open_dir)
    assert "22021" not in done.stdout + done.stderr
    assert done.returncode in ENDED_WELL, done.stderr + done.stdout


@pytest.mark.parametrize("odd", ["SQL_ASCII"], indirect=True)
@pytest.mark.parametrize(
    "env", [{"PGCLIENTENCODING": "UTF8"}, {"PGOPTIONS": "-c client_encoding=UTF8"}]
)
def test_the_given_encoding_takes_precedence(
    odd: ConnInfo, open_dir: Path, env: dict[str, str]
) -> None:
    done = run_bytes(odd, open_dir, **env)
    assert done.returncode == 2
    assert "22021" in done.stdout + done.stderr
