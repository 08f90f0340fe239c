"""Opens the disks of a spec for one cluster, and those that a change brings in later.

All lie in ``disks/`` of the cluster's folder, so that a sweep finds what a crash left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pgdyno.disk._device import Device
from pgdyno.disk._imaged import ImagedDisk, open_imaged
from pgdyno.disk._keeping import keep_watch
from pgdyno.disk._leftovers import end_leftovers
from pgdyno.disk._model import Disk
from pgdyno.disk._plain import open_plain, remove_elsewhere
from pgdyno.disk._tmpfs import default_size_bytes, open_tmpfs
from pgdyno.errors import PgdynoError, RunError
from pgdyno.spec.disk import DiskPlan, wal_plan
from pgdyno.spec.model import DiskSpec


def open_disk(plan: DiskPlan, folder: Path) -> Disk:
    """Open the disk that ``plan`` tells, with what it needs in ``folder``.

    Raises :class:`SetupError` for what the machine lacks, :class:`UsageError` for a plan that does
    not fit it.
    """
    match plan.kind:
        case "plain":
            return open_plain(plan, folder)
        case "tmpfs":
            return open_tmpfs(plan, folder)
        case "slow" | "blackout":
            return open_imaged(plan, folder)


class OpenPlaces:
    """The disks of one cluster, and where on them its data and WAL go (``server.Places``)."""

    def __init__(self, spec: DiskSpec, folder: Path) -> None:
        """Opens the spec's disks in ``folder/disks``."""
        self._folder = folder / "disks"
        self._by_text: dict[str, Disk] = {}
        self._disks: list[Disk] = []
        self.notes: list[str] = []
        """What was chosen without being asked for, a sentence each."""
        self.data: Path | None = None
        self.wal: Path | None = None
        try:
            if spec.data_plan != DiskPlan("plain"):
                self.data = self._open(spec.data_plan, "data").path
            self.wal = self.wal_place(spec.wal)
        except BaseException:
            self.close()
            raise

    def wal_place(self, text: str) -> Path | None:
        """The folder for the WAL on the disk that ``text`` names, which stays open from then on.

        ``None``: with the data.
        """
        plan = wal_plan(text)
        if plan is None:
            return None
        if text not in self._by_text:
            count = len(self._by_text)
            self._by_text[text] = self._open(plan, f"wal-{count + 1}" if count else "wal")
        return self._by_text[text].path

    def device(self, text: str) -> Device | None:
        """The open disk of pgdyno's own that ``text`` names; ``None``: it is of another kind."""
        disk = self._by_text.get(text)
        return disk.device if isinstance(disk, ImagedDisk) else None

    @property
    def recorded(self) -> list[Device]:
        """The disks that can be recorded, that of the data first."""
        disks = [disk for disk in self._disks if isinstance(disk, ImagedDisk)]
        return [disk.device for disk in disks if disk.device.log is not None]

    def check(self) -> None:
        """Raise RunError when the process that serves one of the disks has ended."""
        for disk in self._disks:
            if isinstance(disk, ImagedDisk) and disk.device.abandoned:
                raise RunError(
                    f"the process that serves {disk.emulated} has ended, so that the server has"
                    " lost its disk",
                    code="disk-daemon",
                    hint="the kernel's log tells of processes that were killed for want of memory",
                )

    def close(self) -> None:
        """Close all disks, the last opened first; then raise what went wrong first."""
        problems = []
        while self._disks:
            try:
                self._disks.pop().close()
            except PgdynoError as problem:
                problems.append(problem)
        # What an interruption left half-open is on no list.
        dismantle(self._folder.parent)
        if problems:
            raise problems[0]

    def _open(self, plan: DiskPlan, role: str) -> Disk:
        if plan.kind == "tmpfs" and plan.size_bytes is None:
            plan = replace(plan, size_bytes=default_size_bytes())
            what = "data" if role == "data" else "WAL"
            self.notes.append(f"{what} on {plan}, half of the memory that is available")
        if plan.kind != "plain":
            keep_watch(self._folder.parent)
        disk = open_disk(plan, self._folder / role)
        self._disks.append(disk)
        return disk


def open_places(spec: DiskSpec) -> Callable[[Path], OpenPlaces]:
    """What ``Cluster.create`` takes as ``disks``."""
    return lambda folder: OpenPlaces(spec, folder)


def dismantle(folder: Path) -> list[str]:
    """Give back what the disks of a dead cluster hold; a sentence for each thing done."""
    return [*end_leftovers(folder), *remove_elsewhere(folder)]
