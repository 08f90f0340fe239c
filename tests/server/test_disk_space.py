"""The space of a server's disks, and the warning while one fills."""

from __future__ import annotations

import os
import re
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from inline_snapshot import snapshot

from pgdyno.disk import open_disk
from pgdyno.probe import space
from pgdyno.probe.space import SpaceSampler, sample_space
from pgdyno.record import Recorder, RunFile
from pgdyno.server import Cluster
from pgdyno.spec.disk import disk_plan

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a tmpfs"),
]

MB = 1 << 20


def test_space_of_a_server(pg: Cluster) -> None:
    before: list[Path] | None = None
    while (segments := sorted((pg.data_dir / "pg_wal").glob("0000*"))) != before:
        before = segments  # A checkpoint that is still under way may remove some.
        (disk,) = sample_space(pg.data_dir)
    stat = os.statvfs(pg.data_dir)
    assert disk.holds == "data,wal"
    assert disk.size_bytes == stat.f_blocks * stat.f_frsize
    assert disk.wal_dir_bytes == 16 * MB * len(segments)
    assert disk.filesystem


def test_a_disk_that_fills_is_said_once_while_it_can_be_helped(
    open_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count()
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)))
    monkeypatch.setattr(space, "time", clock)  # A megabyte a second, however slow the machine is.
    disk = open_disk(disk_plan("tmpfs:64MB"), open_dir)
    try:
        data_dir = tmp_path / "pgdata"
        wal = disk.path / "pg_wal"
        for folder in (data_dir, wal):
            folder.mkdir()
        (data_dir / "pg_wal").symlink_to(wal)
        warnings: list[str] = []
        recorder = Recorder.create(tmp_path / "run.db", name="sample", command="run", spec={})
        sampler = SpaceSampler(recorder, data_dir, max_wal_size_bytes=1 << 30, warn=warnings.append)
        said_at = None
        for number in range(10):
            (wal / f"{number:024X}").write_bytes(bytes(MB))
            sampler.sample()
            said_at = said_at or (number if warnings else None)
        assert said_at is not None
        assert len(warnings) == 1
        start = r"warning: the disk of the WAL \(tmpfs\) will be full in about [\d.]+ \w+"
        assert re.match(start, warnings[0])
        recorder.finish("done")
        recorder.close()
        with RunFile(tmp_path / "run.db") as run:
            assert [event.label for event in run.events("warning")] == snapshot(
                ["WAL disk about to fill"]
            )
            sizes = run.series("metric_space", where={"holds": "wal"})["wal_dir_bytes"]
            assert list(sizes) == [MB * number for number in range(1, 11)]
    finally:
        disk.close()
