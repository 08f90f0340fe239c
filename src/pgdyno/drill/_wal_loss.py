"""How the WAL's disk is lost, and what shows that it was.

A :class:`DiskEmptied` had its server killed, or shut down, before it was emptied: a RAM disk whose
machine went down. A :class:`DiskFailed` answers every request with EIO from one moment on, under a
server that runs: a drive or a volume that is gone.
"""

from __future__ import annotations

import mmap
import os
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from pgdyno.disk import Device, mount_image, unmount_all
from pgdyno.disk.mounting import mounts_below
from pgdyno.drill._drill import Drill
from pgdyno.drill._evidence import Said, processes, still_there
from pgdyno.drill.model import Proof
from pgdyno.errors import UsageError
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
"""How long a server under load may take to notice that its WAL's disk has failed."""
_DOWN_S_MAX = 120.0
"""How long it may then take to give up; a start syncs the whole data directory first."""
_RESTARTS_MAX = 2
"""A server that starts itself again so often does so for ever."""
_REACHED_S = 0.3
"""Until all clients have met the error."""
_LOOK_S = 0.02
_BUSY_S_MAX = 10.0
_RESTARTED = "reinitializing"
_COULD_NOT = "LOG:  could not "
_TOLD = ("PANIC:", "FATAL:", _COULD_NOT, "redo starts", "redo done", _RESTARTED)
_LINES_MAX = 8


class WalLoss(ABC):
    """One loss of the WAL's disk: ``strike``, ``look``, and ``clear`` once the server is down."""

    def __init__(self, drill: Drill) -> None:
        """To be made just before the loss."""
        self.drill = drill
        self.folder = drill.cluster.wal_dir
        self.before = [process.pid for process in processes(drill.cluster)]
        self.left: list[int] = []
        self.cut_ns = 0

    @abstractmethod
    def strike(self) -> None:
        """Do it, unless this is a sham; ``cut_ns`` is when it was done."""

    def look(self) -> None:
        """See which of the server's processes are still there."""
        self.left = still_there(self.drill.cluster, self.before)

    @abstractmethod
    def clear(self) -> Proof:
        """Have an empty disk in the place of the lost one, and say what showed the loss."""

    @property
    def held(self) -> Path | None:
        """A copy of the WAL that was on the disk, where that can be had; once it is cleared."""
        return None

    def _sentence(self, wal: str, control: ControlData) -> str:
        there = f"{len(self.before)} server processes"
        if self.left:
            return f"of {there} {len(self.left)} are still there; {wal}"
        return f'{there} are gone; {wal}; the control file says "{control.state}"'

    def _counted(self, control: ControlData) -> dict[str, object]:
        return {
            "processes_before": len(self.before),
            "processes_left": len(self.left),
            "control_file": control.state,
        }


class DiskEmptied(WalLoss):
    """The server's processes end first: killed, or shut down in order."""

    def __init__(self, drill: Drill, *, in_order: bool) -> None:
        """``in_order``: shut down, and not killed."""
        super().__init__(drill)
        self._in_order = in_order

    def strike(self) -> None:
        """End the server."""
        self.cut_ns = time.monotonic_ns()
        if self._in_order:
            self.drill.cluster.stop()
        elif not self.drill.options.sham:
            self.drill.cluster.kill()

    def clear(self) -> Proof:
        """All files go; the folders that a start wants are there, as on a disk made anew."""
        had = len(_wal_files(self.folder))
        if not self.drill.options.sham:
            with as_server_account_in(self.folder):
                for path in self.folder.rglob("*"):
                    if path.is_file():
                        path.unlink()
        has = len(_wal_files(self.folder))
        control = self.drill.cluster.control_data()
        ended = control.shut_down if self._in_order else control.in_production
        happened = self.before and not self.left and had and not has and ended
        sentence = self._sentence(f"{had} WAL files were there, and {has} are left", control)
        facts = {**self._counted(control), "wal_files_before": had, "wal_files_left": has}
        return Proof(bool(happened), sentence, facts)


@dataclass(frozen=True)
class _Remains:
    """What a failed disk still shows."""

    answers: bool
    readable: int
    file_system: str


class DiskFailed(WalLoss):
    """The disk fails, and the server has to see to it."""

    def __init__(self, drill: Drill) -> None:
        """The WAL has to be on a disk of pgdyno's own; UsageError otherwise."""
        super().__init__(drill)
        self._device = _device(drill)
        self._files = _wal_files(self.folder)
        with as_server_account_in(self.folder):
            self._folders = [path for path in sorted(self.folder.rglob("*")) if path.is_dir()]
        self._said = Said(drill.cluster)
        self.gave_up = False
        """Whether the server went down for good by itself."""

    def strike(self) -> None:
        """Have the disk fail, and wait until the server has seen it."""
        if not self.drill.options.sham:
            self._device.fail()
        self.cut_ns = time.monotonic_ns()
        deadline = time.monotonic() + (0.0 if self.drill.options.sham else _PANIC_S_MAX)
        while not self._said.line_with("PANIC:") and time.monotonic() < deadline:
            self.drill.session.wait(_LOOK_S)
        self.drill.session.wait(_REACHED_S)

    def look(self) -> None:
        """Wait until the server gives up, and end one that does not."""
        cluster, sham = self.drill.cluster, self.drill.options.sham
        deadline = time.monotonic() + (0.0 if sham else _DOWN_S_MAX)
        while processes(cluster) and time.monotonic() < deadline:
            if self._restarts() >= _RESTARTS_MAX:
                break
            self.drill.session.wait(_LOOK_S)
        self.gave_up = not processes(cluster)
        postmaster = cluster.pid
        self.left = [pid for pid in still_there(cluster, self.before) if pid != postmaster]
        if not sham:
            cluster.kill()

    def _restarts(self) -> int:
        return self._said.text().count(_RESTARTED)

    def clear(self) -> Proof:
        """Take the disk away, keep what it held, and put another one there."""
        remains = self._remains()
        image, lost = self.drill.folder / "lost-image", self.drill.folder / "lost-mnt"
        self._device.replace(image)
        with as_server_account_in(self.folder):
            for folder in (self.folder, *self._folders):
                folder.mkdir(mode=0o700)
        remove_directory(self.held)
        shared_directory(lost)
        mount_image(image, lost, self._device.fs)
        try:
            copy_tree(lost / self.folder.name, self.held)
        finally:
            unmount_all(lost, patience_s=_BUSY_S_MAX)
            image.unlink()
        return self._proof(remains)

    @property
    def held(self) -> Path:
        """What the disk had taken when it failed."""
        return self.drill.folder / "lost-wal"

    def _remains(self) -> _Remains:
        mounts = mounts_below(self._device.path)
        return _Remains(
            answers=self._device.answers,
            readable=sum(_readable(path) for path in self._files),
            file_system=", ".join(f"{mount.fs} {mount.options}" for mount in mounts),
        )

    def _proof(self, remains: _Remains) -> Proof:
        panic = self._said.line_with("PANIC:")
        had, has = len(self._files), remains.readable
        control = self.drill.cluster.control_data()
        down = self.before and not self.left and not control.shut_down
        happened = bool(down and panic and had and not has and not remains.answers)
        disk = "the WAL's disk still answers"
        if not remains.answers:
            disk = f"of {had} WAL files {has or 'none'} can be read"
        sentence = self._sentence(disk, control)
        if happened:
            sentence = f'the server said "PANIC: {panic}" and {self._afterwards()}; {sentence}'
        facts = {
            **self._counted(control),
            "wal_files_before": had,
            "wal_files_readable": has,
            "disk_answers": remains.answers,
            "file_system": remains.file_system,
            "restarts": self._restarts(),
            "gave_up": self.gave_up,
            "log": self._log(),
        }
        return Proof(happened, sentence, facts)

    def _afterwards(self) -> str:
        """What the server did after its PANIC."""
        if not self._restarts():
            return "went down"
        how = "over and over" if self._restarts() > 1 else "once more"
        redone = "redo done" in self._said.text()
        redo = ", redoing WAL that only memory still had" if redone else ""
        return f"started itself {how}{redo}"

    def _log(self) -> list[str]:
        """What the server said of it: why it went down, what it could not do, how it tried again.

        Of what it could not do, in each file of the WAL, the first will do.
        """
        found: dict[str, None] = {}
        for line in self._said.text().splitlines():
            told = next((words for words in _TOLD if words in line), "")
            seen = any(_COULD_NOT in each for each in found) and told == _COULD_NOT
            if told and not seen and "the database system is" not in line:
                found[line.partition("] ")[2] or line] = None
        return list(found)[:_LINES_MAX]


def _device(drill: Drill) -> Device:
    places, text = drill.session.target.disks, drill.session.spec.disk.wal
    device = places.device(text) if places is not None else None
    if device is None:
        raise UsageError(f"disk.wal is {text}, which pgdyno cannot make fail", code="bad-disk")
    return device


def _wal_files(folder: Path) -> list[Path]:
    with as_server_account_in(folder):
        return sorted(path for path in folder.iterdir() if len(path.name) == _WAL_FILE_CHARACTERS)


def _readable(path: Path) -> bool:
    """Whether the disk gives a file's first block; what memory has of it does not count."""
    try:
        with as_server_account():
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        # O_DIRECT wants a buffer that is aligned.
        with mmap.mmap(-1, _BLOCK_BYTES) as block:
            return os.preadv(descriptor, [block], 0) > 0
    except OSError:
        return False
    finally:
        os.close(descriptor)
