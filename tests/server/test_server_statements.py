"""Statements as the server counts them: in a run of a server that pgdyno starts, of a user's server
with the extension and without, and by a role that may not read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import psycopg
import pytest
from inline_snapshot import snapshot

from pgdyno.conduct import Silent, open_session
from pgdyno.investigate.run import run_spec
from pgdyno.probe.statements import read_counts, read_shapes, risen, source_of
from pgdyno.record import RunFile
from pgdyno.report.page.html import render
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.results import recorded_json, schemas
from pgdyno.results.run import RunResult
from pgdyno.results.run_parts import ServerStatements
from pgdyno.server import Cluster, ConnInfo
from pgdyno.server.sql_files import query
from pgdyno.spec import spec_from_fields

pytestmark = pytest.mark.server

PRELOAD = "pg_stat_statements"


class Notes(Silent):
    """A watcher that remembers what is shown."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Remember it."""
        self.notes.append(text)


def run_of(path: Path, server: dict[str, Any], watcher: Silent | None = None) -> RunResult:
    spec = spec_from_fields(
        {
            "server": {"statements": True, **server},
            "workload": {
                "script": "tpcb-like",
                "scale": 1,
                "initialize": server.get("kind") == "existing",
            },
            "clients": [{"name": "web", "count": 2, "think": "20ms"}],
            "load": {"hold": "2s", "max_other_programs": 1},
        }
    )
    with open_session(
        spec, run=path, command="run", spec_text="", watcher=watcher or Silent()
    ) as session:
        result = run_spec(session)
    jsonschema.validate(json.loads(json.dumps(result.to_json())), schemas()["run"])
    with RunFile(path) as run:
        assert recorded_json(run) == result.to_json()
    return result


def statements(result: RunResult) -> ServerStatements:
    assert result.server_statements is not None
    return result.server_statements


def terminal(path: Path) -> str:
    with RunFile(path) as run:
        return "\n".join(line.text for line in summary_lines(run, 120))


@pytest.mark.parametrize("major", [18, 15])
def test_a_server_of_pgdynos_counts_what_the_clients_did(
    major: int, installation_of: Callable[[int], object], tmp_path: Path
) -> None:
    installation_of(major)
    path = tmp_path / "run.db"
    settings = {"version": major, "settings": {"shared_preload_libraries": "auto_explain"}}
    found = statements(result := run_of(path, settings))
    assert found.absent is None
    update = next(
        each for each in found.groups if each.text.lower().startswith("update pgbench_accounts")
    )
    of_clients = next(
        e for e in result.statements if e.statement.lower().startswith("update pgbench_acc")
    )
    # Clients are at work while the view is read, and the last reading may be after the slice.
    insert = next(each for each in found.groups if "into pgbench_history" in each.text.lower())
    assert abs(update.calls - insert.calls) <= 10 + update.calls // 10
    assert 0 < update.calls <= 3 * of_clients.done
    assert update.wal_bytes > 0
    assert update.blocks_dirtied is not None
    assert update.read_ms is not None, "track_io_timing is on there"
    assert update.jit_ms is not None
    assert (update.wal_buffers_full is None) == (major < 18)
    assert 0 < sum(each.share for each in found.groups) <= 1.001
    assert not any("pg_stat" in each.text for each in found.shapes), "pgdyno's own are left out"
    with RunFile(path) as run:
        series = run.series("statement_count", run.valid_slices("run"))
        assert len(set(series["at_ms"].tolist())) >= 2, "by interval"
        assert "server-statements" in render(run)
        server = run.run.server["settings"]
    assert server["shared_preload_libraries"] == "auto_explain, pg_stat_statements"
    assert "on the server" in terminal(path)
    assert "update pgbench_accounts" in terminal(path).lower()


def test_on_a_users_server_it_is_read_if_it_is_there_and_never_created(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster(18, shared_preload_libraries=PRELOAD)
    server = {"kind": "existing", "conninfo": cluster.conninfo.uri_without_password}
    notes = Notes()
    without = statements(run_of(tmp_path / "without.db", server, notes))
    assert without.groups == ()
    assert without.absent == snapshot(
        "the extension pg_stat_statements is not created in this database; to allow it: CREATE"
        " EXTENSION pg_stat_statements, with it in shared_preload_libraries"
    )
    (said,) = [each for each in notes.notes if PRELOAD in each]
    assert said.startswith("warning: ")
    assert said.endswith(without.absent)
    why = without.absent.partition(";")[0]
    assert why in " ".join(terminal(tmp_path / "without.db").split())
    assert extensions(cluster.conninfo) == ["plpgsql"]
    execute(cluster.conninfo, "create schema mine; create extension pg_stat_statements schema mine")
    found = statements(run_of(tmp_path / "with.db", server))
    assert found.absent is None
    assert any(each.text.lower().startswith("update pgbench_accounts") for each in found.groups)


def test_a_server_that_has_not_loaded_it_says_so(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster(18)
    execute(cluster.conninfo, "create extension pg_stat_statements")
    server = {"kind": "existing", "conninfo": cluster.conninfo.uri_without_password}
    found = statements(run_of(tmp_path / "run.db", server))
    assert found.absent == snapshot(
        "the server has not loaded pg_stat_statements; to allow it: shared_preload_libraries ="
        " 'pg_stat_statements', and a restart"
    )


def test_pgdynos_own_are_told_from_alike_ones_of_users(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(18, shared_preload_libraries=PRELOAD)
    execute(cluster.conninfo, "create extension pg_stat_statements")
    with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as conn:
        source = source_of(conn)
        before = read_counts(conn, source)
        conn.execute(query("conduct", "sessions_of_others"))
        conn.execute("select count(*)::int from pg_class")
        counts = risen(before, read_counts(conn, source))
        shapes = read_shapes(conn, source, counts)
    assert sorted(shapes.values()) == ["", "", "select count(*)::int from pg_class"]


def execute(conninfo: ConnInfo, statement: str) -> None:
    with psycopg.connect(**conninfo.kwargs(), autocommit=True) as conn:
        conn.execute(statement.encode())


def extensions(conninfo: ConnInfo) -> list[str]:
    with psycopg.connect(**conninfo.kwargs()) as conn:
        return [name for (name,) in conn.execute("select extname from pg_extension")]
