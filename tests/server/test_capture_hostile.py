"""Captures where something is in the way: settings and missing rights of the role, a pooler, a
standby, and a signal that nobody can catch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from capturing import as_client, capture_of
from patience import beside, wait_until
from pgdyno.errors import SetupError
from pgdyno.server import Cluster, connect_plain
from pgdyno.server.directories import clusters_dir
from pgdyno.server.replication.receivers import Receivers
from pgdyno.spec.standby import StandbySpec
from pooler_fixtures import Pooler
from remains import left_over

SECONDS = 1.0
SCHEMA = """
create schema "Ext; 1";
create extension pg_stat_statements schema "Ext; 1";
grant usage on schema "Ext; 1" to public;
create role reader login password 'x' in role pg_monitor, pg_read_all_data;
create table orders (id bigint primary key, state text, n int);
insert into orders select i, 'state' || i % 3, i from generate_series(1, 3000) i;
analyze;
"""
UPDATE, SELECT = "update orders set n = n + 1 where id = %s", "select n from orders where id = %s"
SETTINGS = (
    "statement_timeout = '10ms'",
    "transaction_timeout = '50ms'",
    "idle_session_timeout = '50ms'",
    "idle_in_transaction_session_timeout = '5ms'",
    "default_transaction_read_only = on",
    "default_transaction_isolation = serializable",
    "search_path = ''",
    "client_encoding = 'latin1'",
    "datestyle = 'german'",
    "extra_float_digits = -15",
    "quote_all_identifiers = on",
    "standard_conforming_strings = off",
    "bytea_output = 'escape'",
    "stats_fetch_consistency = 'snapshot'",
    "work_mem = '64kB'",
)
"""Of a role: those that would end its sessions, or have them answer otherwise."""


def load(cluster: Cluster, statement: str = UPDATE) -> AbstractContextManager[None]:
    """A session with one statement over and over; the server may end meanwhile."""

    def work(begun: threading.Event, ended: threading.Event) -> None:
        values = as_client(cluster.conninfo)
        with psycopg.connect(**values, autocommit=True) as connection:
            number = 0
            while not ended.is_set():
                number = number % 3000 + 1
                connection.execute(statement, (number,))
                time.sleep(0.001)
                begun.set()

    return beside(work)


@pytest.fixture
def cluster(new_cluster: Callable[..., Cluster]) -> Cluster:
    # Nothing analyzes the table between two captures that are compared.
    made = new_cluster(18, shared_preload_libraries="pg_stat_statements", autovacuum="off")
    with connect_plain(made.conninfo) as connection:
        connection.execute(SCHEMA.encode())
    return made


def test_settings_of_the_role_change_nothing(cluster: Cluster, tmp_path: Path) -> None:
    own = {"user": "reader", "password": "x"}
    with load(cluster):
        plain = capture_of(cluster.conninfo, tmp_path / "plain.pgdyno", SECONDS, **own)
        with connect_plain(cluster.conninfo) as connection:
            for each in SETTINGS:
                connection.execute(f"alter role reader set {each}".encode())
        found = capture_of(cluster.conninfo, tmp_path / "set.pgdyno", SECONDS, **own)
    assert found.settings == plain.settings
    assert [each.text for each in found.statements] == [each.text for each in plain.statements]
    assert found.tables[0].columns == plain.tables[0].columns
    # Counts that extra_float_digits rounds have more HOT updates than updates.
    assert found.tables[0].hot_share is not None
    assert 0 <= found.tables[0].hot_share <= 1


def test_a_schema_that_the_role_may_not_use_is_named(cluster: Cluster, tmp_path: Path) -> None:
    with connect_plain(cluster.conninfo) as connection:
        connection.execute('revoke usage on schema "Ext; 1" from public')
        connection.execute("create role watcher login in role pg_monitor")
    with pytest.raises(SetupError, match=r"may not use the schema \"Ext; 1\"") as failed:
        capture_of(cluster.conninfo, tmp_path / "x.pgdyno", SECONDS, user="watcher")
    assert 'GRANT USAGE ON SCHEMA "Ext; 1" TO watcher' in str(failed.value.hint)


def test_the_server_behind_a_pooler_is_captured(
    cluster: Cluster, pgbouncer: Callable[..., Pooler], tmp_path: Path
) -> None:
    pooler = pgbouncer(cluster, pool_mode="transaction")
    with load(cluster):
        found = capture_of(pooler.conninfo, tmp_path / "pooled.pgdyno", SECONDS)
    assert len(found.statements) == 1


def test_the_load_of_a_standby(cluster: Cluster, tmp_path: Path) -> None:
    receivers = Receivers(cluster)
    try:
        receivers.arrange(StandbySpec(count=1))
        standby = receivers.standbys[0].cluster
        standby.configure({"shared_preload_libraries": "pg_stat_statements"})
        standby.restart()
        with load(standby, SELECT):
            found = capture_of(standby.conninfo, tmp_path / "standby.pgdyno", SECONDS)
    finally:
        receivers.close()
    assert [each.text for each in found.statements] == ["select n from orders where id = $1"]
    assert found.tables[0].rows == 3000


@pytest.mark.parametrize("phase", ["watching the load", "finding the columns"])
def test_a_killed_capture_leaves_nothing(cluster: Cluster, tmp_path: Path, phase: str) -> None:
    before = {path.name for path in clusters_dir().iterdir()}
    path = tmp_path / "x.pgdyno"
    said = tmp_path / "said"
    command = [
        sys.executable,
        "-m",
        "pgdyno",
        "capture",
        make_conninfo("", **as_client(cluster.conninfo)),
        "-T",
        "2",
    ]
    with load(cluster), said.open("w") as out:
        process = subprocess.Popen([*command, "-o", str(path)], stderr=out, env=os.environ)
        wait_until(lambda: phase in said.read_text(), phase)
        process.send_signal(signal.SIGKILL)
        process.wait()
        asked = "select count(*) from pg_stat_activity where application_name like 'pgdyno %'"
        with connect_plain(cluster.conninfo) as connection:
            connection.execute("set application_name = ''")
            wait_until(lambda: connection.execute(asked).fetchone() == (0,), "its sessions end")
    assert {*tmp_path.iterdir()} == {said}
    subprocess.run([sys.executable, "-m", "pgdyno", "server", "sweep"], check=True)
    assert not left_over(before)
