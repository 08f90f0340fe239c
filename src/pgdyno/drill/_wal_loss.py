"""Loss of the WAL's disk, and its proof.

:class:`DiskEmptied`: the server is killed or shut down, then the disk is emptied, like a RAM disk
whose machine went down. :class:`DiskFailed`: the disk answers every request with EIO from one
moment on, under a running server, like a drive or volume that has failed.
"""

from __future__ import annotations

import mmap
import os
import time
from abc import ABC, abstractmethod
from pathlib import Path

from msgspec import Struct

from pgdyno.disk import EmulatedDevice, mount_image, unmount_all
from pgdyno.disk.mounting import mounts_below
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill._evidence import NewLog, ended_in_words, processes, remaining_processes
from pgdyno.errors import UsageError
from pgdyno.record.cut import Facts, Proof
from pgdyno.server.directories import shared_directory
from pgdyno.server.local.controldata import ControlData
from pgdyno.server.local.safefiles import (
    as_server_account,
    as_server_account_in,
    copy_tree,
    remove_directory,
)

_WAL_FILE_CHARACTERS = 24
_BLOCK_BYTES = 4096
_PANIC_S_MAX = 30.0
"""Time limit for a server under load to notice that its WAL's disk has failed."""
_DOWN_S_MAX = 120.0
"""Time limit for it to give up after that; a start syncs the whole data directory first."""
_RESTARTS_MAX = 2
"""Number of restarts after which a server is taken to restart for ever."""
_REACHED_S = 0.3
"""Time for all clients to get the error."""
_POLL_S = 0.02
_BUSY_S_MAX = 10.0
_RESTARTED = "reinitializing"
_COULD_NOT = "LOG:  could not "
_LOG_WORDS = ("PANIC:", "FATAL:", _COULD_NOT, "redo starts", "redo done", _RESTARTED)
"""Words of the log lines that belong to the proof."""
_LINES_MAX = 8


class WalLoss(ABC):
    """A loss of the WAL's disk: ``inject``, ``inspect``, then ``replace_disk`` after the server
    is down."""

    def __init__(self, drill: LoadedServer) -> None:
        """Create it just before the loss."""
        self.drill = drill
        self.wal_dir = drill.cluster.wal_dir
        self.pids_before = [process.pid for process in processes(drill.cluster)]
        self.pids_left: list[int] = []
        self.cut_ns = 0

    @abstractmethod
    def inject(self) -> None:
        """Cause the loss, except in a sham, and set ``cut_ns`` to its time."""

    def inspect(self) -> None:
        """Look for remaining processes of the server."""
        self.pids_left = remaining_processes(self.drill.cluster, self.pids_before)

    @abstractmethod
    def replace_disk(self) -> Proof:
        """Put an empty disk in the place of the lost one; return the proof of the loss."""

    @property
    def lost_wal(self) -> Path | None:
        """A copy of the WAL on the lost disk, if it can be read; after ``replace_disk``."""
        return None

    def _sentence(self, wal: str, control: ControlData) -> str:
        seen = f"{ended_in_words(self.pids_before, self.pids_left)}; {wal}"
        return seen if self.pids_left else f'{seen}; the control file says "{control.state}"'

    def _common_facts(self, control: ControlData) -> Facts:
        return {
            "processes_before": len(self.pids_before),
            "processes_left": len(self.pids_left),
            "control_file": control.state,
        }


class DiskEmptied(WalLoss):
    """A loss before which the server's processes end: killed, or shut down."""

    def __init__(self, drill: LoadedServer, *, shut_down: bool) -> None:
        """``shut_down``: the server is shut down instead of killed."""
        super().__init__(drill)
        self._shut_down = shut_down

    def inject(self) -> None:
        """End the server."""
        self.cut_ns = time.monotonic_ns()
        if self._shut_down:
            self.drill.cluster.stop()
        elif not self.drill.options.sham:
            self.drill.cluster.kill()

    def replace_disk(self) -> Proof:
        """Remove all files; the directories remain, because a start needs them."""
        before = len(_wal_files(self.wal_dir))
        if not self.drill.options.sham:
            with as_server_account_in(self.wal_dir):
                for path in self.wal_dir.rglob("*"):
                    if path.is_file():
                        path.unlink()
        left = len(_wal_files(self.wal_dir))
        control = self.drill.cluster.control_data()
        ended = control.shut_down if self._shut_down else control.in_production
        happened = self.pids_before and not self.pids_left and before and not left and ended
        sentence = self._sentence(f"{left} of {before} WAL files are left", control)
        facts = {
            **self._common_facts(control),
            "wal_files_before": before,
            "wal_files_left": left,
        }
        return Proof(happened=bool(happened), sentence=sentence, facts=facts)


class _FailedDisk(Struct, frozen=True):
    """The state of a disk after its failure."""

    answers: bool
    readable_files: int
    file_system: str


class DiskFailed(WalLoss):
    """A failure of the disk under a running server."""

    def __init__(self, drill: LoadedServer) -> None:
        """Raise UsageError if the WAL is not on a disk that pgdyno can make fail."""
        super().__init__(drill)
        self._device = _device(drill)
        self._files = _wal_files(self.wal_dir)
        with as_server_account_in(self.wal_dir):
            self._directories = [path for path in sorted(self.wal_dir.rglob("*")) if path.is_dir()]
        self._log = NewLog(drill.cluster)
        self.gave_up = False
        """True if the server went down by itself and stayed down."""

    def inject(self) -> None:
        """Make the disk fail, and wait until the server has noticed."""
        if not self.drill.options.sham:
            self._device.fail()
        self.cut_ns = time.monotonic_ns()
        deadline = time.monotonic() + (0.0 if self.drill.options.sham else _PANIC_S_MAX)
        while not self._log.line_with("PANIC:") and time.monotonic() < deadline:
            self.drill.session.wait(_POLL_S)
        self.drill.session.wait(_REACHED_S)

    def inspect(self) -> None:
        """Wait until the server gives up; kill it if it does not."""
        cluster, sham = self.drill.cluster, self.drill.options.sham
        deadline = time.monotonic() + (0.0 if sham else _DOWN_S_MAX)
        while processes(cluster) and time.monotonic() < deadline:
            if self._restarts() >= _RESTARTS_MAX:
                break
            self.drill.session.wait(_POLL_S)
        self.gave_up = not processes(cluster)
        postmaster = cluster.pid
        remaining = remaining_processes(cluster, self.pids_before)
        self.pids_left = [pid for pid in remaining if pid != postmaster]
        if not sham:
            cluster.kill()

    def _restarts(self) -> int:
        return self._log.text().count(_RESTARTED)

    def replace_disk(self) -> Proof:
        """Remove the disk, keep a copy of its WAL, and create another disk in its place."""
        failed_disk = self._failed_disk()
        image, mount_point = self.drill.directory / "lost-image", self.drill.directory / "lost-mnt"
        self._device.replace(image)
        with as_server_account_in(self.wal_dir):
            for directory in (self.wal_dir, *self._directories):
                directory.mkdir(mode=0o700)
        remove_directory(self.lost_wal)
        shared_directory(mount_point)
        mount_image(image, mount_point, self._device.fs)
        try:
            copy_tree(mount_point / self.wal_dir.name, self.lost_wal)
        finally:
            unmount_all(mount_point, patience_s=_BUSY_S_MAX)
            image.unlink()
        return self._proof(failed_disk)

    @property
    def lost_wal(self) -> Path:
        """A copy of the WAL that was on the disk when it failed."""
        return self.drill.directory / "lost-wal"

    def _failed_disk(self) -> _FailedDisk:
        mounts = mounts_below(self._device.path)
        return _FailedDisk(
            answers=self._device.answers,
            readable_files=sum(_readable(path) for path in self._files),
            file_system=", ".join(f"{mount.fs} {mount.options}" for mount in mounts),
        )

    def _proof(self, disk: _FailedDisk) -> Proof:
        panic = self._log.line_with("PANIC:")
        before, readable = len(self._files), disk.readable_files
        control = self.drill.cluster.control_data()
        down = self.pids_before and not self.pids_left and not control.shut_down
        happened = bool(down and panic and before and not readable and not disk.answers)
        wal = "the WAL's disk still answers"
        if not disk.answers:
            wal = f"{readable} of {before} WAL files can be read"
        sentence = self._sentence(wal, control)
        if happened:
            sentence = f'the server logged "PANIC: {panic}" and {self._afterwards()}; {sentence}'
        facts = {
            **self._common_facts(control),
            "wal_files_before": before,
            "wal_files_readable": readable,
            "disk_answers": disk.answers,
            "file_system": disk.file_system,
            "restarts": self._restarts(),
            "gave_up": self.gave_up,
            "log": self._log_lines(),
        }
        return Proof(happened=happened, sentence=sentence, facts=facts)

    def _afterwards(self) -> str:
        """Return the server's reaction to its PANIC, in words."""
        restarts = self._restarts()
        if not restarts:
            return "went down"
        how = "repeatedly" if restarts > 1 else "once"
        redone = "redo done" in self._log.text()
        redo = ", with redo of WAL that only memory still had" if redone else ""
        return f"restarted {how}{redo}"

    def _log_lines(self) -> list[str]:
        """Return the log lines on the failure: why the server went down, and its restarts.

        Of the lines on what it could not do, one for each WAL file, only the first is included.
        """
        found: dict[str, None] = {}
        for line in self._log.text().splitlines():
            words = next((words for words in _LOG_WORDS if words in line), "")
            repeated = any(_COULD_NOT in each for each in found) and words == _COULD_NOT
            if words and not repeated and "the database system is" not in line:
                found[line.partition("] ")[2] or line] = None
        return list(found)[:_LINES_MAX]


def _device(drill: LoadedServer) -> EmulatedDevice:
    disks, text = drill.session.target.disks, drill.session.spec.disk.wal
    device = disks.device(text) if disks is not None else None
    if device is None:
        raise UsageError(f"disk.wal is {text}, which pgdyno cannot make fail", code="bad-disk")
    return device


def _wal_files(wal_dir: Path) -> list[Path]:
    with as_server_account_in(wal_dir):
        return sorted(path for path in wal_dir.iterdir() if len(path.name) == _WAL_FILE_CHARACTERS)


def _readable(path: Path) -> bool:
    """True if the first block of a file can be read from the disk, not from memory."""
    try:
        with as_server_account():
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        # O_DIRECT requires an aligned buffer.
        with mmap.mmap(-1, _BLOCK_BYTES) as block:
            return os.preadv(descriptor, [block], 0) > 0
    except OSError:
        return False
    finally:
        os.close(descriptor)
