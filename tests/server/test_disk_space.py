"""The space of a server's disks, and the warning while one fills."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from found_meanwhile import found_meanwhile
from inline_snapshot import snapshot

from pgdyno.diagnose import Finding
from pgdyno.disk import open_disk
from pgdyno.probe import space
from pgdyno.probe._server_log import log_bytes_by_device
from pgdyno.probe.space import SpaceSampler, sample_space
from pgdyno.record import Recorder, RunFile
from pgdyno.server import Cluster, Installation
from pgdyno.spec import spec_from_fields
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


def test_the_log_of_a_server_is_its_standard_error(pg: Cluster) -> None:
    device = pg.log_path.stat().st_dev
    before = log_bytes_by_device(pg.data_dir)[device]
    assert before == pg.log_path.stat().st_size
    (disk,) = sample_space(pg.data_dir)
    assert disk.log_bytes is not None or device != pg.data_dir.stat().st_dev


def test_a_process_that_is_no_server_has_no_log_of_one(tmp_path: Path) -> None:
    assert log_bytes_by_device(tmp_path) == {}
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n")
    assert log_bytes_by_device(tmp_path) == {}


LOGGED = {"log_statement": "all", "debug_print_plan": "on"}
COLLECTED = {"logging_collector": "on", "log_rotation_size": "1MB"}
SIZE = "tmpfs:700MB"


@contextmanager
def small_server(
    installation: Installation, folder: Path, settings: Mapping[str, str]
) -> Iterator[Cluster]:
    """A server with its data and its log on a small disk."""
    disk = open_disk(disk_plan(SIZE), folder)
    os.chown(disk.path, 0, 0)
    disk.path.chmod(0o755)
    try:
        with Cluster.create(installation, settings, keep_dir=disk.path / "kept") as cluster:
            yield cluster
    finally:
        disk.close()


def filling(cluster: Cluster, folder: Path, other: Callable[[], None] | None = None) -> Finding:
    """The finding on a load of short statements, and what else is done meanwhile."""
    script = folder / "script.sql"
    script.write_text("select relname from pg_class where oid = 1;\n")
    fields: dict[str, Any] = {
        "name": "filling",
        "server": {"kind": "existing", "conninfo": cluster.conninfo.uri_without_password},
        "workload": {"script": [{"file": str(script)}]},
        "clients": [{"name": "web", "count": 2}],
        "load": {"hold": "8s"},
    }
    path, spec = folder / "run.db", spec_from_fields(fields)
    during = None if other is None else lambda _: other()
    return found_meanwhile(spec, path, during)["disk-filling"]


@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize("more", [{}, COLLECTED], ids=["standard error", "collector"])
def test_a_log_that_fills_the_disk_is_named(
    installation_of: Callable[[int], Installation],
    open_dir: Path,
    tmp_path: Path,
    more: dict[str, str],
) -> None:
    with small_server(installation_of(18), open_dir, LOGGED | more) as cluster:
        finding = filling(cluster, tmp_path)
    assert finding.status == "found"
    assert finding.is_about_to_fail
    assert "debug_print_plan = on" in finding.sentence
    assert "log_statement = all" in finding.sentence


@pytest.mark.usefixtures("own_home")
def test_a_disk_that_a_file_of_others_fills_is_not_said_of_the_log(
    installation_of: Callable[[int], Installation], open_dir: Path, tmp_path: Path
) -> None:
    with small_server(installation_of(18), open_dir, {}) as cluster:

        def write() -> None:
            pause = threading.Event()
            with (cluster.directory / "others").open("wb") as file:
                for _ in range(90):
                    file.write(bytes(2 * MB))
                    file.flush()
                    pause.wait(0.1)

        finding = filling(cluster, tmp_path, write)
    figures = {each.name: each.value for each in finding.evidence}
    assert finding.status == "found"
    assert "server's log" not in finding.sentence
    assert figures.get("the log's growth", 0) == 0


@pytest.mark.usefixtures("own_home")
def test_a_server_that_logs_little_fills_nothing(
    installation_of: Callable[[int], Installation], open_dir: Path, tmp_path: Path
) -> None:
    with small_server(installation_of(18), open_dir, {}) as cluster:
        assert filling(cluster, tmp_path).status == "cleared"
