"""Disks of pgdyno's own: what a power cut leaves on them, what they cannot be, what slows them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from patience import wait_until
from pgdyno._engine import DiskLogs
from pgdyno.disk import EmulatedDevice, FileSystem, mount_image, mounting, open_device, unmount_all
from pgdyno.errors import RunError, SetupError
from pgdyno.server import Cluster, Installation
from pgdyno.server.local.account import server_account
from pgdyno.server.local.programs import find_program

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount disks"),
    pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="this system has no /dev/fuse"),
]
SIZE_BYTES: dict[FileSystem, int] = {"ext4": 64 << 20, "xfs": 300 << 20}


@pytest.fixture(params=["ext4", "xfs"])
def fs(request: pytest.FixtureRequest) -> FileSystem:
    name: FileSystem = request.param
    if find_program(f"mkfs.{name}") is None:
        pytest.skip(f"this system has no mkfs.{name}")
    return name


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "disk"
    assert mounting.mounts_below(tmp_path) == []
    # The system may look at a loop device whenever that changes, and so keep it a little longer.
    wait_until(lambda: not mounting.loops_below(tmp_path), "no loop device is left")


def write_durably(path: Path, data: bytes) -> None:
    """The file and its name."""
    with path.open("wb") as file:
        file.write(data)
        os.fsync(file.fileno())
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def files_after_cut(
    device: EmulatedDevice, cut_at_ns: int, keep: str, seed: int
) -> dict[str, bytes]:
    """The files of a disk whose power went at a time."""
    assert device.log is not None
    logs = DiskLogs([device.log])
    image, point = device.directory / "cut", device.directory / "cut-mnt"
    shutil.copyfile(device.base, image)
    logs.advance(0, image, cut_at_ns)
    logs.cut(cut_at_ns, seed, 512, keep).write(0, image)  # type: ignore[arg-type]
    point.mkdir(exist_ok=True)
    mount_image(image, point, device.fs, ["nouuid"] if device.fs == "xfs" else [])
    try:
        return {path.name: path.read_bytes() for path in point.iterdir() if path.is_file()}
    finally:
        unmount_all(point, patience_s=5)
        image.unlink()


def test_a_cut_keeps_what_was_flushed_and_no_more(folder: Path, fs: FileSystem) -> None:
    with open_device(folder, fs=fs, size_bytes=SIZE_BYTES[fs], log=True) as device:
        account = server_account()
        assert account is not None
        assert device.path.stat().st_uid == account.uid
        assert list(device.path.iterdir()) == []
        write_durably(device.path / "before", b"before" * 1000)
        device.start_recording()
        write_durably(device.path / "flushed", b"flushed" * 1000)
        flushed_ns = time.monotonic_ns()
        (device.path / "pending").write_bytes(b"pending" * 1000)
        pending_ns = time.monotonic_ns()
        device.sync()
        synced_ns = time.monotonic_ns()
        recorded = device.stop_recording()
    assert device.log is not None
    facts = DiskLogs([device.log]).facts()[0]
    assert {name: facts[name] for name in recorded} == recorded  # type: ignore[literal-required]
    assert not facts["torn"]
    assert recorded["flushes"] >= 2
    before = {"before": b"before" * 1000}
    flushed = {**before, "flushed": b"flushed" * 1000}
    assert files_after_cut(device, facts["first_ns"], "all", 1) == before
    for keep in ("none", "all", "subset", "subset"):
        found = files_after_cut(device, flushed_ns, keep, seed=2)
        assert {name: found.get(name) for name in flushed} == flushed
    assert files_after_cut(device, pending_ns, "none", 3) == flushed
    assert files_after_cut(device, synced_ns, "none", 4) == {
        **flushed,
        "pending": b"pending" * 1000,
    }


def test_two_disks_are_cut_at_one_time(tmp_path: Path) -> None:
    devices = [
        open_device(tmp_path / name, fs="ext4", size_bytes=SIZE_BYTES["ext4"], log=True)
        for name in ("data", "wal")
    ]
    for device in devices:
        device.start_recording()
    for turn in range(4):
        for device in devices:
            write_durably(device.path / f"file{turn}", b"x" * 10_000)
    for device in devices:
        device.stop_recording()
        device.close()
    logs = DiskLogs([device.log for device in devices if device.log])
    times = logs.ranked(12, 1, [])
    assert times == logs.ranked(12, 1, [])
    assert {time["why"] for time in times} >= {"pending", "flush-edge"}
    images = [device.directory / "rolling" for device in devices]
    for device, image in zip(devices, images, strict=True):
        shutil.copyfile(device.base, image)
    for at in times:
        cut = logs.cut(at["at_ns"], 7, 4096, "garbage")
        assert cut.facts()["pending_writes"] == at["pending_writes"]
        assert cut.sectors == logs.cut(at["at_ns"], 7, 4096, "garbage").sectors
        for disk, image in enumerate(images):
            logs.advance(disk, image, at["at_ns"])


def test_a_recording_can_be_begun_again_but_not_without_a_log(folder: Path) -> None:
    with open_device(folder, fs="ext4", size_bytes=SIZE_BYTES["ext4"], log=True) as device:
        with pytest.raises(RunError, match="was not being recorded"):
            device.stop_recording()
        device.start_recording()
        device.stop_recording()
        device.start_recording()
        device.stop_recording()
    with pytest.raises(RunError, match="the disk is closed"):
        device.stop_recording()
    with (
        open_device(folder / "2", fs="ext4", size_bytes=SIZE_BYTES["ext4"], log=False) as device,
        pytest.raises(RunError, match="without a log"),
    ):
        device.start_recording()


def test_a_slow_disk_takes_its_time(folder: Path) -> None:
    """At least: how much longer than asked is the machine's affair."""
    size, flush_ms, bytes_per_s = SIZE_BYTES["ext4"], 40, 8 << 20
    with open_device(
        folder,
        fs="ext4",
        size_bytes=size,
        log=False,
        flush_ms=flush_ms,
        write_bytes_per_s=bytes_per_s,
    ) as device:
        file = os.open(device.path / "file", os.O_RDWR | os.O_CREAT)
        began = time.monotonic()
        for _ in range(5):
            os.pwrite(file, b"x", 0)
            os.fdatasync(file)
        assert time.monotonic() - began >= 5 * flush_ms / 1000
        began = time.monotonic()
        os.pwrite(file, os.urandom(4 << 20), 0)
        os.fdatasync(file)
        assert time.monotonic() - began >= 0.5
        os.close(file)


def test_a_disk_that_fails_answers_nothing_and_can_be_replaced(
    folder: Path, fs: FileSystem
) -> None:
    lost = folder.parent / "lost"
    with open_device(folder, fs=fs, size_bytes=SIZE_BYTES[fs], log=False) as device:
        write_durably(device.path / "before", b"before" * 1000)
        assert device.answers
        device.fail()
        assert not device.answers
        with pytest.raises(OSError, match="Input/output error"):
            write_durably(device.path / "after", b"after" * 1000)
        device.replace(lost)
        assert device.answers
        assert list(device.path.iterdir()) == []
        write_durably(device.path / "new", b"new")
    point = folder.parent / "mnt"
    point.mkdir()
    mount_image(lost, point, fs)
    try:
        assert (point / "before").read_bytes() == b"before" * 1000
    finally:
        unmount_all(point, patience_s=5)


def test_a_server_lives_on_a_recorded_disk(
    folder: Path, open_dir: Path, installation_of: Callable[[int], Installation]
) -> None:
    """A commit that was answered is in the image that a cut right after it leaves."""
    installation = installation_of(15)
    with open_device(open_dir / "disk", fs="ext4", size_bytes=256 << 20, log=True) as device:

        class Places:
            data = device.path
            wal = None

            def close(self) -> None:
                device.close()

        cluster = Cluster.create(installation, {}, disks=lambda _: Places())
        with cluster, psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as conn:
            conn.execute("create table kept (id int)")
            device.start_recording()
            conn.execute("insert into kept select generate_series(1, 1000)")
            answered_ns = time.monotonic_ns()
            conn.execute("insert into kept select generate_series(1, 1000)")
            device.stop_recording()
    assert device.log is not None
    logs = DiskLogs([device.log])
    image, point = device.directory / "cut", device.directory / "cut-mnt"
    shutil.copyfile(device.base, image)
    logs.advance(0, image, answered_ns)
    point.mkdir()
    mount_image(image, point, "ext4")
    try:
        with (
            Cluster.create(installation, {}, source=point / "pgdata") as after,
            psycopg.connect(**after.conninfo.kwargs()) as conn,
        ):
            assert conn.execute("select count(*) from kept").fetchone() == (1000,)
    finally:
        unmount_all(point, patience_s=5)


def refused(folder: Path, fs: FileSystem = "ext4", size_bytes: int = 64 << 20) -> SetupError:
    with pytest.raises(SetupError) as raised:
        open_device(folder, fs=fs, size_bytes=size_bytes, log=False)
    return raised.value


def test_what_a_machine_lacks_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    too_small = refused(folder, "xfs")
    assert (too_small.code, "300MB" in too_small.message) == ("disk-size", True)
    too_large = refused(folder, size_bytes=1 << 60)
    assert too_large.code == "disk-space"
    assert "size=" in (too_large.hint or "")
    with monkeypatch.context() as patch:
        patch.setattr(mounting, "find_program", lambda name: None)
        missing = refused(folder)
        assert missing.code == "disk-program"
        assert "mkfs.ext4" in missing.message
        assert "e2fsprogs" in (missing.hint or "")
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, _: path != "/dev/fuse")
        no_fuse = refused(folder)
        assert (no_fuse.code, "/dev/fuse" in no_fuse.message) == ("disk-kernel", True)
        patch.setattr(os, "access", lambda path, _: path != "/dev/loop-control")
        no_loop = refused(folder)
        assert (no_loop.code, "/dev/loop-control" in no_loop.message) == ("disk-kernel", True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 1000)
        assert refused(folder).code == "disk-root"
    assert not folder.exists() or list(folder.iterdir()) == []


def test_a_daemon_that_cannot_mount_is_one_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdyno.disk._device._pace", lambda *_: {"flush_ms": -1.0})
    assert "flush_ms" in refused(folder).message
    assert list(folder.iterdir()) == []
