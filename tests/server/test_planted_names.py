"""Functions, operators, types and views that the owner of a database has planted: no command that
connects as a superuser calls one, whatever the search_path."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

import pgdyno
from patience import PATIENCE_S
from pgdyno.server import Cluster, connect_plain

pytestmark = [pytest.mark.server, pytest.mark.alike]

_OPERATORS = "= <> < > <= >= + - * / % || ~ !~ ~~ !~~ & | # << >>"
_PATHS = {
    # Schema of what is planted → the database's search_path; None: the default.
    "evil": "evil, pg_catalog",
    "public": None,
}
_COUNTED = """
select count(*) from pg_proc where pronamespace = to_regnamespace(%s)
"""
_COMMANDS = (
    "check {at} -T 2 --write-probe --fail-on never",
    "vacuum-plan {at} -T 2s",
    "govern {at} --once",
    "run tpcb-like {at} -c 2 -t 5 -i -s 1",
    "run business {at} -c 2 -t 5 -i",
    "run mixed {at} -c 2 -t 5 -i",
    "run ingest {at} -c 2 -t 5 -i",
    "server sweep {at}",
    "cleanup {at} -y",
)
_LONG = (
    "run entity-resolution {at} -c 2 -t 5 -i",
    "storm select-only {at} -c 4 --budget 20",
    "run tpcb-like {at} -c 2 -t 5 -M prepared -C -i -s 1",
    "run select-only {at} -c 2 -t 5 -M extended --vacuum-all",
    "compare tpcb-like {at} -c 2 --set commit_delay=10 --apply --budget 40",
    "investigate tpcb-like {at} -c 2 --budget 30 --apply",
    "knee select-only {at} --budget 31",
    "pool select-only {at} -c 4 --budget 31",
    "front {at} -T 5 -i",
    "snapshot save planted --from {at}",
    "snapshot remove planted",
)


def names_called() -> list[str]:
    """The functions that SQL of the package calls, by their names."""
    files = [
        *Path(pgdyno.__file__).parent.rglob("*.sql"),
        *Path(pgdyno.__file__).parent.rglob("*.py"),
    ]
    texts = (path.read_text("utf-8") for path in files)
    return sorted({name for text in texts for name in re.findall(r"\b([a-z_]+)\(", text)})


@contextmanager
def planted(cluster: Cluster, schema: str) -> Iterator[psycopg.conninfo.ConnectionInfo]:
    """A database of mallory's, who is an ordinary role."""
    text = Path(__file__).with_name("planted.sql").read_text("utf-8")
    with connect_plain(cluster.conninfo) as conn:
        conn.execute("create role mallory login")
        conn.execute("create database planted owner mallory")
    kwargs = {**cluster.conninfo.kwargs(), "dbname": "planted"}
    with psycopg.connect(**kwargs, autocommit=True) as conn:
        conn.execute("set role mallory")
        conn.execute(f"create schema if not exists {schema}".encode())
        names = {
            "schema": sql.Identifier(schema),
            "functions": sql.Literal(names_called()),
            "operators": sql.Literal(_OPERATORS.split()),
        }
        conn.execute(sql.SQL(text).format(**names))
        (count,) = conn.execute(_COUNTED, [schema]).fetchone() or (0,)
        assert count > 10_000
        if path := _PATHS[schema]:
            conn.execute(f"alter database planted set search_path = {path}".encode())
    yield


def called(cluster: Cluster) -> list[str]:
    return re.findall(
        r"LOG:  planted: (.*) as pgdyno", cluster.log_path.read_text("utf-8", "replace")
    )


@pytest.mark.parametrize("schema", ["evil", pytest.param("public", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "commands", [_COMMANDS, pytest.param(_LONG, marks=pytest.mark.long)], ids=["short", "long"]
)
def test_planted_functions_are_not_called(
    new_cluster: Callable[..., Cluster], schema: str, commands: tuple[str, ...], tmp_path: Path
) -> None:
    cluster = new_cluster(18)
    tcp = {**cluster.conninfo_tcp.kwargs(), "dbname": "planted", "application_name": None}
    at = psycopg.conninfo.make_conninfo("", **tcp)
    with planted(cluster, schema):
        for command in commands:
            words = [at if word == "{at}" else word for word in command.split()]
            done = subprocess.run(
                [sys.executable, "-m", "pgdyno", *words],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            assert done.returncode == 0, (command, done.stderr + done.stdout)
            assert called(cluster) == [], command
        with connect_plain(cluster.conninfo) as conn:
            row = conn.execute("select rolsuper from pg_roles where rolname = 'mallory'").fetchone()
        assert row == (False,)
        # They would say so.
        with psycopg.connect(at) as conn:
            conn.execute(f"select {schema}.told('control')".encode())
    assert called(cluster) == ["control"]
