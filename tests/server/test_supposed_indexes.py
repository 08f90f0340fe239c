"""Indexes that HypoPG lets the planner of a user's server suppose: nothing is executed or made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from plan_runs import of

from pgdyno.conduct import Silent, open_session
from pgdyno.investigate.run import run_spec
from pgdyno.record import RunFile
from pgdyno.record.finding import Finding
from pgdyno.server import Cluster, connect_plain
from pgdyno.spec import Change, spec_from_fields

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("patient_look")]

TABLES = """
create table supposing (id int primary key, kind int, total int, body jsonb);
insert into supposing select i, i % 500, i, jsonb_build_object('k', i)
  from generate_series(1, 60000) as i;
"""
LOOKUP = "\\set k random(1, 400)\nselect sum(total) from supposing where kind = :k;\n"
OF_BODY = "\\set k random(1, 400)\nselect id from supposing where body @> jsonb_build_object('k', :k::int);\n"


@pytest.fixture
def server(pg15: Cluster) -> Iterator[Cluster]:
    """A server whose database has HypoPG."""
    with connect_plain(pg15.conninfo) as connection:
        connection.execute("drop table if exists supposing")
        connection.execute(TABLES.encode())
        connection.execute("vacuum analyze supposing")
        try:
            connection.execute("create extension hypopg")
        except psycopg.errors.DatabaseError:
            pytest.skip("no HypoPG for PostgreSQL 15 on this machine")
        yield pg15
        connection.execute("drop extension if exists hypopg")
        connection.execute("drop table supposing")


def looked_at(server: Cluster, directory: Path, script: str, protocol: str) -> list[Finding]:
    (directory / "script.sql").write_text(script)
    spec = spec_from_fields(
        {
            "server": {"kind": "existing", "conninfo": server.conninfo.uri_without_password},
            "workload": {"script": [{"file": str(directory / "script.sql")}]},
            "clients": [{"name": "web", "count": 2}],
            "load": {"hold": "1s", "protocol": protocol},
        }
    )
    path = directory / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        run_spec(session)
    with RunFile(path) as run:
        return run.findings()


def indexes(server: Cluster) -> int:
    with connect_plain(server.conninfo) as connection:
        row = connection.execute(
            "select count(*) from pg_index where indrelid = 'supposing'::regclass"
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("protocol", ["prepared", "simple"])
def test_an_index_is_proposed_by_its_cost(server: Cluster, tmp_path: Path, protocol: str) -> None:
    cause = of(looked_at(server, tmp_path, LOOKUP, protocol), "missing-index")
    assert [each.change for each in cause.proposals] == [
        Change(indexes={"public.supposing": "kind"})
    ]
    assert "HypoPG" in cause.sentence
    assert indexes(server) == 1


def test_an_index_that_cannot_be_supposed(server: Cluster, tmp_path: Path) -> None:
    """HypoPG knows no GIN; the estimate by counts remains."""
    cause = of(looked_at(server, tmp_path, OF_BODY, "prepared"), "missing-index")
    assert "HypoPG" not in cause.sentence
    with RunFile(tmp_path / "run.db") as run:
        assert run.supposed_indexes() == []


def test_a_function_of_its_name_is_not_called(server: Cluster, tmp_path: Path) -> None:
    """Anybody may make one; only a superuser makes those in C that the extension has."""
    with connect_plain(server.conninfo) as connection:
        connection.execute("drop extension hypopg")
        connection.execute("create table called (at timestamptz)")
        connection.execute(
            "create function hypopg_create_index(text) returns void language sql as"
            " 'insert into called values (now())'"
        )
        looked_at(server, tmp_path, LOOKUP, "prepared")
        assert connection.execute("select count(*) from called").fetchone() == (0,)
        connection.execute("drop function hypopg_create_index(text)")
        connection.execute("drop table called")
