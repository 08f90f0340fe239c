"""Through PgBouncer and pgpool-II: what the clients send goes through, what pgdyno itself does goes
past, and what a pooler refuses is counted and named."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from engine_runs import Run, config
from msgspec.structs import replace

from patience import wait_until
from pgdyno.record import RunFile
from pgdyno.report.words.pooler import queue_words
from pgdyno.report.words.sentences import setting_of_run
from pgdyno.server import Cluster, ConnInfo, keeps_prepared
from pgdyno.spec.workload import WorkloadSpec
from pgdyno.workload import prepare
from pooler_fixtures import PgBouncer, Pgpool

pytestmark = [pytest.mark.server, pytest.mark.alike]

MakePgBouncer = Callable[..., PgBouncer]
MakePgpool = Callable[..., Pgpool]
LIGHT = ("--think", "20ms")
"""For what does not depend on how much is done: it leaves the cores to the other tests."""


def eight_clients(folder: Path) -> list[str]:
    """Options of a load that needs more connections than a pool has, and hardly a core."""
    script = folder / "sleeping.sql"
    script.write_text("select pg_sleep(0.02);\n")
    return ["-c", "8", "-s", "1", "-M", "extended", "-f", str(script)]


def pgdyno(
    cwd: Path, *arguments: str, password: str | None = None
) -> subprocess.CompletedProcess[str]:
    """The command line, from start to end."""
    return subprocess.run(
        [sys.executable, "-m", "pgdyno", *arguments],
        cwd=cwd,
        text=True,
        capture_output=True,
        timeout=600,
        check=False,
        env={**os.environ, "PGPASSWORD": password or ""},
    )


def run_through(cwd: Path, conninfo: ConnInfo, *arguments: str) -> dict[str, Any]:
    """The result of ``pgdyno run`` there; it ends well and says nothing that looks like a fault.

    A machine that is busy otherwise may make the generator the limit, which is said.
    """
    uri = conninfo.uri_without_password
    words = ["run", uri, "-T", "1", "-o", "run.db", "--format", "json", *arguments]
    done = pgdyno(cwd, *words, password=conninfo.password)
    assert done.returncode in (0, 4), done.stderr
    assert "Traceback" not in done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    ledger = result["ledger"]
    parts = ("done", "failed", "skipped", "cancelled", "backlog")
    assert ledger["intended"] == sum(ledger[part] for part in parts)
    assert ledger["done"] > 0
    return result


def settings_of_sessions(pooler: PgBouncer) -> set[tuple[str, str]]:
    """What the pooler's server sessions have set that a new session has not, as far as seen."""
    found = set()
    query = "select name, setting from pg_settings where source = 'session'"
    for _ in range(20):
        with psycopg.connect(**pooler.conninfo.kwargs(), autocommit=True) as connection:
            found |= set(connection.execute(query).fetchall())
    return {(name, setting) for name, setting in found if name != "application_name"}


@pytest.mark.parametrize(
    ("server", "mode", "protocol"),
    [
        ("pg18", "session", "prepared"),
        ("pg18", "transaction", "simple"),
        ("pg18", "transaction", "prepared"),
        ("pg15", "session", "simple"),
        ("pg15", "transaction", "extended"),
    ],
)
def test_a_run_through_pgbouncer(
    request: pytest.FixtureRequest,
    pgbouncer: MakePgBouncer,
    tmp_path: Path,
    server: str,
    mode: str,
    protocol: str,
) -> None:
    pg: Cluster = request.getfixturevalue(server)
    pooler = pgbouncer(pg, pool_mode=mode, default_pool_size=3)
    # In session mode a client keeps its server connection, so no more than there are can work.
    clients = 3 if mode == "session" else 8
    conninfo = pooler.conninfo if protocol == "simple" else pooler.conninfo_tcp
    unprepared = {"26000", "42P05"} if (mode, protocol) == ("transaction", "prepared") else set()
    allowed = "100%" if unprepared else "1%"
    words = ["-c", str(clients), *LIGHT, "-s", "1", "-M", protocol, "--max-failures", allowed]
    result = run_through(tmp_path, conninfo, *words)
    assert {error["sqlstate"] for error in result["errors"]} <= unprepared
    assert bool(result["errors"]) == bool(unprepared)
    recorded = RunFile(tmp_path / "run.db")
    # Once each session of the pooler has all statements, none fails: perhaps before the slice.
    lost = recorded.errors([part.id for part in recorded.slices()])
    found = {each["id"]: each for each in result["findings"]}["unkept-statements"]
    assert found["status"] == ("found" if lost else "cleared"), found
    facts = recorded.run.server
    assert facts["uri"] == pg.conninfo.uri_without_password
    assert facts["entrance_uri"] == conninfo.uri_without_password
    assert settings_of_sessions(pooler) <= {("client_encoding", "UTF8")}
    with psycopg.connect(**pg.conninfo.kwargs()) as connection:
        assert connection.execute("select count(*) from pgbench_branches").fetchone() == (1,)


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_statements_that_a_pooler_does_not_keep_are_told_before_the_load(
    pg18: Cluster, pgbouncer: MakePgBouncer, mode: str
) -> None:
    pooler = pgbouncer(pg18, pool_mode=mode, default_pool_size=3)
    assert keeps_prepared(pooler.conninfo_tcp) == (mode == "session")
    with psycopg.connect(**pooler.conninfo_tcp.kwargs(), autocommit=True) as connection:
        left = "select count(*) from pg_prepared_statements where name like 'pgdyno_%'"
        assert connection.execute(left).fetchone() == (0,)


@pytest.mark.parametrize(
    ("size", "warned"), [(30, True), pytest.param(20, False, marks=pytest.mark.long)]
)
def test_pools_of_all_pairs_are_added_up(
    pg18: Cluster, pgbouncer: MakePgBouncer, tmp_path: Path, size: int, warned: bool
) -> None:
    """Four databases of the pooler, all of them the same one of the server: 97 connections are
    left for their pools."""
    database = pg18.conninfo.database
    names = dict.fromkeys(("a", "b", "c", database), database)
    pooler = pgbouncer(pg18, pool_mode="transaction", default_pool_size=size, databases=names)
    for name in names:
        psycopg.connect(**replace(pooler.conninfo_tcp, database=name).kwargs()).close()
    conninfo = pooler.conninfo_tcp
    words = ["run", conninfo.uri_without_password, *LIGHT, "-T", "1", "-M", "simple"]
    words += ["-o", "run.db", "-i"]
    done = pgdyno(tmp_path, *words, "--format", "json", password=conninfo.password)
    assert done.returncode in (0, 4), done.stderr
    told = f"4 pairs may make {4 * size} connections together, and the server has 97 for them"
    assert (told in done.stderr) == warned, done.stderr
    with RunFile(tmp_path / "run.db") as run:
        pairs = run.run.server["pooler_pairs"]
    assert pairs == {"count": 4, "connections": 4 * size, "free": 97}
    found = {each["id"]: each for each in json.loads(done.stdout)["findings"]}
    assert found["pooler-pairs"]["status"] == ("found" if warned else "cleared")


def test_the_queue_of_the_users_own_pgbouncer_is_recorded(
    pg18: Cluster, pgbouncer: MakePgBouncer, tmp_path: Path
) -> None:
    """Eight clients for two connections, and another user of the pooler with a pool of its own."""
    pooler = pgbouncer(pg18, pool_mode="transaction", default_pool_size=2)
    with psycopg.connect(**replace(pooler.conninfo_tcp, database="postgres").kwargs()) as other:
        other.execute("select 1")
        run_through(tmp_path, pooler.conninfo_tcp, *eight_clients(tmp_path))
    with RunFile(tmp_path / "run.db") as run:
        rows = run.series("metric_pooler")
        words = queue_words(run, None)
    assert set(rows["pool"]) == {pg18.conninfo.database}
    assert max(rows["clients"]) == 8
    assert max(rows["servers_active"] + rows["servers_idle"]) <= 2
    assert "clients waited for a server connection" in words


def test_poolers_in_a_row_lead_to_the_server(
    pg18: Cluster, pgbouncer: MakePgBouncer, tmp_path: Path
) -> None:
    """What is not load goes past both of them; the queue is that of the first one."""
    inner = pgbouncer(pg18, pool_mode="transaction", default_pool_size=2)
    behind = SimpleNamespace(conninfo=inner.conninfo)
    outer = pgbouncer(behind, pool_mode="transaction", default_pool_size=6)
    result = run_through(tmp_path, outer.conninfo_tcp, *eight_clients(tmp_path))
    assert not result["errors"]
    with RunFile(tmp_path / "run.db") as run:
        facts, rows = run.run.server, run.series("metric_pooler")
    assert facts["uri"] == pg18.conninfo.uri_without_password
    assert facts["entrance_uri"] == outer.conninfo_tcp.uri_without_password
    assert max(rows["servers_active"] + rows["servers_idle"]) > 2


@pytest.mark.long
def test_tables_behind_a_name_of_the_poolers_are_used_there(
    pg18: Cluster, pgbouncer: MakePgBouncer, tmp_path: Path
) -> None:
    """The pooler's name of the database leads to another one, which has the tables."""
    pooler = pgbouncer(
        pg18, pool_mode="transaction", databases={"app": "behind", "pgdyno": "pgdyno"}
    )
    behind = replace(pg18.conninfo, database="behind")
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("create database behind")
    try:
        prepare(behind, [], WorkloadSpec(initialize=True), lambda *_: None)
        app = replace(pooler.conninfo, database="app")
        assert run_through(tmp_path, app, "-M", "simple", "-c", "2", *LIGHT)["database"] == "behind"
        words = " · ".join(setting_of_run(RunFile(tmp_path / "run.db").run))
        assert [app.uri_without_password in words, "behind" in words] == [True, True]
    finally:
        with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as connection:
            connection.execute("drop database behind with (force)")


def test_prepared_statements_behind_a_transaction_pooler_fail_by_name(
    pg: Cluster, pgbouncer: MakePgBouncer
) -> None:
    """Sessions that hold their statements, and others that find them made, until all are made."""
    pooler = pgbouncer(pg, pool_mode="transaction", default_pool_size=3)
    script = "begin;\nselect pg_sleep(0.001);\nend;\nselect 1;"
    with Run(config(pooler.conninfo, script, clients=6, protocol="prepared")) as run:
        run.wait_for(lambda run: run.total["failed"] > 0 and run.total["done"] > 0)
    run.assert_balanced()
    assert {code for code, _, _ in run.errors} <= {"26000", "42P05"}
    advice = [row["advice"] for interval in run.intervals for row in interval["errors"]]
    assert all("with a pooler in transaction mode" in text for text in advice)
    assert all("-M simple" in text for text in advice)


def test_statements_that_an_earlier_load_prepared_are_never_executed(
    pg18: Cluster, pgbouncer: MakePgBouncer
) -> None:
    """The same position with other text: what counts is never the other load's statement."""
    pooler = pgbouncer(pg18, pool_mode="transaction", default_pool_size=1)
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("drop table if exists pooled; create table pooled (load int)")
        for load in (1, 2):
            script = f"insert into pooled values ({load});"
            with Run(config(pooler.conninfo, script, clients=2, protocol="prepared")) as run:
                run.wait_for_more("done", 20)
            rows = connection.execute("select count(*) from pooled where load = %s", [load])
            assert rows.fetchone() == (run.total["done"],)
        connection.execute("drop table pooled")


@pytest.mark.parametrize("mode", ["session", pytest.param("transaction", marks=pytest.mark.long)])
def test_what_stays_in_the_pooler_is_what_it_keeps_for_its_idle_timeout(
    pg18: Cluster, pgbouncer: MakePgBouncer, tmp_path: Path, mode: str
) -> None:
    pooler = pgbouncer(pg18, pool_mode=mode, server_idle_timeout=1)
    run_through(tmp_path, pooler.conninfo, "select-only", "-c", "4", "-M", "extended", *LIGHT)

    def clients() -> list[object]:
        return [each["application_name"] for each in pooler.show("clients")]

    wait_until(lambda: "pgdyno" not in clients(), "it has no clients left")
    wait_until(lambda: not pooler.show("servers"), "it has no connections left")


def test_statement_mode_takes_single_statements(pg18: Cluster, pgbouncer: MakePgBouncer) -> None:
    pooler = pgbouncer(pg18, pool_mode="statement")
    scripts = ["select 1;", "begin;\nselect 2;\nend;"]
    with Run(config(pooler.conninfo, *scripts, clients=2, protocol="simple")) as run:
        run.wait_for(lambda run: run.total["done"] > 0 and run.total["failed"] > 0)
    run.assert_balanced()
    assert {code for code, _, _ in run.errors} == {"08P01"}
    done = {r["script"]: r["done"] for i in run.intervals for r in i["scripts"] if r["done"]}
    assert set(done) == {"s0"}


def test_a_pool_that_gives_no_connection_in_time(pg: Cluster, pgbouncer: MakePgBouncer) -> None:
    pooler = pgbouncer(pg, pool_mode="transaction", default_pool_size=1, query_wait_timeout=1)
    script = "begin;\nselect pg_sleep(1.6);\nend;"
    with Run(config(pooler.conninfo, script, clients=3, protocol="simple")) as run:
        run.wait_for(lambda run: run.errors["08P01", False, False] > 0 and run.total["done"] > 0)
        run.wait_for(lambda run: run.total["reconnects"] > 0)
    run.assert_balanced()
    assert run.load.fatal() is None
    messages = {row["message"] for i in run.intervals for row in i["errors"]}
    assert "query_wait_timeout" in messages


def test_more_clients_than_the_pooler_takes(pg18: Cluster, pgbouncer: MakePgBouncer) -> None:
    pooler = pgbouncer(pg18, pool_mode="transaction", max_client_conn=5)
    with Run(config(pooler.conninfo, "select 1;", clients=8, protocol="simple")) as run:
        run.wait_for(lambda run: run.total["done"] > 100 and run.total["connects"] == 5)
        run.wait_for(lambda run: run.errors["08P01", False, False] >= 3)
    run.assert_balanced()
    assert run.total["failed"] == 0
    messages = {row["message"] for i in run.intervals for row in i["errors"]}
    assert messages == {"no more connections allowed (max_client_conn)"}


@pytest.mark.long
def test_two_thousand_clients_on_few_connections(
    pg18: Cluster, pgbouncer: MakePgBouncer, tmp_path: Path
) -> None:
    """All are there before anything is measured, and none fails."""
    pooler = pgbouncer(
        pg18,
        pool_mode="transaction",
        default_pool_size=20,
        max_client_conn=2100,
        auth_type="trust",
    )
    words = ["select-only", "-c", "2000", "-M", "extended", "-s", "1", "--think", "500ms"]
    result = run_through(tmp_path, pooler.conninfo, *words)
    assert result["errors"] == []
    columns = "sum(connects), sum(reconnects), sum(connect_failures), max(connections)"
    with closing(sqlite3.connect(tmp_path / "run.db")) as db:
        counts = db.execute(f"select {columns} from group_interval").fetchone()
    assert counts == (2000, 0, 0, 2000)
    query = "select count(*) from pg_stat_activity where backend_type = 'client backend'"
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as connection:
        few = "at most the pool's, with those of the run itself, which take a moment to end"
        wait_until(lambda: connection.execute(query).fetchone() <= (20 + 5,), few)


def test_a_storm_on_a_pooler_is_survived(pg18: Cluster, pgbouncer: MakePgBouncer) -> None:
    """All at once: its listening queue overflows, which is counted, and in the end all are in."""
    pooler = pgbouncer(
        pg18,
        pool_mode="transaction",
        max_client_conn=2100,
        auth_type="trust",
        listen_backlog=16,
    )
    keys = {"clients": 1000, "protocol": "simple", "connecting_max": None}
    with Run(config(pooler.conninfo, "select 1;", **keys)) as run:
        run.wait_for(lambda run: run.load.connections() == 1000)
        run.wait_for_more("done", 1000)
    run.assert_balanced()
    assert run.total["connects"] == 1000
    assert {code for code, _, _ in run.errors} <= {"connect-failed"}


def test_a_pooler_restarted_in_mid_run(pg: Cluster, pgbouncer: MakePgBouncer) -> None:
    pooler = pgbouncer(pg, pool_mode="transaction", default_pool_size=2)
    with Run(config(pooler.conninfo, "select 1;", clients=6, protocol="extended")) as run:
        run.wait_for(lambda run: run.total["connects"] == 6 and run.total["done"] > 50)
        pooler.stop()
        pooler.start()
        run.wait_for(lambda run: run.total["reconnects"] >= 6)
        run.wait_for_more("done", 50)
    run.assert_balanced()
    assert run.load.fatal() is None
    assert run.total["failed"] <= 6
    codes = {code for code, _, _ in run.errors}
    assert codes <= {"connection-lost", "connect-failed", "08P01", "57P01"}


def test_a_server_restarted_behind_its_pooler(
    new_cluster: Callable[..., Cluster], pgbouncer: MakePgBouncer
) -> None:
    cluster = new_cluster(18)
    pooler = pgbouncer(cluster, pool_mode="transaction", default_pool_size=2, server_login_retry=1)
    with Run(config(pooler.conninfo, "select 1;", clients=4, protocol="extended")) as run:
        run.wait_for_more("done", 50)
        cluster.restart()
        run.wait_for_more("done", 50)
    run.assert_balanced()
    assert run.load.fatal() is None


def test_startup_parameters_that_the_pooler_refuses(
    pg18: Cluster, pgbouncer: MakePgBouncer, tmp_path: Path
) -> None:
    refusing = pgbouncer(pg18, pool_mode="transaction")
    uri = f"{refusing.conninfo.uri_without_password}&options=-c%20geqo%3Doff"
    said = pgdyno(tmp_path, "run", uri, *LIGHT, "-T", "1", password=pg18.conninfo.password)
    assert said.returncode == 1
    assert "unsupported startup parameter: options" in said.stderr
    assert "ignore_startup_parameters" in said.stderr
    taking = pgbouncer(pg18, pool_mode="transaction", ignore_startup_parameters="options")
    uri = f"{taking.conninfo.uri_without_password}&options=-c%20geqo%3Doff"
    words = ["run", uri, "-M", "simple", *LIGHT, "-T", "1", "-q"]
    said = pgdyno(tmp_path, *words, password=pg18.conninfo.password)
    assert said.returncode in (0, 4), said.stderr


def test_a_database_that_the_pooler_does_not_have(
    pg18: Cluster, pgbouncer: MakePgBouncer, tmp_path: Path
) -> None:
    pooler = pgbouncer(pg18, databases={"other": pg18.conninfo.database})
    uri = pooler.conninfo.uri_without_password
    said = pgdyno(tmp_path, "run", uri, *LIGHT, "-T", "1", password=pg18.conninfo.password)
    assert said.returncode == 1
    assert 'has no database "pgdyno"' in said.stderr
    assert "[databases]" in said.stderr


@pytest.mark.long
def test_a_control_connection_that_leads_elsewhere(
    pg18: Cluster, pg15: Cluster, pgbouncer: MakePgBouncer, tmp_path: Path
) -> None:
    pooler = pgbouncer(pg18, pool_mode="transaction")
    uri, password = pooler.conninfo.uri_without_password, pg18.conninfo.password
    for control, complaint in (
        (pg15.conninfo.uri_without_password, "connects to a different server"),
        (pooler.conninfo_tcp.uri_without_password, "connects to a pooler too"),
        ("host=/nowhere", "no PostgreSQL server answers"),
        ("host", "--control: "),
    ):
        words = ["run", uri, "--control", control, *LIGHT, "-T", "1"]
        said = pgdyno(tmp_path, *words, password=password)
        assert said.returncode == 1
        assert complaint in said.stderr
        assert "Traceback" not in said.stderr
    control = pg18.conninfo_tcp.uri_without_password
    run_through(tmp_path, pooler.conninfo, "--control", control, "-c", "2", "-M", "simple", *LIGHT)
    assert RunFile(tmp_path / "run.db").run.server["uri"] == control


@pytest.mark.parametrize(
    ("server", "balanced", "protocol"),
    [
        pytest.param("pg18", "on", "simple", marks=pytest.mark.long),
        ("pg18", "off", "prepared"),
        ("pg15", "on", "extended"),
    ],
)
def test_a_run_through_pgpool(
    request: pytest.FixtureRequest,
    pgpool: MakePgpool,
    tmp_path: Path,
    server: str,
    balanced: str,
    protocol: str,
) -> None:
    pg: Cluster = request.getfixturevalue(server)
    pooler = pgpool(pg, load_balance_mode=balanced, num_init_children=12)
    result = run_through(tmp_path, pooler.conninfo_tcp, "-c", "4", "-M", protocol, *LIGHT)
    assert result["errors"] == []


def test_more_clients_than_pgpool_takes(pg18: Cluster, pgpool: MakePgpool) -> None:
    pooler = pgpool(pg18, num_init_children=4, reserved_connections=1)
    with Run(config(pooler.conninfo, "select 1;", clients=8)) as run:
        run.wait_for(lambda run: run.total["done"] > 100 and run.errors["53300", False, False] > 0)
    run.assert_balanced()
    messages = {row["message"] for i in run.intervals for row in i["errors"]}
    assert messages == {"Sorry, too many clients already"}


def test_pgpool_restarted_in_mid_run(pg18: Cluster, pgpool: MakePgpool) -> None:
    pooler = pgpool(pg18)
    with Run(config(pooler.conninfo, "select 1;", clients=4)) as run:
        run.wait_for(lambda run: run.total["connects"] == 4 and run.total["done"] > 50)
        pooler.stop()
        pooler.start()
        run.wait_for(lambda run: run.total["reconnects"] >= 4)
        run.wait_for_more("done", 50)
    run.assert_balanced()
    assert run.load.fatal() is None
