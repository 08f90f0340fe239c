"""The probes on real servers: every column filled, every meter moved by what it measures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from patience import wait_until
from pgdyno.conduct import stop_signals
from pgdyno.errors import Interrupted
from pgdyno.probe import OTHER_SESSIONS, Probes, is_local, locate_postmaster
from pgdyno.probe import _link as link_module
from pgdyno.probe._host_sampler import ELSEWHERE
from pgdyno.probe._link import Link, connect, queries_for
from pgdyno.probe._vacuums import UNCOUNTED_SAMPLES_MAX
from pgdyno.probe.gaps import MissingProbes
from pgdyno.record import Recorder, RunFile
from pgdyno.record.fileformat import columns
from pgdyno.record.incidents import incidents
from pgdyno.record.void import IncidentCause, void_reason
from pgdyno.server import Cluster, ConnInfo
from pgdyno.server.replication.standby import Standby
from pgdyno.wait_events import canonical

pytestmark = pytest.mark.server


class Written:
    """A run file that is being written, read back with SQL."""

    def __init__(self, path: Path) -> None:
        self.recorder = Recorder.create(path, name="probes", command="run")

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """What the run file holds now."""
        writer = self.recorder._writer
        with writer.together():
            cursor = writer._db.execute(sql, values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Events of a kind, details flattened in as JSON text."""
        return self.rows("select * from event where kind = ? order by at_ms", kind)

    def gaps(self) -> list[str]:
        """Labels of the probes' events, without samples that a busy machine leaves out, and without
        the disk that data in memory lack."""
        here = {"samples left out", "no disk of the data"}
        return [event["label"] for event in self.events("probe") if event["label"] not in here]

    def sample_until(self, probes: Probes, condition: Callable[[], object]) -> None:
        """Have the probes read until what they wrote fulfils the condition."""
        wait_until(condition, "it came to be", look=probes.sample_now)

    def wait_for(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """The rows, as soon as there are any."""
        wait_until(lambda: self.rows(sql, *values), f"in the run file: {sql}")
        return self.rows(sql, *values)


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    file = Written(tmp_path / "run.db")
    yield file
    file.recorder.close()


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes that look for what is stuck, and try again, more often."""
    monkeypatch.setattr("pgdyno.probe._probes.GUARD_EVERY_S", 0.1)
    monkeypatch.setattr("pgdyno.probe._probes.PAUSE_S", (0.1,))
    monkeypatch.setattr(link_module, "BACK_OFF_S", (0.1,))


def probes_for(
    written: Written, cluster: Cluster, conninfo: ConnInfo | None = None, local: bool = True
) -> Probes:
    return Probes(
        conninfo or cluster.conninfo, written.recorder, local=local, data_dir=cluster.data_dir
    )


@contextmanager
def running(probes: Probes) -> Iterator[Probes]:
    probes.start()
    try:
        yield probes
    finally:
        probes.stop()


@contextmanager
def session(cluster: Cluster, application_name: str = "pgdyno") -> Iterator[psycopg.Connection]:
    values = cluster.conninfo.kwargs() | {"application_name": application_name}
    with psycopg.connect(**values, autocommit=True) as connection:
        yield connection


@pytest.fixture
def table(pg: Cluster) -> Iterator[str]:
    with session(pg) as connection:
        connection.execute("drop table if exists probed")
        connection.execute("create table probed (id int primary key, n int)")
        connection.execute("insert into probed select i, 0 from generate_series(1, 1000) i")
        yield "probed"
        connection.execute("drop table probed")


@pytest.fixture
def limited(pg: Cluster) -> Iterator[ConnInfo]:
    """Connection values of a role with no privileges."""
    with session(pg) as connection:
        connection.execute("drop role if exists probe_limited")
        connection.execute("create role probe_limited login password 'probe'")
        yield replace(pg.conninfo, user="probe_limited", password="probe")
        connection.execute("drop role probe_limited")


def test_every_query_answers_with_the_columns_of_the_run_file(pg: Cluster) -> None:
    with connect(pg.conninfo) as connection:
        for query in queries_for(connection.info.server_version // 10_000).values():
            description = connection.execute(query.text.encode()).description
            assert description is not None
            table = f"metric_{query.name}"
            if table in columns() and query.name not in ("lock", "process", "table_lock"):
                names = {column.name for column in description}
                assert names | {"at_ms", "slice_id", "size_bytes", "own_transactions"} >= set(
                    columns()[table]
                )
                assert names <= set(columns()[table])


def test_one_sample_fills_every_table(pg: Cluster, table: str, written: Written) -> None:
    with running(probes_for(written, pg)) as probes:
        slice_id = written.recorder.open_slice("run")
        probes.sample_now()
        written.recorder.close_slice(slice_id)
        expected_missing = {"io"} if "io" in probes.missing else set()
    never = {"metric_generator", "metric_replication", "metric_vacuum"}
    never |= {"metric_program", "metric_foreign"}  # what moved between two samples
    never |= {"metric_slot", "metric_sequence", "metric_prepared"}  # there are none
    never |= {"metric_control_group"}  # which only a quota has
    never |= {"metric_table_lock"}  # read where a table has dead rows
    never |= {"metric_load"}  # read where the load is that of others
    # Read where there is one:
    never |= {"metric_pooler", "metric_front", "metric_front_page", "metric_jvm"}
    for name in set(columns()) - never - {f"metric_{each}" for each in expected_missing}:
        if name.startswith("metric_"):
            assert written.rows(f"select * from {name} where slice_id = ?", slice_id), name
    [row] = written.rows("select * from metric_table where relation = 'public.probed' limit 1")
    assert row["size_bytes"] > 0
    roles = {row["role"] for row in written.rows("select distinct role from metric_process")}
    assert roles >= {"checkpointer", "walwriter", "client backend", "postmaster", "pgdyno"}
    states = written.rows(
        "select count(*) as n from metric_activity where slice_id = ? group by at_ms", slice_id
    )
    assert {row["n"] for row in states} == {6}


def test_an_idle_server_shows_no_waits(pg: Cluster, written: Written) -> None:
    with running(probes_for(written, pg)) as probes:
        written.wait_for("select 1 from wait_sample where ticks > 3")
        probes.sample_now()
    waiting = written.rows(
        "select * from wait_sample where backend_type = 'client backend' and state = 'active'"
        " and count > 0"
    )
    assert waiting == []
    assert written.rows("select * from metric_lock where waiting > 0") == []
    assert written.events("vacuum") == []


def test_writes_move_the_wal_and_what_they_wait_for_is_seen(
    pg: Cluster, table: str, written: Written
) -> None:
    def write() -> None:
        with session(pg) as connection:
            connection.execute("update probed set n = n + 1 where id = %s", (1,))

    writers = [threading.Thread(target=write) for _ in range(3)]
    with session(pg) as holder, running(probes_for(written, pg)) as probes:
        probes.sample_now()
        holder.execute("begin; update probed set n = 0 where id = 1")
        for writer in writers:
            writer.start()
        written.wait_for(
            "select 1 from wait_sample join statement s on s.id = statement_id"
            " where s.text like 'update probed%' and wait_event_type = 'Lock'"
        )
        holder.execute("commit")
        for writer in writers:
            writer.join()
        # Backends report what they wrote once a second, and when they end.
        written.sample_until(probes, partial(_have_moved, written))
    texts = written.rows("select text from statement where text like 'update probed%'")
    assert {"text": "update probed set n = n + ? where id = $1"} in texts
    looks = written.rows("select distinct at_ms, ticks from wait_sample")
    assert len({row["at_ms"] for row in looks}) == len(looks)
    seen = written.rows("select distinct wait_event_type, wait_event from wait_sample")
    kinds = {canonical(row["wait_event_type"], row["wait_event"]) for row in seen}
    assert kinds & {"lock:transactionid", "lock:tuple"}


def _have_moved(written: Written) -> bool:
    """True if the counters of WAL that only writes and flushes move are not where they were."""
    wal = written.rows("select * from metric_wal order by at_ms")
    columns = ("insert_lsn_bytes", "flush_lsn_bytes", "wal_bytes", "wal_records", "wal_sync")
    return all(wal[-1][column] > wal[0][column] for column in columns)


def test_a_lock_queue_shows_its_depth_and_its_cause(
    pg: Cluster, table: str, written: Written
) -> None:
    def wait_for_row() -> None:
        with session(pg) as connection:
            connection.execute("update probed set n = 2 where id = 1")

    waiters = [threading.Thread(target=wait_for_row) for _ in range(3)]
    with session(pg) as holder, running(probes_for(written, pg)) as probes:
        holder.execute("begin")
        holder.execute("update probed set n = 1 where id = 1")
        for waiter in waiters:
            waiter.start()
        waiting = "select 1 from metric_lock where waiting = 3"
        written.sample_until(probes, lambda: written.rows(waiting))
        holder.execute("commit")
        for waiter in waiters:
            waiter.join()
    [row] = written.rows("select * from metric_lock where waiting = 3 limit 1")
    assert row["behind_one_max"] == 3
    assert row["relation"] == "public.probed"
    assert row["lock_type"] in ("tuple", "transactionid")
    assert row["blocker_statement"] == "update probed set n = ? where id = ?"
    assert row["wait_ms_max"] > 0


LINKED = """
    select lock_queue.*, lock_link.mode as wanted, text
    from lock_queue join lock_link on lock_link.id = link_id
    join statement on statement.id = lock_link.statement_id
    where lock_queue.relation = 'public.probed' and behind_request = seen
"""


def test_a_request_that_waits_and_is_in_the_way_is_a_link_of_the_queue(
    pg: Cluster, table: str, written: Written
) -> None:
    def execute(sql: str) -> None:
        with session(pg) as connection:
            connection.execute(sql.encode())

    requests = [
        threading.Thread(target=execute, args=[sql])
        for sql in ("alter table probed add column m int", "update probed set n = 7 where id = 7")
    ]
    waiting = "select from pg_locks where not granted and relation = 'probed'::regclass"
    with session(pg) as holder, session(pg) as looker, running(probes_for(written, pg)):
        holder.execute("begin")
        holder.execute("select count(*) from probed")
        for number, request in enumerate(requests, 1):
            request.start()
            wait_until(lambda n=number: looker.execute(waiting).rowcount == n, "it waits")
        written.wait_for(LINKED)
        pid = holder.info.backend_pid
        holder.execute("commit")
        for request in requests:
            request.join()
    row = written.rows(LINKED)[-1]
    assert (row["wanted"], row["text"]) == (
        "AccessExclusiveLock", "alter table probed add column m int",
    )  # fmt: skip
    assert (row["blocker_mode"], row["blocker_pid"]) == ("AccessShareLock", pid)
    assert (row["blocker_type"], row["blocker_state"]) == ("client backend", "idle in transaction")
    assert row["waiting_mode"] == "RowExclusiveLock"
    assert row["first"] == row["seen"]


def test_those_who_wait_for_the_holder_alone_have_no_link(
    pg: Cluster, table: str, written: Written
) -> None:
    def wait_for_table() -> None:
        with session(pg) as connection:
            connection.execute("update probed set n = 7 where id = 7")

    waiter = threading.Thread(target=wait_for_table)
    with session(pg) as holder, running(probes_for(written, pg)):
        holder.execute("begin")
        holder.execute("lock table probed")
        waiter.start()
        [row] = written.wait_for("select * from lock_queue limit 1")
        holder.execute("commit")
        waiter.join()
    assert (row["link_id"], row["behind_request"]) == (None, 0)
    assert row["blocker_mode"] == "AccessExclusiveLock"


@pytest.mark.parametrize(
    ("mode", "is_recorded"), [("share update exclusive", True), ("row exclusive", False)]
)
def test_a_lock_that_excludes_autovacuum_is_recorded_while_there_are_dead_rows(
    pg: Cluster, table: str, written: Written, mode: str, is_recorded: bool
) -> None:
    dead = "select 1 from metric_table where relation = 'public.probed' and n_dead_tup >= 1000"
    with session(pg) as holder, session(pg) as busy, running(probes_for(written, pg)) as probes:
        busy.execute("alter table probed set (autovacuum_enabled = off)")
        busy.execute("update probed set n = n + 1")
        written.sample_until(probes, lambda: written.rows(dead))
        holder.execute("begin")
        holder.execute(f"lock table probed in {mode} mode".encode())
        probes.sample_now()
        locks = written.rows("select * from metric_table_lock where relation = 'public.probed'")
        holder.execute("commit")
    modes = {(row["mode"], row["backend_type"], row["holders"]) for row in locks}
    expected = {("ShareUpdateExclusiveLock", "client backend", 1)} if is_recorded else set()
    assert modes == expected


def test_a_checkpoint_is_an_event(pg: Cluster, table: str, written: Written) -> None:
    with session(pg, "pgdyno control") as connection, running(probes_for(written, pg)) as probes:
        probes.sample_now()
        _checkpoint_until_counted(connection)
        probes.sample_now()
        before = len(_requested(written))
        connection.execute("update probed set n = n + 1")
        _checkpoint_until_counted(connection)
        written.sample_until(probes, lambda: len(_requested(written)) > before)
        for _ in range(3):
            probes.sample_now()
        events = _requested(written)
    assert len(events) == before + 1, "it is told once"
    assert '"buffers": ' in events[-1]["detail_json"]
    assert events[-1]["duration_ms"] >= 0


def _requested(written: Written) -> list[dict[str, Any]]:
    """Events of checkpoints that were asked for; others come when their time has come."""
    events = written.events("checkpoint")
    return [event for event in events if event["label"] == "checkpoint (requested)"]


def _checkpoint_until_counted(connection: psycopg.Connection) -> None:
    """Execute a checkpoint and wait for its counters, which are updated last."""
    view = (
        "pg_stat_checkpointer" if connection.info.server_version >= 170000 else "pg_stat_bgwriter"
    )
    column = "num_requested" if view == "pg_stat_checkpointer" else "checkpoints_req"
    counted = f"select {column} from {view}".encode()
    before = connection.execute(counted).fetchone()
    connection.execute("checkpoint")
    wait_until(lambda: connection.execute(counted).fetchone() != before, "it is counted")


def test_a_vacuum_is_an_event_once(pg: Cluster, table: str, written: Written) -> None:
    with session(pg, "pgdyno control") as connection, running(probes_for(written, pg)) as probes:
        connection.execute("insert into probed select i, 0 from generate_series(1001, 4000) i")
        probes.sample_now()
        connection.execute("vacuum probed")
        connection.execute("set vacuum_cost_delay = '50ms'")
        connection.execute("set vacuum_cost_limit = 1")
        connection.execute("vacuum (freeze, disable_page_skipping) probed")
        written.wait_for("select 1 from event where kind = 'vacuum' and duration_ms is not null")
        for _ in range(UNCOUNTED_SAMPLES_MAX + 1):
            probes.sample_now()
    # Autovacuum may come to a table of another test meanwhile.
    labels = [event["label"] for event in written.events("vacuum")]
    assert labels.count("vacuum public.probed") == 2
    assert written.rows("select * from metric_vacuum where relation = 'public.probed'")


def test_an_old_snapshot_is_named_as_holder(pg: Cluster, table: str, written: Written) -> None:
    with session(pg) as old, session(pg) as busy, running(probes_for(written, pg)) as probes:
        old.execute("begin isolation level repeatable read")
        old.execute("select 1")
        for _ in range(3):
            busy.execute("update probed set n = n + 1 where id = 1")
        probes.sample_now()
        [row] = written.rows(
            "select * from metric_age where database = ? order by at_ms desc limit 1",
            pg.conninfo.database,
        )
        old.execute("rollback")
    assert row["xmin_holder"] == "backend"
    assert row["xmin_age"] >= 3


def test_a_limited_role_is_degraded_not_fatal(
    pg: Cluster, limited: ConnInfo, written: Written
) -> None:
    with running(probes_for(written, pg, limited)) as probes:
        probes.sample_now()
        probes.sample_now()
        missing = probes.missing
        written.wait_for("select 1 from wait_sample where ticks > 0")
    assert "pg_monitor" in missing[OTHER_SESSIONS]
    assert written.rows("select * from metric_wal where insert_lsn_bytes > 0")
    assert written.rows("select * from metric_database")
    said = [event["label"] for event in written.events("probe")]
    assert len(said) == len(set(said)), "each is reported once"
    assert {f"no {name}" for name in missing} <= set(said)


def test_a_view_that_is_forbidden_spoils_no_other(
    pg: Cluster, limited: ConnInfo, written: Written
) -> None:
    with session(pg) as owner:
        owner.execute("revoke select on pg_stat_database from public")
        try:
            link = Link(limited, MissingProbes(written.recorder))
            first = link.fetch(["wal", "database", "bgwriter"])
            again = link.fetch(["wal", "database", "bgwriter"])
            link.close()
        finally:
            owner.execute("grant select on pg_stat_database to public")
    assert first is not None
    assert first.keys() == {"wal", "bgwriter"}
    assert again is not None
    assert again.keys() == {"wal", "bgwriter"}
    [event] = written.events("probe")[-1:]
    assert "permission denied" in event["detail_json"]


def test_a_database_without_an_encoding(pg: Cluster, written: Written) -> None:
    with session(pg, "pgdyno control") as owner:
        owner.execute(
            "create database probe_ascii encoding 'SQL_ASCII' locale 'C' template template0"
        )
        try:
            conninfo = replace(pg.conninfo, database="probe_ascii")
            with psycopg.connect(**conninfo.kwargs(), autocommit=True) as connection:
                connection.execute('create table "t\xe9" (n int)'.encode("latin1"))
            with running(probes_for(written, pg, conninfo)) as probes:
                probes.sample_now()
                written.wait_for("select 1 from wait_sample where backend_type = 'client backend'")
        finally:
            owner.execute("drop database probe_ascii")
    [row] = written.rows("select distinct relation from metric_table")
    assert row["relation"] == "public.t\xe9"


def test_receivers_of_wal_are_listed(pg: Cluster, written: Written, tmp_path: Path) -> None:
    receiver = pg.installation.program("pg_receivewal")
    target = pg.conninfo
    where = f"host={target.host} port={target.port} user={target.user} application_name=receiver"
    with running(probes_for(written, pg)) as probes:
        process = subprocess.Popen([receiver, "-D", tmp_path, "-d", where])
        try:
            known = "select 1 from metric_replication where lag_bytes is not null"
            written.sample_until(probes, lambda: written.rows(known))
        finally:
            process.terminate()
            process.wait()
    names = written.rows("select distinct application_name from metric_replication")
    assert {"application_name": "receiver"} in names


def test_a_locked_table_keeps_nothing_waiting(pg: Cluster, table: str, written: Written) -> None:
    with session(pg) as owner, running(probes_for(written, pg)) as probes:
        owner.execute("begin")
        owner.execute("lock table probed in access exclusive mode")
        probes.sample_now()
        assert "table_size" not in probes.missing
        owner.execute("rollback")
        probes.sample_now()
    sizes = written.rows(
        "select size_bytes from metric_table where relation = 'public.probed' order by at_ms"
    )
    assert sizes[-1]["size_bytes"] > 0


def test_a_killed_probe_comes_back(pg: Cluster, written: Written) -> None:
    kill = (
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where application_name = 'pgdyno probe'"
    )
    with session(pg) as connection, running(probes_for(written, pg)) as probes:
        probes.sample_now()  # Both are connected.
        written.wait_for("select 1 from wait_sample")
        connection.execute(kill)
        for probe in ("server", "waits"):  # each has a thread, which notices when it has its turn
            written.wait_for("select 1 from event where label = ?", f"{probe} back")
        last = written.recorder.at_ms()
        written.wait_for("select 1 from wait_sample where at_ms > ?", last)
        probes.sample_now()
    labels = [event["label"] for event in written.events("probe")]
    assert [label for label in labels if "server" in label] == ["server away", "server back"]
    assert [label for label in labels if "waits" in label] == ["waits away", "waits back"]
    away = next(event for event in written.events("probe") if event["label"] == "server away")
    assert json.loads(away["detail_json"])["reason"]


def test_a_rest_covers_a_restart(new_cluster: Callable[..., Cluster], written: Written) -> None:
    cluster = new_cluster(18, track_io_timing="on", track_wal_io_timing="on")
    with running(probes_for(written, cluster)) as probes:
        probes.sample_now()
        with probes.rest():
            cluster.restart()
            probes.sample_now()
        last = written.recorder.at_ms()
        probes.sample_now()
        written.wait_for("select 1 from wait_sample where at_ms > ?", last)
        processes = written.rows(
            "select * from metric_process where role = 'postmaster' and at_ms >= ?", last
        )
    assert processes, "the new postmaster is followed"
    assert written.gaps() == []
    assert written.events("checkpoint") == []


def test_a_server_that_dies_is_waited_for_in_silence(
    new_cluster: Callable[..., Cluster], written: Written
) -> None:
    cluster = new_cluster(18, track_io_timing="on", track_wal_io_timing="on")
    with running(probes_for(written, cluster)) as probes:
        probes.sample_now()
        cluster.kill()
        probes.sample_now()
        probes.sample_now()
        for probe in ("server", "waits"):  # each has a thread, which notices when it has its turn
            written.wait_for("select 1 from event where label = ?", f"{probe} away")
        own = written.rows("select count(*) as n from metric_process where role = 'pgdyno'")
    assert own[0]["n"] >= 3, "what is not the server's goes on"
    away = ["server away", "server still away", "waits away", "waits still away"]
    assert sorted(written.gaps()) == away


def test_a_promotion_is_seen(new_cluster: Callable[..., Cluster], written: Written) -> None:
    primary = new_cluster(15)
    standby = Standby.create(primary, "promoted")
    try:
        standby.start()
        with running(probes_for(written, standby.cluster)) as probes:
            slice_id = written.recorder.open_slice("run")
            probes.sample_now()
            standby.promote()
            probes.sample_now()
            written.recorder.close_slice(slice_id)
        written.recorder.flush()
        with RunFile(written.recorder.path) as run:
            reason = void_reason(run, run.slice(slice_id), run.run.spec)
            assert reason is not None
            assert reason.cause is IncidentCause.PROMOTION
            assert [each.cause for each in incidents(run)] == [IncidentCause.PROMOTION]
    finally:
        standby.destroy()


@pytest.mark.usefixtures("quick_looks")
def test_a_server_that_hangs_keeps_nobody(
    pg: Cluster, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends = "select pid from pg_stat_activity where application_name = 'pgdyno probe'"
    with session(pg, "pgdyno control") as connection, running(probes_for(written, pg)) as probes:
        written.wait_for("select 1 from wait_sample")
        pids = [pid for (pid,) in connection.execute(backends)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            with monkeypatch.context() as patch:
                # Not for longer: an answer of a busy machine may take as long.
                patch.setattr(link_module, "STUCK_S", 0.5)
                probes.sample_now()
                written.wait_for("select 1 from event where label = 'server away'")
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        written.wait_for("select 1 from event where label = 'server back'")
        last = written.recorder.at_ms()
        written.wait_for("select 1 from wait_sample where at_ms > ?", last)
    assert len(pids) == 2


def test_disconnecting_twice_leaves_no_socket_open(
    pg: Cluster, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time the socket is down already; one that were left open would be a warning."""
    monkeypatch.setattr(link_module, "STUCK_S", 0.0)
    with closing(Link(pg.conninfo_tcp, MissingProbes(written.recorder))) as link:
        assert link.fetch(["wal"])
        backend = Path("/proc", str(link.backend_pid))
        link._busy_since_s = 0.0
        link.disconnect_if_stuck()
        wait_until(lambda: not backend.exists(), "its session has ended")
        link.disconnect_if_stuck()


def test_a_stop_signal_that_comes_while_it_reads_is_not_lost(pg: Cluster, written: Written) -> None:
    """psycopg replaces its error by one of its own, which counts as a lost connection."""
    with closing(Link(pg.conninfo_tcp, MissingProbes(written.recorder))) as link:
        assert link.fetch(["wal"])
        backend = link.backend_pid
        assert backend is not None
        os.kill(backend, signal.SIGSTOP)

        @stop_signals()
        def session() -> None:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
            link.fetch(["wal"])
            wait_until(lambda: False, "the signal's error")

        try:
            with pytest.raises(Interrupted, match="SIGTERM"):
                session()
        finally:
            os.kill(backend, signal.SIGCONT)


def test_elsewhere_there_is_no_host_to_see(pg: Cluster, written: Written) -> None:
    with running(probes_for(written, pg, local=False)) as probes:
        probes.sample_now()
        missing = probes.missing
    assert {missing[probe] for probe in ("host", "disk", "process")} == {ELSEWHERE}
    assert written.rows("select * from metric_host") == []
    roles = written.rows("select distinct role from metric_process")
    assert [row["role"] for row in roles] == ["pgdyno"]


def test_the_server_is_found_on_this_host(pg: Cluster) -> None:
    assert is_local(pg.conninfo)
    over_tcp = pg.conninfo_tcp
    assert locate_postmaster(over_tcp) == pg.pid
    assert is_local(over_tcp)
    assert not is_local(replace(pg.conninfo, host="127.0.0.1", port=0))


def test_the_probes_leave_nothing_behind(pg: Cluster, written: Written) -> None:
    before = set(threading.enumerate())
    with running(probes_for(written, pg)) as probes:
        probes.sample_now()
    probes.stop()
    assert set(threading.enumerate()) <= before
    with session(pg, "pgdyno control") as connection:
        count = "select count(*) from pg_stat_activity where application_name = 'pgdyno probe'"
        wait_until(lambda: connection.execute(count).fetchone() == (0,), "no session is left")


def test_slices_do_not_share_a_batch(pg: Cluster, written: Written) -> None:
    recorder = written.recorder
    with running(probes_for(written, pg)) as probes:
        slices = []
        for _ in range(2):
            slices.append(recorder.open_slice("run"))
            probes.sample_now()
            sampled = "select 1 from wait_sample where slice_id = ?"
            written.sample_until(probes, partial(written.rows, sampled, slices[-1]))
            probes.sample_now()
            recorder.close_slice(slices[-1])
    for slice_id in slices:
        [row] = written.rows(
            "select sum(ticks) as n from (select distinct at_ms, ticks from wait_sample"
            " where slice_id = ?)",
            slice_id,
        )
        assert row["n"] is not None
        edges = written.rows("select * from metric_wal where slice_id = ?", slice_id)
        assert len(edges) >= 2


def test_cpu_time_of_others_is_apart(written: Written, pg: Cluster) -> None:
    computes = "select sum(g) from generate_series(1, 1000000) as g"
    used = (
        "select max(cpu_user_ms + cpu_system_ms) as ms from metric_process"
        " where role = 'client backend of others' having count(*) > 0"
    )
    with running(probes_for(written, pg)) as probes:
        for own in ("pgdyno/web", "postgres_fdw"):
            with session(pg, own) as connection:
                connection.execute(computes)
                probes.sample_now()
                assert written.rows(used) == []
        with session(pg, "shop") as other:
            other.execute(computes)
            written.sample_until(probes, lambda: written.rows(used))
            assert written.rows(used)[0]["ms"] > 10
