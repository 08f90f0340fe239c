"""A Patroni cluster: a load on it, its failovers, refusals, and what is left behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from patience import PATIENCE_S, wait_until
from pgdyno.conduct import Session, Silent, check_settings, open_session
from pgdyno.drill.model import DrillOptions
from pgdyno.drill.running import run_drill
from pgdyno.errors import RunError, SetupError, UsageError
from pgdyno.record import RunFile, SliceKind
from pgdyno.results.drill import Drill
from pgdyno.server import Cluster, ConnInfo, connect_plain, find_installation
from pgdyno.server.replication.patroni import Patroni, check_programs
from pgdyno.server.replication.receivers import Receivers
from pgdyno.spec import Change, Spec, spec_from_fields
from pgdyno.spec.standby import StandbySpec
from pooler_fixtures import FOLLOWING_POOLER
from remains import left_over

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("nothing_left")]

QUICK = {"ttl": "20", "loop_wait": "1", "retry_timeout": "3"}


@pytest.fixture(autouse=True)
def _no_relay_is_left() -> Iterator[None]:
    yield
    assert [each.name for each in threading.enumerate() if each.name == "relay"] == []


@pytest.fixture
def installed() -> None:
    """Skips where Patroni or a store is missing."""
    for program in ("patroni", "etcd", "patroni_raft_controller"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine")


def managed(mode: str = "async", count: int = 2, **fields: Any) -> Spec:
    standby = {"mode": mode, "count": count, "manager": "patroni", "manager_settings": QUICK}
    given = {"clients": [{"count": 4, "think": "20ms"}], "workload": {"scale": 1}, **fields}
    return spec_from_fields({"standby": standby, **given})


def shown(conninfo: ConnInfo, setting: str) -> str:
    with connect_plain(conninfo) as connection:
        row = connection.execute(f"show {setting}".encode()).fetchone()
    assert row is not None
    return str(row[0])


def patroni_of(session: Session) -> Patroni:
    assert session.target.receivers is not None
    assert session.target.receivers.manager is not None
    return session.target.receivers.manager


def _counted(session: Session, query: str) -> object:
    with connect_plain(session.target.conninfo) as connection:
        row = connection.execute(query.encode()).fetchone()
    return row and row[0]


@pytest.mark.usefixtures("installed")
def test_a_load_runs_on_the_leader_of_three_nodes(tmp_path: Path) -> None:
    spec, path = managed("on"), tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        patroni = patroni_of(session)
        leader = patroni.primary()
        assert leader is not None
        assert leader.cluster is session.target.cluster
        assert [node.is_replica for node in patroni.nodes] == [False, True, True]
        session.start_load()
        session.wait_connected()
        with session.measured("run"):
            wait_until(
                lambda: _counted(session, "select sum(tbalance) <> 0 from pgbench_tellers"),
                "the load commits",
                look=lambda: session.wait(0.05),
            )
        session.stop_load()
        with connect_plain(session.target.conninfo) as connection:
            row = connection.execute("show synchronous_standby_names").fetchone()
        assert row in (("pgdyno_standby_1",), ("pgdyno_standby_2",)), "it chooses one"
        assert oct(patroni.nodes[0].directory.stat().st_mode)[-3:] == "700"
    with RunFile(path) as run:
        assert run.ledger().done > 0
        standby = run.run.server["standby"]
        assert [each["state"] for each in standby["receivers"].values()] == ["streaming"] * 2
        assert standby["manager_settings"] == QUICK
        logs = [each for each in run.events() if each.kind == "manager-log"]
        assert "promoted self to leader" in logs[0].detail["text"]


@pytest.fixture
def drilled(tmp_path: Path, installed: None) -> Callable[..., Drill]:
    def run(
        fault: str, mode: str = "async", more: dict[str, Any] | None = None, **options: Any
    ) -> Drill:
        given = {"fault": fault, "cuts": 1, "seed": 4, "load_s": 0.6, **options}
        spec = managed(mode, **(more or {}))
        return run_drill(spec, DrillOptions(**given), watcher=Silent(), run=tmp_path / "run.db")

    return run


@pytest.mark.long
def test_the_cluster_replaces_a_primary_that_is_killed(drilled: Callable[..., Drill]) -> None:
    result = drilled("failover", "on")
    (cut,) = result.cuts
    assert cut.proof.happened, cut.proof.sentence
    assert cut.outcome == "clean"
    assert result.summary.bound_ms == 0.0
    outage = cut.outage
    assert outage is not None
    assert (outage.clients, outage.clients_back, outage.both_ms) == (4, 4, 0.0)
    parts_ms = outage.stop_ms + outage.detect_ms + outage.promote_ms
    parts_ms += outage.connect_ms + outage.commit_ms
    assert outage.detect_ms > 0
    assert parts_ms <= outage.no_commit_ms + 0.01
    assert [each[0] for each in cut.proof.facts["patroni_history"]][:1] == [1], "timelines"


@pytest.mark.long
def test_without_etcd_patronis_own_raft_is_the_store(
    drilled: Callable[..., Drill], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("pgdyno.server.replication._store.Etcd.program", "no-such-etcd")
    (cut,) = drilled("failover", "on").cuts
    assert cut.proof.happened, cut.proof.sentence
    assert cut.outcome == "clean"
    with RunFile(tmp_path / "run.db") as run:
        assert run.run.server["standby"]["manager_store"] == "raft"


@pytest.mark.usefixtures("installed")
def test_no_node_is_cut_off_from_raft(
    drilled: Callable[..., Drill], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdyno.server.replication._store.Etcd.program", "no-such-etcd")
    with pytest.raises(SetupError, match="cannot be cut off from Patroni's own raft"):
        drilled("partition")


@pytest.mark.long
def test_a_switchover_that_patroni_is_asked_for_loses_nothing(
    drilled: Callable[..., Drill],
) -> None:
    (cut,) = drilled("switchover").cuts
    assert cut.proof.happened, cut.proof.sentence
    assert cut.outcome == "clean"
    assert cut.outage is not None
    assert cut.outage.detect_ms == 0.0
    assert cut.outage.clients_back == 4


@pytest.mark.usefixtures("pgbouncer")
@pytest.mark.long
def test_a_pooler_is_told_of_the_leader_that_patroni_made(
    drilled: Callable[..., Drill],
) -> None:
    (cut,) = drilled("switchover", "on", more=FOLLOWING_POOLER).cuts
    assert cut.outcome == "clean"
    assert cut.outage is not None
    assert cut.outage.clients_back == 4


@pytest.mark.long
def test_a_leader_that_is_cut_off_is_ended_by_patroni_unless_that_hangs(
    drilled: Callable[..., Drill],
) -> None:
    fenced, unfenced = drilled("partition", cuts=2).cuts
    for cut in (fenced, unfenced):
        assert cut.proof.happened, cut.proof.sentence
        assert cut.outcome == "lost"
        assert cut.outage is not None
    assert (fenced.variant, unfenced.variant) == ("fenced", "unfenced")
    assert fenced.outage is not None
    assert fenced.outage.both_ms == 0.0
    assert unfenced.outage is not None
    assert unfenced.outage.both_ms > 0


@pytest.mark.long
def test_a_leader_that_is_cut_off_acknowledges_nothing_if_commits_wait_for_a_standby(
    drilled: Callable[..., Drill],
) -> None:
    (cut,) = drilled("partition", "on", variant="unfenced").cuts
    assert cut.proof.happened, cut.proof.sentence
    assert cut.outcome == "clean"


def test_what_patroni_does_not_leave_alone_is_refused(tmp_path: Path) -> None:
    def refused(**options: Any) -> UsageError:
        with pytest.raises(UsageError) as raised:
            run_drill(managed(), DrillOptions(**options), watcher=Silent(), run=tmp_path / "run.db")
        return raised.value

    asked = ({"fault": "kill"}, {"fault": "stop"}, {"fault": "failover", "detect_s": 1.0})
    refusals = [refused(**options) for options in asked]
    assert {said.code for said in refusals} == {"contradiction"}
    assert [(said.message, said.hint) for said in refusals] == snapshot(
        [
            (
                "kill is a fault of one server, which Patroni would not leave alone",
                "omit the manager, or use --fault failover or partition or switchover",
            ),
            (
                "stop is a fault of one server, which Patroni would not leave alone",
                "omit the manager, or use --fault failover or partition or switchover",
            ),
            (
                "--detect is the time that pgdyno waits, and Patroni manages the failover",
                "use --manager-set ttl=SECONDS",
            ),
        ]
    )


def test_a_program_that_is_missing_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pgdyno.server.replication._store.find_program", lambda _: None)
    with pytest.raises(SetupError, match="neither etcd nor patroni_raft_controller") as raised:
        check_programs()
    assert "etcd-server" in str(raised.value.hint)
    monkeypatch.setattr("pgdyno.server.replication.patroni.find_program", lambda _: None)
    with pytest.raises(SetupError, match="Patroni is not installed"):
        check_programs()


def test_a_setting_that_patroni_would_replace_is_refused_before_anything_starts() -> None:
    with pytest.raises(UsageError, match="max_connections = 20: Patroni accepts no less than 25"):
        check_settings(managed(), {"work_mem": "1MB"}, {"max_connections": "20"})
    check_settings(managed(), {"max_connections": "25", "max_prepared_transactions": "0"})
    check_settings(spec_from_fields({}), {"max_connections": "20"})


@pytest.mark.usefixtures("installed")
def test_a_port_in_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(
            "pgdyno.server.replication.patroni.free_ports", lambda number: [port] * number
        )
        wanted = StandbySpec.model_validate({"manager": "patroni", "count": 1})
        with Cluster.create(find_installation(None, None)) as cluster:
            receivers = Receivers(cluster)
            try:
                with pytest.raises(SetupError, match=rf"its port, {port} on .* is in use"):
                    receivers.arrange(wanted)
            finally:
                receivers.close()


@pytest.mark.usefixtures("installed")
def test_a_part_that_dies_ends_the_run(tmp_path: Path) -> None:
    """One of a standby; what ends the run next would be the leader's, and the store before both."""
    spec, path = managed(count=1, load={"hold": "1min"}), tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        patroni = patroni_of(session)
        session.start_load()
        os.kill(patroni.nodes[1].process.pid, signal.SIGKILL)
        with pytest.raises(RunError, match=_killed("Patroni of pgdyno_standby_1")):
            session.wait(PATIENCE_S)
        for process, name in (
            (patroni.nodes[0].process, "Patroni of pgdyno_primary"),
            (patroni.store_process, "etcd"),
        ):
            os.kill(process.pid, signal.SIGKILL)
            wait_until(lambda process=process: not process.running, f"{name} has ended")
            with pytest.raises(RunError, match=_killed(name)):
                patroni.check()


def _killed(name: str) -> str:
    return rf"{name} was ended by SIGKILL during the run"


@pytest.mark.long
@pytest.mark.usefixtures("installed")
def test_one_that_hangs_ends_the_run_and_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdyno.server.local.guarded._SUSPENDED_S_MAX", 0.5)
    spec, path = managed(load={"hold": "1min"}), tmp_path / "run.db"

    def stop_it() -> None:
        with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
            session.start_load()
            os.kill(patroni_of(session).nodes[2].process.pid, signal.SIGSTOP)
            session.wait(PATIENCE_S)

    with pytest.raises(RunError, match=r"Patroni of pgdyno_standby_2 .* is stopped by a signal"):
        stop_it()


@pytest.mark.usefixtures("installed")
@pytest.mark.long
def test_it_starts_and_stops_and_leaves_the_server() -> None:
    """Without a manager again, the primary has what it had, and may be given another."""
    wanted = {"manager": "patroni", "manager_settings": QUICK, "count": 1}
    with Cluster.create(find_installation(None, None)) as cluster:
        receivers = Receivers(cluster)
        try:
            for mode in ("async", "on"):
                receivers.arrange(StandbySpec.model_validate({**wanted, "mode": mode}))
                assert receivers.manager is not None
                assert receivers.manager.nodes[0].is_primary
                receivers.arrange(StandbySpec())
                assert cluster.running
                assert receivers.manager is None
        finally:
            receivers.close()


@pytest.mark.usefixtures("installed")
@pytest.mark.long
def test_a_load_on_a_cluster_that_was_there_follows_its_leader(tmp_path: Path) -> None:
    """The user's connection string names all nodes, as it would for libpq."""
    path = tmp_path / "run.db"
    wanted = {"manager": "patroni", "manager_settings": QUICK, "count": 1}
    with Cluster.create(find_installation(None, None)) as cluster:
        receivers = Receivers(cluster)
        try:
            receivers.arrange(StandbySpec.model_validate(wanted))
            standby = receivers.standbys[0].cluster
            nodes = [standby.conninfo, cluster.conninfo]
            hosts, ports = (",".join(map(str, each)) for each in _hosts_and_ports(nodes))
            conninfo = f"host={hosts} port={ports} user={nodes[0].user} dbname={nodes[0].database}"
            spec = spec_from_fields(
                {
                    "server": {
                        "kind": "existing",
                        "conninfo": f"{conninfo} target_session_attrs=read-write",
                    },
                    "clients": [{"count": 4, "think": "20ms"}],
                    "workload": {"scale": 1},
                }
            )
            with open_session(
                spec, run=path, command="run", spec_text="", watcher=Silent()
            ) as session:
                assert session.target.conninfo.host == cluster.conninfo.host
                session.start_load()
                session.wait_connected()
                assert receivers.manager is not None
                receivers.manager.switch_over()
                wait_until(
                    lambda: _transactions(standby),
                    "the new leader has a load",
                    look=lambda: session.wait(0.1),
                )
                session.stop_load()
        finally:
            receivers.close()


def _hosts_and_ports(nodes: list[ConnInfo]) -> tuple[list[str], list[int]]:
    return [each.host for each in nodes], [each.port for each in nodes]


def _transactions(cluster: Cluster) -> int:
    """Transactions that clients of the load have now on this server, which accepts writes."""
    with connect_plain(cluster.conninfo) as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity where application_name = 'pgdyno'"
            " and not pg_is_in_recovery() and query ilike '%pgbench%'"
        ).fetchone()
    return row[0] if row else 0


@pytest.mark.usefixtures("installed")
@pytest.mark.long
def test_a_setting_that_needs_a_restart_is_tried_on_the_leader(tmp_path: Path) -> None:
    """Also one that Patroni gives the servers on their command line."""
    spec, path = managed("on", 1), tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        before = shown(session.target.conninfo, "max_connections")
        assert int(before) < 321
        changes: list[dict[str, str]] = [
            {"shared_buffers": "64MB", "max_connections": "321", "track_commit_timestamp": "on"},
            {"shared_buffers": "32MB"},
        ]
        for settings in changes:
            session.apply(Change(settings=settings), warm_up_s_max=0.5)
            session.slice(0.3, kind=SliceKind.TRIAL)
            wanted = {"max_connections": before, "track_commit_timestamp": "off", **settings}
            primary, standby = (node.cluster.conninfo for node in patroni_of(session).nodes)
            assert {name: shown(primary, name) for name in wanted} == wanted
            assert shown(standby, "max_connections") == "321", "not lower before it has replayed it"
            leader = patroni_of(session).primary()
            assert leader is not None
            assert leader.cluster is session.target.cluster
        with pytest.raises(SetupError, match="command line sets it to on"):
            session.apply(Change(settings={"wal_log_hints": "off"}))
    with RunFile(path) as run:
        assert [each.void for each in run.slices()] == [None, None]


@pytest.mark.usefixtures("installed")
@pytest.mark.long
def test_nothing_runs_on_after_kill_9(open_dir: Path) -> None:
    home = open_dir / "home"
    command = [sys.executable, "-m", "pgdyno", "run", "tpcb-like", "-s", "1", "-T", "600"]
    options = ["--manager", "patroni", *(f"--manager-set={n}={v}" for n, v in QUICK.items())]
    output = open_dir / "output"
    with output.open("w") as file:
        started = subprocess.Popen(
            [*command, *options, "-o", str(open_dir / "run.db")],
            env={**os.environ, "PGDYNO_HOME": str(home)},
            stderr=file,
            stdout=file,
        )
    clusters = home / "clusters"

    def processes() -> list[str]:
        return [each for each in left_over(home=clusters) if "/proc" in each]

    try:
        wait_until(
            lambda: bool(re.search(r"\d tps", output.read_text())) or started.poll() is not None,
            "the load runs",
        )
        assert len(processes()) > 10, output.read_text()
    finally:
        started.kill()
        started.wait()
    wait_until(lambda: not processes(), "its processes have ended")
    subprocess.run(
        [sys.executable, "-m", "pgdyno", "server", "sweep"],
        env={**os.environ, "PGDYNO_HOME": str(home)},
        check=True,
        capture_output=True,
    )
    assert left_over(home=clusters) == []
