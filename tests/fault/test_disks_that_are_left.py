"""Disks whose pgdyno or daemon was killed in any phase: nothing stays mounted or attached."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from patience import wait_until
from pgdyno.disk import (  # fmt: skip
    _cleanup,
    _device,
    clean_up_if_killed,
    dismantle,
    mounting,
    open_device,
)
from pgdyno.errors import RunError, SetupError
from pgdyno.server.local.sweep import is_served
from pgdyno.server.locks import try_lock

OWNER = Path(__file__).with_name("disk_owner.py")
PHASES = ("daemon", "mounted", "recording", "failed")


def _missing() -> str | None:
    if os.geteuid() != 0:
        return "only root may mount disks"
    gone = [it for it in ("/dev/fuse", "/dev/loop-control") if not Path(it).exists()]
    return f"this system has no {gone[0]}" if gone else None


pytestmark = pytest.mark.skipif(_missing() is not None, reason=_missing() or "")


def remains(folder: Path) -> list[object]:
    """Whatever is still mounted, attached or running."""
    return [
        *mounting.mounts_below(folder),
        *mounting.loops_below(folder),
        *_cleanup._daemons(folder),
    ]


def wait_until_clear(folder: Path) -> None:
    wait_until(lambda: not remains(folder), lambda: f"clear of {remains(folder)}")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "a disk"
    yield path
    try:
        wait_until_clear(path)  # The kernel detaches a loop device a moment after its unmount.
    finally:
        dismantle(path)


@pytest.fixture
def owner(folder: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []

    def begin(phase: str) -> subprocess.Popen[str]:
        command = [sys.executable, OWNER, folder, phase]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        return process

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


Begin = Callable[[str], "subprocess.Popen[str]"]


@pytest.mark.parametrize("phase", PHASES)
def test_a_killed_owner_s_disk_takes_itself_away(owner: Begin, folder: Path, phase: str) -> None:
    process = owner(phase)
    assert remains(folder)
    process.kill()
    wait_until_clear(folder)


@pytest.mark.parametrize("phase", PHASES)
def test_what_is_left_when_the_daemon_is_killed_too_is_swept(
    owner: Begin, folder: Path, phase: str
) -> None:
    process = owner(phase)
    (daemon,) = _cleanup._daemons(folder)
    os.kill(daemon, signal.SIGKILL)
    process.kill()
    said = dismantle(folder)
    assert any("unmounted" in sentence for sentence in said)
    wait_until_clear(folder)
    assert dismantle(folder) == []


def test_a_sweep_and_the_daemon_s_own_end_may_meet(owner: Begin, folder: Path) -> None:
    owner("recording").kill()
    dismantle(folder)
    wait_until_clear(folder)


def test_a_daemon_that_stands_still_is_cut_off(
    owner: Begin, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cleanup, "STUCK_DEAD_S", 0.3)
    monkeypatch.setattr(_cleanup, "_END_S_MAX", 0.3)
    process = owner("recording")
    (daemon,) = _cleanup._daemons(folder)
    os.kill(daemon, signal.SIGSTOP)
    process.kill()
    assert len([each for each in dismantle(folder) if str(daemon) in each.split()]) == 1
    wait_until_clear(folder)  # A process that was killed is there for a moment.


def test_an_owner_does_not_wait_for_a_daemon_that_stands_still(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_ANSWER_S_MAX", "STUCK_DEAD_S"):
        monkeypatch.setattr(_device, name, 0.3)
    disk = open_device(folder, fs="ext4", size_bytes=64 << 20, log=True)
    (disk.path / "file").write_bytes(b"x" * (8 << 20))
    (daemon,) = _cleanup._daemons(folder)
    os.kill(daemon, signal.SIGSTOP)
    with pytest.raises(RunError, match="does not answer"):
        disk.fail()
    disk.close()
    wait_until_clear(folder)


def test_a_disk_in_use_goes_with_its_last_user(
    owner: Begin, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cleanup, "_PATIENCE_S", 0.1)
    monkeypatch.setattr(_cleanup, "_END_S_MAX", 0.0)
    process = owner("recording")
    with (folder / "mnt" / "file").open("rb") as used:
        process.kill()
        said = dismantle(folder)
        assert any("still in use" in sentence for sentence in said)
        assert mounting.mounts_below(folder) == []
        with suppress(OSError):  # its disk may be gone already
            used.read(1)
    wait_until_clear(folder)


def test_the_owner_hears_that_its_daemon_is_gone(folder: Path) -> None:
    disk = open_device(folder, fs="ext4", size_bytes=64 << 20, log=True)
    (daemon,) = _cleanup._daemons(folder)
    os.kill(daemon, signal.SIGKILL)
    with pytest.raises(RunError, match="daemon has ended: it was killed"):
        disk.stop_recording()
    disk.close()
    disk.close()


def test_a_disk_that_cannot_be_mounted_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise SetupError("no loop device today", code="disk-setup")

    monkeypatch.setattr("pgdyno.disk._device.mount_image", refuse)
    with pytest.raises(SetupError, match="no loop device today"):
        open_device(folder, fs="ext4", size_bytes=64 << 20, log=False)
    assert list(folder.iterdir()) == []


def test_a_cleanup_process_that_was_killed_is_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cleanup, "_processes", [])
    clean_up_if_killed(folder)
    (first,) = _cleanup._processes
    first.kill()
    first.wait()
    clean_up_if_killed(folder)
    (second,) = _cleanup._processes
    assert second.poll() is None
    second.communicate()  # closes its input: there is nothing in the folder, and it ends


RUN = ("run", "tpcb-like", "-c", "2", "--think", "20ms", "-T", "300", "-q", "--wal-disk")
SLOW = "slow:flush=1ms,size=512MB"


def _is_mounted(home: Path) -> bool:
    return bool(mounting.mounts_below(home))


def _is_served(home: Path) -> bool:
    return any("transaction" in path.read_text() or "ready" in path.read_text()
               for path in home.glob("clusters/*/server.log"))  # fmt: skip


def _is_cut(home: Path) -> bool:
    """Whether what a power cut has left is mounted: an image that no daemon serves."""
    points = {it.point for it in mounting.mounts_below(home)}
    return any(
        str(path) in points and not (path.parent / "fuse").exists()
        for path in home.glob("clusters/*/disks/*/mnt")
    )


def has_come(moment: Callable[[Path], bool], home: Path, process: subprocess.Popen[str]) -> bool:
    assert process.poll() is None, process.communicate()[1]
    return moment(home)


@pytest.mark.server
@pytest.mark.parametrize(
    ("words", "moment"),
    [
        pytest.param((*RUN, "tmpfs:128MB"), _is_mounted, marks=pytest.mark.long),
        ((*RUN, "tmpfs:128MB"), _is_served),
        ((*RUN, SLOW), _is_mounted),
        ((*RUN, SLOW), _is_served),
        pytest.param(
            ("drill", "--fault", "power", "-s", "1", "-c", "2", "--cuts", "200", "-q"),
            _is_cut,
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_command_that_is_killed_leaves_nothing_mounted(
    words: tuple[str, ...], moment: Callable[[Path], bool], open_dir: Path, tmp_path: Path
) -> None:
    """Its whole group is killed, and the daemons of its disks too; no pgdyno starts later."""
    home = open_dir / "home"
    process = subprocess.Popen(
        [sys.executable, "-m", "pgdyno", *words],
        cwd=tmp_path, env={**os.environ, "PGDYNO_HOME": str(home)}, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_until(lambda: has_come(moment, home, process), "the moment comes")
    finally:
        for pid in _cleanup._daemons(home):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    wait_until_clear(home)
    clusters = [*home.glob("clusters/*/")]
    wait_until(lambda: not any(map(is_served, clusters)), "no server is left")


def test_the_disks_of_another_are_not_touched(owner: Begin, folder: Path) -> None:
    """A directory whose lock is held is in use, even if the cleanup process has its path."""
    process = owner("mounted")
    lock = try_lock(folder / "lock")
    assert lock is not None
    before = mounting.mounts_below(folder)
    command = [sys.executable, "-m", "pgdyno.disk", "--dead", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    assert mounting.mounts_below(folder) == before != []
    os.close(lock)
    process.kill()
    wait_until_clear(folder)
