"""Emulated disks under a cluster: the server runs on them, and nothing of them stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from patience import wait_until
from pgdyno.disk import OpenDisks, open_disks
from pgdyno.disk.mounting import loops_below, mounts_below
from pgdyno.server import Cluster, Installation
from pgdyno.spec.model import DiskSpec


@pytest.mark.parametrize(
    ("data", "wal", "recorded"),
    [
        ("blackout:size=600MB", "data", ["data"]),
        ("blackout:fs=xfs,size=600MB", "blackout:size=300MB", ["data", "wal"]),
        ("plain", "slow:flush=1ms,size=200MB", []),
    ],
)
def test_server_on_emulated_disks(
    installation_of: Callable[[int], Installation], data: str, wal: str, recorded: list[str]
) -> None:
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("emulated disks need root and FUSE")
    if "xfs" in data and shutil.which("mkfs.xfs") is None:
        pytest.skip("mkfs.xfs is not installed")
    opened: list[OpenDisks] = []

    def disks(folder: Path) -> OpenDisks:
        opened.append(open_disks(DiskSpec(data=data, wal=wal))(folder))
        return opened[0]

    with Cluster.create(installation_of(18), disks=disks) as cluster:
        for device in opened[0].recorded:
            device.start_recording()
        with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as conn:
            conn.execute("create table t as select 1")
            conn.execute("checkpoint")
        facts = [device.stop_recording() for device in opened[0].recorded]
        assert [device.directory.name for device in opened[0].recorded] == recorded
        assert all(each["writes"] and each["flushes"] for each in facts)
        assert mounts_below(cluster.directory)
    assert not mounts_below(cluster.directory)
    # The system may look at a loop device whenever that changes, and so keep it a little longer.
    wait_until(lambda: not loops_below(cluster.directory), "no loop device is left")
    assert not cluster.directory.exists()
