"""Somebody else kills the server of a drill, or one process of it.

Before the fault, at it, and while what is left is verified: the cut counts for nothing, and is
never held against the server.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from patience import wait_until
from pgdyno.conduct import Silent
from pgdyno.drill import _verify as verifying
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill.model import DrillOptions
from pgdyno.drill.running import run_drill
from pgdyno.errors import TrustError
from pgdyno.results.drill import Drill
from pgdyno.server import Cluster, Installation
from pgdyno.server.local.leftovers import server_processes
from pgdyno.server.local.startup import Postmaster
from pgdyno.spec import spec_from_fields


def kill_postmaster(cluster: Cluster) -> None:
    assert cluster.pid is not None
    os.kill(cluster.pid, signal.SIGKILL)


def background_writer(cluster: Cluster) -> int | None:
    """Return the PID of a process that lasts as long as its server."""
    for pid in server_processes(cluster.data_dir):
        with suppress(OSError):
            if b"background writer" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    return None


def kill_process(cluster: Cluster) -> None:
    """As the OOM killer does; the server notices, and starts itself again."""
    wait_until(lambda: background_writer(cluster) is not None, "it has a background writer")
    writer = background_writer(cluster)
    assert writer is not None
    os.kill(writer, signal.SIGKILL)
    killed = "terminated by signal 9"
    wait_until(lambda: killed in cluster.log_path.read_text(), "the server notices")


@pytest.fixture
def drilled(installation_of: Callable[[int], Installation], tmp_path: Path) -> Callable[..., Drill]:
    def run(fault: str, **options: Any) -> Drill:
        if os.geteuid() != 0 and fault in ("power", "disk-full", "wal-device"):
            pytest.skip("only root may mount the disks of this drill")
        installation_of(18)
        fields = {
            "name": "outside",
            "server": {"version": 18, "settings": {"synchronous_commit": "off"}},
            "workload": {"scale": 1},
            "clients": [{"count": 4, "think": "20ms"}],
        }
        if fault == "power":
            fields["disk"] = {"data": "blackout:size=600MB"}
        return run_drill(
            spec_from_fields(fields),
            DrillOptions(fault=fault, seed=3, cuts=1, load_s=0.6, **options),
            watcher=Silent(),
            run=tmp_path / "run.db",
        )

    return run


Kill = Callable[[Cluster], None]


@pytest.fixture
def before_the_fault(monkeypatch: pytest.MonkeyPatch) -> Callable[[Kill], None]:
    def arrange(kill: Kill) -> None:
        run = LoadedServer.let_run

        def let_run(self: LoadedServer, rng: Any) -> None:
            run(self, rng)
            kill(self.cluster)
            with suppress(Exception):  # What the load says of it is not what is looked at.
                self.session.wait(0.3)

        monkeypatch.setattr(LoadedServer, "let_run", let_run)

    return arrange


@pytest.fixture
def while_verified(monkeypatch: pytest.MonkeyPatch) -> Callable[[Kill], None]:
    def arrange(kill: Kill) -> None:
        recover = verifying.recover

        def recovered(cluster: Cluster) -> Any:
            recovery = recover(cluster)
            kill(cluster)
            return recovery

        monkeypatch.setattr(verifying, "recover", recovered)

    return arrange


def nothing_is_known(result: Drill) -> bool:
    assert result.fault_missing
    assert result.worse_than_bound() == []
    assert [cut.outcome for cut in result.cuts] == ["no-fault"]
    (cut,) = result.cuts
    return "was ended by SIGKILL" in cut.facts["disturbed"]


@pytest.mark.parametrize("fault", ["kill", "immediate"])
def test_a_backend_killed_before_a_crash(
    drilled: Callable[..., Drill], before_the_fault: Callable[[Kill], None], fault: str
) -> None:
    before_the_fault(kill_process)
    assert nothing_is_known(drilled(fault))


@pytest.mark.parametrize(("fault", "kill"), [("kill", kill_process), ("power", kill_postmaster)])
def test_a_server_killed_while_it_is_verified(
    drilled: Callable[..., Drill],
    while_verified: Callable[[Kill], None],
    fault: str,
    kill: Kill,
) -> None:
    while_verified(kill)
    assert nothing_is_known(drilled(fault))


def test_a_rescue_killed_while_it_is_verified(
    drilled: Callable[..., Drill], while_verified: Callable[[Kill], None]
) -> None:
    while_verified(kill_postmaster)
    result = drilled("wal-device", variant="resetwal")
    assert nothing_is_known(result)


def test_a_server_killed_as_it_recovers(
    drilled: Callable[..., Drill], monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_ready = Postmaster.wait_ready

    def killed(self: Postmaster, data_dir: Path, seconds_max: float = 60.0) -> bool:
        os.kill(self.pid, signal.SIGKILL)
        return wait_ready(self, data_dir, seconds_max)

    verify = verifying.recover

    def recover(cluster: Cluster) -> Any:
        monkeypatch.setattr(Postmaster, "wait_ready", killed)
        try:
            return verify(cluster)
        finally:
            monkeypatch.setattr(Postmaster, "wait_ready", wait_ready)

    monkeypatch.setattr(verifying, "recover", recover)
    assert nothing_is_known(drilled("kill"))


def test_a_server_killed_while_it_is_recorded(
    drilled: Callable[..., Drill], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pgdyno.drill.power import _recording

    load = _recording._load_with_checkpoints

    def loaded(drill: LoadedServer) -> list[int]:
        kill_postmaster(drill.cluster)
        return load(drill)

    monkeypatch.setattr(_recording, "_load_with_checkpoints", loaded)
    with pytest.raises(TrustError, match=r"interfered with from outside.*SIGKILL"):
        drilled("power")


@pytest.mark.parametrize(("fault", "variant"), [("stop", None), ("disk-full", "data")])
def test_a_server_killed_at_a_fault_that_ends_no_process(
    drilled: Callable[..., Drill],
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    variant: str | None,
) -> None:
    end_load = LoadedServer.end_load

    def ended(self: LoadedServer, drain_ms: int = 0) -> Any:
        kill_postmaster(self.cluster)
        return end_load(self, drain_ms)

    monkeypatch.setattr(LoadedServer, "end_load", ended)
    try:
        result = drilled(fault, variant=variant)
    except TrustError as problem:
        assert "SIGKILL" in problem.message
    else:
        assert nothing_is_known(result)
