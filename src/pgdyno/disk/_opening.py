"""Opens the disks of a spec for one cluster, and those that a change adds later.

All are in ``disks/`` of the cluster's directory, so that a sweep finds those left by a crash. A
:class:`Disk` of any kind has a directory for files, and says whether it is emulated.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from pgdyno.disk._cleanup import clean_up_if_killed, end_leftovers
from pgdyno.disk._device import EmulatedDevice, ImagedDisk, open_imaged
from pgdyno.disk._loop import LoopDisk, open_loop
from pgdyno.disk._plain import open_plain, remove_elsewhere
from pgdyno.disk._tmpfs import default_size_bytes, open_tmpfs
from pgdyno.disk._xfs import XfsDisk, open_xfs
from pgdyno.errors import PgdynoError, RunError
from pgdyno.spec.disk import DiskKind, DiskPlan, disk_plan, wal_plan
from pgdyno.spec.model import DiskSpec


class Disk(Protocol):
    """An open disk. The account that runs servers may write to ``path``."""

    @property
    def kind(self) -> DiskKind:
        """The requested kind."""

    @property
    def path(self) -> Path:
        """The directory on it for files."""

    @property
    def emulated(self) -> str | None:
        """A sentence to show with speeds measured on it; ``None`` for a real disk."""

    def close(self) -> None:
        """Remove the disk with its data. No process may use it any more."""


def open_disk(plan: DiskPlan, directory: Path) -> Disk:
    """Open the disk of ``plan``, with its files in ``directory``.

    Raises :class:`SetupError` for what the machine lacks, :class:`UsageError` for a plan that is
    not possible on it.
    """
    match plan.kind:
        case "plain":
            return open_plain(plan, directory)
        case "tmpfs":
            return open_tmpfs(plan, directory)
        case "xfs":
            return open_xfs(plan, directory)
        case "loop":
            return open_loop(plan, directory)
        case "slow" | "blackout":
            return open_imaged(plan, directory)


class OpenDisks:
    """The open disks of one cluster, and the directories on them for its data and WAL."""

    def __init__(self, spec: DiskSpec, directory: Path) -> None:
        """Open the spec's disks in ``directory/disks``."""
        self._directory = directory / "disks"
        self._by_text: dict[str, Disk] = {}
        self._disks: list[Disk] = []
        self.notes: list[str] = []
        """A sentence for each default that was chosen."""
        self.data: Path | None = None
        self.wal: Path | None = None
        try:
            if spec.data_plan != DiskPlan("plain"):
                self.data = self._open(spec.data_plan, "data").path
            self.wal = self.wal_directory(spec.wal)
        except BaseException:
            self.close()
            raise

    def wal_directory(self, text: str) -> Path | None:
        """Return the directory for the WAL on the disk ``text``, which is opened and remains open.

        ``None``: with the data.
        """
        plan = wal_plan(text)
        if plan is None:
            return None
        if text not in self._by_text:
            count = len(self._by_text)
            self._by_text[text] = self._open(plan, f"wal-{count + 1}" if count else "wal")
        return self._by_text[text].path

    def become(self, text: str) -> None:
        """Have the disk of the data, on a loop device, become the disk ``text`` with the same
        files, while the server is down."""
        (disk,) = (each for each in self._disks if each.path == self.data)
        assert isinstance(disk, LoopDisk)
        disk.become(disk_plan(text))

    def device(self, text: str) -> EmulatedDevice | None:
        """Return the open emulated disk ``text``; ``None`` for a disk of another kind."""
        disk = self._by_text.get(text)
        return disk.device if isinstance(disk, ImagedDisk) else None

    @property
    def copies(self) -> Path | None:
        """A directory of pgdyno for copies of the data, which share their blocks; None without a
        disk that can do that."""
        found = [disk for disk in self._disks if isinstance(disk, XfsDisk)]
        return found[0].copies if found and found[0].path == self.data else None

    @property
    def recorded(self) -> list[EmulatedDevice]:
        """The disks that can be recorded, the disk of the data first."""
        disks = [disk for disk in self._disks if isinstance(disk, ImagedDisk)]
        return [disk.device for disk in disks if disk.device.log is not None]

    def check(self) -> None:
        """Raise RunError when the process that serves one of the disks has ended."""
        for disk in self._disks:
            if isinstance(disk, ImagedDisk) and disk.device.abandoned:
                raise RunError(
                    f"the process that serves {disk.emulated} has ended, so the server has lost its"
                    " disk",
                    code="disk-daemon",
                    hint="check the kernel's log for processes killed by the out-of-memory killer",
                )

    def close(self) -> None:
        """Close all disks, the last opened first; then raise the first error."""
        problems = []
        while self._disks:
            try:
                self._disks.pop().close()
            except PgdynoError as problem:
                problems.append(problem)
        # A disk that was being opened at an interruption is not in the list.
        dismantle(self._directory.parent)
        if problems:
            raise problems[0]

    def _open(self, plan: DiskPlan, role: str) -> Disk:
        if plan.kind == "tmpfs" and plan.size_bytes is None:
            plan = replace(plan, size_bytes=default_size_bytes())
            what = "data" if role == "data" else "WAL"
            self.notes.append(f"{what} on {plan}, half of the available memory")
        if plan.kind != "plain":
            clean_up_if_killed(self._directory.parent)
        disk = open_disk(plan, self._directory / role)
        self._disks.append(disk)
        return disk


def open_disks(spec: DiskSpec) -> Callable[[Path], OpenDisks]:
    """Return a function that opens the disks of ``spec``, for ``Cluster.create``."""
    return lambda directory: OpenDisks(spec, directory)


def dismantle(directory: Path) -> list[str]:
    """Remove the disks of a cluster that has ended; return a sentence for each action."""
    return [*end_leftovers(directory), *remove_elsewhere(directory)]
