"""Power cuts of real servers: defaults lose nothing, torn pages and swallowed flushes are found."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patience import wait_until
from pgdyno.conduct import Silent
from pgdyno.disk import dismantle
from pgdyno.disk.mounting import loops_below, mounts_below
from pgdyno.drill.model import DrillOptions
from pgdyno.drill.running import run_drill
from pgdyno.errors import UsageError
from pgdyno.results.drill import Drill
from pgdyno.server import Installation, sweep
from pgdyno.server.directories import clusters_dir
from pgdyno.spec import spec_from_fields
from remains import children_of

SHIM = Path(__file__).with_name("swallowed_flush.c")


@pytest.fixture
def drilled(installation_of: Callable[[int], Installation], tmp_path: Path) -> Callable[..., Drill]:
    """Carry out a power drill, after which nothing is mounted."""
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("power cuts need root and FUSE")
    if not Path("/dev/loop-control").exists():
        pytest.skip("power cuts need loop devices")

    def run(major: int, *, spec: Any = (), server: Any = (), **options: Any) -> Drill:
        installation_of(major)
        fields = {
            "name": "power",
            "server": {"version": major, **dict(server)},
            "disk": {"data": "blackout:size=1GB"},
            "workload": {"scale": 2},
            "clients": [{"count": 8}],
            **dict(spec),
        }
        result = run_drill(
            spec_from_fields(fields),
            DrillOptions(**{"fault": "power", "seed": 4, "load_s": 1.3, **options}),
            watcher=Silent(),
            run=tmp_path / f"run-{len(list(tmp_path.iterdir()))}.db",
        )
        assert not mounts_below(clusters_dir())
        assert not loops_below(clusters_dir())
        return result

    return run


@pytest.mark.long
def test_defaults_lose_nothing_with_wal_and_data_apart(
    drilled: Callable[..., Drill],
) -> None:
    if shutil.which("mkfs.xfs") is None:
        pytest.skip("mkfs.xfs is not installed")
    spec = {"disk": {"data": "blackout:fs=xfs,size=1GB", "wal": "blackout:size=1GB"}}
    result = drilled(18, spec=spec, cuts=3)
    assert [cut.outcome for cut in result.cuts] == ["clean"] * 3
    assert [cut.number for cut in result.cuts] == [1, 2, 3]
    assert [cut.at_ms for cut in result.cuts] == sorted(cut.at_ms for cut in result.cuts)
    assert {cut.proof.facts["control_file"] for cut in result.cuts} == {"in production"}
    assert all(cut.proof.facts["pending_writes"] for cut in result.cuts)
    assert all(cut.ledger and cut.ledger.acked for cut in result.cuts)
    assert result.summary.sentence.startswith("0 of 3 cuts lost anything")


@pytest.mark.timeout(1800)  # Minimising verifies many images.
@pytest.mark.long
@pytest.mark.parametrize(("major", "checksums"), [(18, True), (15, False)])
def test_torn_pages_are_found_and_with_checksums_minimised(
    drilled: Callable[..., Drill], major: int, checksums: bool, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    server = {"checksums": checksums, "settings": {"full_page_writes": "off"}}
    asked = {"cuts": 3, "variant": "subset", "sector_bytes": 512, "recording": str(kept)}
    result = drilled(major, server=server, **asked, minimise=checksums)
    harmed = [cut for cut in result.cuts if cut.outcome in ("refused", "corrupt")]
    assert harmed
    assert not result.worse_than_bound()  # Nothing is promised.
    if not checksums:
        return
    assert any("invalid page" in cut.server_said for cut in harmed)
    minimised = harmed[0].facts["minimised"]
    assert minimised["tests"] > 1
    assert 0 < len(minimised["sectors"]) < minimised["undecided"]
    assert all(sector["bytes"] == 512 for sector in minimised["sectors"])
    assert any(sector["block"] is not None for sector in minimised["sectors"])
    assert "block" in minimised["sentence"]
    replayed = drilled(major, server=server, **asked, cut=harmed[0].number)
    assert [cut.number for cut in replayed.cuts] == [harmed[0].number]
    assert replayed.cuts[0].seed == harmed[0].seed
    assert replayed.cuts[0].proof == harmed[0].proof
    assert replayed.cuts[0].outcome == harmed[0].outcome
    with pytest.raises(UsageError, match=r"full_page_writes off; here it is not set"):
        drilled(major, server={"checksums": checksums}, **asked)
    with pytest.raises(UsageError, match=r"made with workload\.scale 2; here it is 1"):
        drilled(major, spec={"workload": {"scale": 1}}, server=server, **asked)


def test_an_asynchronous_commit_is_lost_and_nothing_else(
    drilled: Callable[..., Drill],
) -> None:
    settings = {"synchronous_commit": "off", "wal_writer_delay": "500ms"}
    result = drilled(18, server={"settings": settings}, cuts=2)
    assert {cut.outcome for cut in result.cuts} <= {"lost", "clean"}
    assert any(cut.outcome == "lost" for cut in result.cuts)


def test_a_server_that_swallows_its_flushes_is_caught(
    drilled: Callable[..., Drill],
    installation_of: Callable[[int], Installation],
    open_dir: Path,
) -> None:
    real = installation_of(15).bindir
    liar = open_dir / "bin"
    liar.mkdir()
    for program in real.iterdir():
        (liar / program.name).symlink_to(program)
    shim = open_dir / "swallowed_flush.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(shim), str(SHIM)], check=True)
    (liar / "postgres").unlink()
    (liar / "postgres").write_text(f'#!/bin/sh\nLD_PRELOAD={shim} exec {real}/postgres "$@"\n')
    (liar / "postgres").chmod(0o755)
    result = drilled(15, server={"bindir": str(liar)}, cuts=2)
    assert result.summary.bound_ms == 0
    assert {cut.outcome for cut in result.cuts} <= {"lost", "refused", "corrupt"}
    assert len(result.worse_than_bound()) == 2


@pytest.mark.long
def test_a_sham_is_no_power_cut(drilled: Callable[..., Drill]) -> None:
    result = drilled(18, cuts=1, sham=True)
    assert [cut.outcome for cut in result.cuts] == ["no-fault"]
    assert {cut.proof.facts["control_file"] for cut in result.cuts} == {"shut down"}
    assert result.fault_missing


@pytest.mark.long
def test_killed_in_a_cut_it_leaves_nothing_that_a_sweep_does_not_find(
    open_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("power cuts need root and FUSE")
    monkeypatch.setenv("PGDYNO_HOME", str(open_dir))
    command = [
        sys.executable,
        "-m",
        "pgdyno",
        "drill",
        "--fault",
        "power",
        "-s",
        "1",
        "--cuts",
        "20",
    ]
    command += ["--scale", "1", "-c", "4", "--load", "1s", "--data-disk", "blackout:size=1GB"]
    command += ["-o", str(open_dir / "run.db")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as drill:
        assert drill.stderr
        while b" cut 1" not in (line := drill.stderr.readline()):
            assert line, "it ended"
        stop_within_a_cut(drill, open_dir)
        kill_cleanup_process(drill)  # It would race with the sweep.
        drill.kill()
    done = sweep(dismantle)
    assert any(line.startswith("unmounted") for line in done)
    # The daemon of the load's disk clears up for itself.
    wait_until(lambda: not mounts_below(open_dir) + loops_below(open_dir), "its disks are gone")
    assert not list((open_dir / "clusters").glob("*-*"))


def stop_within_a_cut(drill: subprocess.Popen[bytes], folder: Path) -> None:
    """Stop it while the load's own file system is mounted, and that of a cut."""
    stopped = False
    while not stopped:
        assert drill.poll() is None, "it ended"
        time.sleep(0.01)
        if len(file_systems(folder)) < 2:
            continue
        drill.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, drill.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        stopped = len(file_systems(folder)) >= 2
        if not stopped:
            drill.send_signal(signal.SIGCONT)


def kill_cleanup_process(drill: subprocess.Popen[bytes]) -> None:
    for pid in children_of(drill.pid):
        if b"cleanup_process.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


def file_systems(folder: Path) -> list[str]:
    return [mount.point for mount in mounts_below(folder) if mount.fs == "ext4"]
