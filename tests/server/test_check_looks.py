"""The looks of a check on real servers with everything wrong that can be made wrong: what the rules
find, what a role with few rights is not shown, and what a standby answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from types import ModuleType

import psycopg
import pytest
from msgspec.structs import replace

from benches.catalogue import looks_ms, make_tables, probes_ms
from patience import wait_until
from pgdyno.check._judging import Judgement, judge
from pgdyno.looks.looking import take_looks
from pgdyno.probe._link import queries_for
from pgdyno.record import Recorder, RunFile
from pgdyno.rules import old_transactions, planning, unneeded_indexes
from pgdyno.server import Cluster, ConnInfo, connect_plain

pytestmark = pytest.mark.server

SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "max_slot_wal_keep_size": "1MB",
    "statement_timeout": "1h",
    "autovacuum_naptime": "1d",
    "checkpoint_timeout": "1d",
}
SCHEMA = """
create extension pg_stat_statements;
create table orders (id int primary key, a int, b int, note text);
insert into orders select i, i, i, repeat('x', 60) from generate_series(1, 60000) i;
create index orders_a on orders (a);
create index orders_a_again on orders (a);
create index orders_a_b on orders (a, b);
create table doubled (n int);
insert into doubled values (1), (1);
create table queue (n int) with (autovacuum_enabled = false);
insert into queue select generate_series(1, 5000);
create sequence shared_ids;
create table numbered (n int default nextval('shared_ids'));
select setval('shared_ids', 2040109465);
create publication everything for table orders;
create role reporter;
alter role reporter set synchronous_commit = off;
create role watcher login;
grant pg_monitor to watcher;
create role visitor login;
select pg_create_physical_replication_slot('gone', true);
alter system set max_connections = 150;
"""
CHURN = (
    "update orders set note = repeat('y', 60)",
    "update orders set note = repeat('z', 60)",
    "delete from queue",
    # The planner's own guess would be too low for a compilation.
    "set jit_above_cost = 0",
    "set jit_optimize_above_cost = 0",
    *["select sum(a + b) from orders where id < 100"] * 3,
    "vacuum (index_cleanup off) orders",
    "analyze orders",
)
WRONG = {
    "commits-not-durable",
    "configuration-errors",
    "duplicate-indexes",
    "forgotten-transactions",
    "invalid-indexes",
    "lost-slots",
    "no-autovacuum",
    "no-room-for-hot",
    "prefix-indexes",
    "restart-pending",
    "settings-without-effect",
    "timeouts-for-all",
    "unread-indexes",
}
PENDING = "select pending_restart from pg_settings where name = 'max_connections'"
OF_FILES = {"errors in postgresql.conf", "errors in pg_hba.conf"}
OF_SESSIONS = {"standbys", "states of sessions", "the oldest transactions", "statements"}
MACHINE = "the server's machine"


def looked(conninfo: ConnInfo, path: Path) -> Judgement:
    """What the rules say of this server, seen from another machine."""
    file = path / f"check-{len(list(path.glob('*.db')))}.db"
    with Recorder.create(file, name="check", command="check") as recorder:
        with connect_plain(conninfo) as connection:
            take_looks(connection, recorder, None)
        recorder.finish("done")
    with RunFile(file) as run:
        return judge(run)


def found(judgement: Judgement) -> set[str]:
    return {each.id for each in judgement.findings if each.status == "found"}


def hidden(judgement: Judgement) -> set[str]:
    """The subjects that this role was not shown, without those of the machine, nor what was not
    asked for."""
    return {
        each.subject
        for each in judgement.not_looked_at
        if MACHINE not in each.allow and each.why != "it was not asked for"
    }


def execute(conninfo: ConnInfo, *statements: str) -> None:
    """Execute statements in a session that ends, so that its counts are there."""
    with connect_plain(conninfo) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def make_everything_wrong(cluster: Cluster) -> None:
    execute(cluster.conninfo, *SCHEMA.strip().removesuffix(";").split(";\n"))
    execute(cluster.conninfo, *CHURN)
    with pytest.raises(psycopg.errors.UniqueViolation):
        execute(cluster.conninfo, "create unique index concurrently half on doubled (n)")
    for _ in range(3):
        execute(cluster.conninfo, "insert into doubled values (2)", "select pg_switch_wal()")
    execute(cluster.conninfo, "checkpoint", "select pg_reload_conf()")
    wait_until(lambda: has(cluster, PENDING), "the server reads its files")


def make_files_wrong(cluster: Cluster) -> Callable[[], None]:
    """Add a wrong line to each file, which is not read yet; returns how to mend them."""
    files = [cluster.directory / name for name in ("postgresql.conf", "pg_hba.conf")]
    texts = [file.read_bytes() for file in files]
    for file, text in zip(files, texts, strict=True):
        file.write_bytes(text + b"\nnonsense = 1\n")

    def mend() -> None:
        for file, text in zip(files, texts, strict=True):
            file.write_bytes(text)

    return mend


def lower(patch: pytest.MonkeyPatch, *thresholds: tuple[ModuleType, str]) -> None:
    """Make thresholds of time zero: a test does not wait."""
    for module, name in thresholds:
        patch.setattr(module, name, 0.0)


def watched_sequences(cluster: Cluster) -> Collection[tuple[object, ...]]:
    with connect_plain(cluster.conninfo) as connection:
        major = connection.info.server_version // 10_000
        return connection.execute(queries_for(major)["sequence"].text.encode()).fetchall()


@pytest.mark.parametrize("major", [18, 15])
def test_faults_are_found_and_what_is_hidden_is_listed(
    major: int,
    new_cluster: Callable[..., Cluster],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = new_cluster(major, **SETTINGS)
    fresh = looked(cluster.conninfo, tmp_path)
    assert found(fresh) == {"timeouts-for-all"}, "what the test itself has set"
    make_everything_wrong(cluster)
    lower(
        monkeypatch,
        (unneeded_indexes, "COUNTED_S_MIN"),
        (old_transactions, "IDLE_S_MIN"),
        (planning, "JIT_MS_MIN"),
    )
    mend = make_files_wrong(cluster)
    with connect_plain(cluster.conninfo) as holder:
        holder.execute("begin; select 1")
        holder.execute("set application_name = 'forgetful'")
        seen = {
            name: looked(replace(cluster.conninfo, user=name), tmp_path)
            for name in (cluster.conninfo.user, "watcher", "visitor")
        }
    owner, watcher, visitor = seen.values()
    compiled = {"compiled-statements"} if has(cluster, "select pg_jit_available()") else set()
    assert found(owner) == WRONG | compiled
    assert hidden(owner) == set()
    assert watched_sequences(cluster) == [("public.shared_ids", 2040109465, 2147483647)]

    assert found(watcher) == found(owner) - {"configuration-errors"}
    assert hidden(watcher) == OF_FILES
    assert hidden(visitor) >= OF_FILES | OF_SESSIONS
    unseen = {rule for entry in visitor.not_looked_at for rule in entry.rules}
    assert found(visitor) == found(owner) - unseen
    grants = {
        each.allow for each in visitor.not_looked_at if each.subject == "the oldest transactions"
    }
    assert grants == {"GRANT pg_read_all_stats TO visitor"}

    what_allows_it = [
        e.allow.partition(": ")[2] for e in watcher.not_looked_at if e.subject in OF_FILES
    ]
    execute(cluster.conninfo, *(s for each in what_allows_it for s in each.split("; ")))
    assert "configuration-errors" in found(
        looked(replace(cluster.conninfo, user="watcher"), tmp_path)
    )

    mend()
    make_tables(cluster.conninfo, 2)
    assert looks_ms(cluster.conninfo).keys() >= {"table", "unused_index", "statement"}
    assert probes_ms(cluster.conninfo).keys() >= {"table", "sequence"}
    cluster.stop()
    (cluster.data_dir / "standby.signal").touch()
    cluster.start()
    standby = looked(cluster.conninfo, tmp_path)
    assert hidden(standby) == set()
    assert found(standby) >= {"duplicate-indexes", "lost-slots"}


def has(cluster: Cluster, query: str) -> bool:
    with connect_plain(cluster.conninfo) as connection:
        row = connection.execute(query.encode()).fetchone()
    return bool(row and row[0])
