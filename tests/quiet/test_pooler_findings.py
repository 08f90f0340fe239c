"""Findings about poolers that pgdyno starts, on real ones: each fault beside a load without it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from signature_runs import carried_out, status

from pgdyno.conduct import Silent, open_session
from pgdyno.diagnose import Finding
from pgdyno.investigate.run import run_spec
from pgdyno.pooler._kind import kinds
from pgdyno.server import Cluster
from pgdyno.spec import spec_from_fields

pytestmark = pytest.mark.server

SLEEPING = "begin;\nselect pg_sleep(0.05);\nend;\n"


def pooler(kind: str, **settings: object) -> dict[str, Any]:
    """The table pooler of a spec; skips where the program is missing."""
    program = kinds()[kind].program
    if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
        pytest.skip(f"no {program} on this machine")
    return {
        "kind": kind,
        "settings": {name.replace("__", " "): str(value) for name, value in settings.items()},
    }


@pytest.fixture
def sleeping(tmp_path: Path) -> Path:
    """Transactions that take fifty milliseconds and no core."""
    path = tmp_path / "sleeping.sql"
    path.write_text(SLEEPING)
    return path


def values(finding: Finding) -> Mapping[str, Any]:
    return {each.name: each.value for each in finding.evidence}


def through(folder: Path, table: Mapping[str, Any], **given: Any) -> dict[str, Finding]:
    """Findings on a load through this pooler."""
    return carried_out(folder, pooler=table, **{"protocol": "extended", "hold": "4s", **given})


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("pgpool", {"num_init_children": 4}, "clients wait in the listen queue of pgpool-II"),
        ("haproxy", {"maxconn": 4}, "clients wait in the listen queue of HAProxy"),
        (
            "pgpool",
            {"num_init_children": 5, "reserved_connections": 1},
            "pgpool-II refused",
        ),
        ("pgbouncer", {"max_client_conn": 4, "pool_mode": "transaction"}, "PgBouncer refused"),
    ],
)
def test_clients_beyond_the_limit_are_found(
    tmp_path: Path, sleeping: Path, kind: str, settings: dict[str, object], said: str
) -> None:
    found = through(tmp_path, pooler(kind, **settings), script=sleeping, clients=10)
    finding = found["pooler-client-limit"]
    assert finding.status == "found", status(found)
    assert said in finding.sentence
    assert finding.is_about_to_fail
    for proposal in finding.proposals:
        assert proposal.remedy_id == "pooler"
        assert int(str(proposal.change.spec[f"pooler.{min(settings)}"])) >= 10
        assert proposal.predicted_ratio > 1  # By how much, the idle cores decide.
    if "listen queue" in said:
        assert found["pooler"].status == "cleared", status(found)


@pytest.mark.parametrize("kind", ["pgpool", "haproxy", "pgbouncer"])
def test_clients_within_the_limit_are_cleared(tmp_path: Path, sleeping: Path, kind: str) -> None:
    setting = {"pgpool": "num_init_children", "haproxy": "maxconn", "pgbouncer": "max_client_conn"}
    table = pooler(kind, **{setting[kind]: 24})
    found = through(tmp_path, table, script=sleeping, clients=10)
    assert found["pooler-client-limit"].status == "cleared", status(found)


def test_a_void_run_says_who_left_its_clients_waiting(tmp_path: Path, sleeping: Path) -> None:
    spec = spec_from_fields(
        {
            "pooler": pooler("pgpool", num_init_children=4),
            "workload": {"script": [{"file": str(sleeping)}]},
            "clients": [{"name": "web", "count": 10}],
            "load": {"hold": "4s", "protocol": "extended"},
        }
    )
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        result = run_spec(session)
    assert result.verdict.sentence.startswith("no verdict: 4 of 10 clients had a connection")
    assert [each.id for each in result.findings] == ["pooler-client-limit"]
    with contextlib.closing(sqlite3.connect(path)) as db:
        rows = db.execute("select finding, rank from finding").fetchall()
    assert rows == [("pooler-client-limit", 1)]


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("haproxy", {}, "refused by PostgreSQL (max_connections), behind HAProxy"),
        (
            "pgbouncer",
            {"pool_mode": "session", "default_pool_size": 12},
            "of the 12 connections of its pool while",
        ),
        (
            "pgpool",
            {"num_init_children": 12},
            "closed by pgpool-II without an answer: it does not pass on PostgreSQL's refusal",
        ),
    ],
)
def test_the_server_behind_a_pooler_is_named_if_it_refuses(
    tmp_path: Path,
    new_cluster: Callable[..., Cluster],
    sleeping: Path,
    kind: str,
    settings: dict[str, object],
    said: str,
) -> None:
    cluster = new_cluster(18, max_connections="20", superuser_reserved_connections="0")
    server = {"kind": "existing", "conninfo": cluster.conninfo.uri_without_password}
    table = pooler(kind, **settings)
    with contextlib.ExitStack() as stack:
        for _ in range(9):
            other = psycopg.connect(**cluster.conninfo.kwargs())
            stack.enter_context(contextlib.closing(other))
        found = through(tmp_path, table, server=server, script=sleeping, clients=9)
    slots = found["connection-slots"]
    assert slots.status == "found", status(found)
    assert said in slots.sentence
    assert slots.is_about_to_fail
    assert found["pooler-client-limit"].status == "cleared", status(found)


@pytest.mark.parametrize(("size", "expected"), [(2, "found"), (10, "cleared")])
def test_a_small_pool_of_the_pooler_is_found(
    tmp_path: Path, sleeping: Path, size: int, expected: str
) -> None:
    table = pooler("pgbouncer", pool_mode="transaction", default_pool_size=size)
    found = through(tmp_path, table, script=sleeping, clients=10)
    finding = found["pooler"]
    assert finding.status == expected, status(found)
    queued = values(finding)["clients waiting in the pooler, by its own count"]
    assert queued == pytest.approx(10 - size, abs=1)
    # Others may keep the machine's cores busy: then nothing is predicted of more sessions.
    for proposal in finding.proposals:
        assert int(proposal.change.spec["pooler.default_pool_size"]) > size
        assert proposal.specific


IDLE_AND_BUSY = [
    {"name": "busy", "count": 2},
    {"name": "screens", "count": 12, "idle": True},
]


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        (
            "pgpool",
            {"connection_life_time": 1},
            "connection_life_time = 1 has no effect while clients stay connected",
        ),
        (
            "pgbouncer",
            {"server_idle_timeout": 1, "pool_mode": "session"},
            "server_idle_timeout = 1 has no effect with pool_mode = session",
        ),
    ],
)
def test_connections_that_a_setting_does_not_end_are_found(
    tmp_path: Path, sleeping: Path, kind: str, settings: dict[str, object], said: str
) -> None:
    table = pooler(kind, **settings)
    # A client of a session pool gets its connection with its first statement.
    script = tmp_path / "once.sql"
    script.write_text("select 1;\n\\sleep 60 s\n")
    used = {"name": "screens", "count": 12, "script": [{"file": str(script)}]}
    groups = [IDLE_AND_BUSY[0], used]
    found = through(tmp_path, table, script=sleeping, groups=groups, hold="6s")
    finding = found["unreaped-connections"]
    assert finding.status == "found", status(found)
    assert said in finding.sentence
    assert values(finding)["connections idle for 1 s or longer"] == pytest.approx(12, abs=1)
    assert "client_idle" in finding.advice


def test_connections_that_a_setting_ends_are_cleared(tmp_path: Path, sleeping: Path) -> None:
    leaving = {
        "name": "screens",
        "count": 12,
        "connection": "per-transaction",
        "think": "60s",
        "script": [{"file": str(sleeping)}],
    }
    groups = [IDLE_AND_BUSY[0], leaving]
    table = pooler("pgpool", connection_life_time=1)
    found = through(tmp_path, table, script=sleeping, groups=groups, hold="6s")
    assert found["unreaped-connections"].status == "cleared", status(found)
    assert found["idle-connections"].status == "cleared", status(found)


def test_a_large_pool_of_the_pooler_is_told_from_that_of_the_application(tmp_path: Path) -> None:
    script = tmp_path / "computing.sql"
    script.write_text("select sum(i * 1.5) from generate_series(1, 20000) i;\n")
    size = 16 * (os.cpu_count() or 1)
    table = pooler("pgbouncer", pool_mode="transaction", default_pool_size=size)
    found = through(tmp_path, table, script=script, clients=size + 8)
    finding = found["connections"]
    assert finding.status == "found", status(found)
    assert f"which PgBouncer's pool lets in (default_pool_size = {size})" in finding.sentence
    for proposal in finding.proposals:
        assert int(proposal.change.spec["pooler.default_pool_size"]) < size
    assert found["client-pool"].status == "cleared", status(found)


MIGRATE = """
\\set id random(1, 50)
select pg_advisory_lock(4711, :id);
update tenant set runs = runs + 1 where id = :id;
select pg_advisory_unlock(4711, :id);
"""
IN_TRANSACTION = """
\\set id random(1, 50)
begin;
select pg_advisory_xact_lock(4711, :id);
update tenant set runs = runs + 1 where id = :id;
commit;
"""
TENANTS = """
create table tenant (id int primary key, runs bigint not null);
insert into tenant select i, 0 from generate_series(1, 50) i;
"""


def migrated(folder: Path, script: str, table: Mapping[str, Any]) -> dict[str, Finding]:
    """Findings on clients that take advisory locks through a pool of four."""
    (folder / "setup.sql").write_text(TENANTS)
    (folder / "migrate.sql").write_text(script)
    return through(
        folder, table, script=folder / "migrate.sql", setup=folder / "setup.sql", clients=16
    )


def test_advisory_locks_of_sessions_that_a_pooler_shares(tmp_path: Path) -> None:
    table = pooler("pgbouncer", pool_mode="transaction", default_pool_size=4)
    found = migrated(tmp_path, MIGRATE, table)
    finding = found["session-state"]
    assert finding.status == "found", status(found)
    assert finding.is_about_to_fail, status(found)
    assert found["pooler"].status == "cleared", status(found)
    assert "pool_mode = transaction" not in "".join(each.advice for each in found.values())
    assert "pg_advisory_xact_lock" in finding.advice


@pytest.mark.parametrize(
    ("script", "mode"), [(IN_TRANSACTION, "transaction"), (MIGRATE, "session")]
)
def test_advisory_locks_that_end_where_they_began(tmp_path: Path, script: str, mode: str) -> None:
    table = pooler("pgbouncer", pool_mode=mode, default_pool_size=16 if mode == "session" else 4)
    found = migrated(tmp_path, script, table)
    assert found["session-state"].status == "cleared", status(found)
