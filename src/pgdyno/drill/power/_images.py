"""Disk images of one recorded load: advanced to a time, copied, cut, mounted.

All are below one directory, which the sweep of a later start removes after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.disk import FileSystem, clean_up_if_killed, mount_image, unmount_all
from pgdyno.disk.mounting import run_program
from pgdyno.drill.power._location import Names
from pgdyno.errors import SetupError
from pgdyno.server.directories import shared_directory
from pgdyno.server.local.safefiles import remove_own_directory

if TYPE_CHECKING:
    from pgdyno._engine import Cut, DiskLogs
    from pgdyno.record import AckLedger


_ROLES = ("data", "wal")
_PATIENCE_S = 10.0
# XFS does not mount two file systems with the same UUID, such as that of the load and its copy.
_OPTIONS: dict[FileSystem, tuple[str, ...]] = {"ext4": (), "xfs": ("nouuid",)}


class FileSystemBroken(SetupError):
    """A disk after a cut cannot be mounted."""


class Recorded(Struct, frozen=True):
    """The recordings of the disks of one load."""

    logs: DiskLogs
    bases: Sequence[Path]
    """The image of each disk at the start of the recording, that of the data first."""
    fs: Sequence[FileSystem]


class RollingImages:
    """The images of all disks, with the durable content at a time that only advances."""

    def __init__(self, recorded: Recorded, directory: Path) -> None:
        """Copy the base images to ``directory``, which must exist."""
        self._recorded = recorded
        self._images = [directory / f"roll-{number}" for number in range(len(recorded.bases))]
        for base, image in zip(recorded.bases, self._images, strict=True):
            copy_sparse(base, image)

    def advance(self, at_ns: int) -> None:
        """Apply all writes that were durable at ``at_ns``."""
        for disk, image in enumerate(self._images):
            self._recorded.logs.advance(disk, image, at_ns)

    def disks_after(self, cut: Cut) -> Callable[[Path], CutDisks]:
        """Return a function that mounts the disks after ``cut``, for ``Cluster.create``."""
        fs = self._recorded.fs
        return lambda directory: CutDisks(directory / "disks", self._images, fs, cut)


class CutDisks:
    """The mounted disks after a power cut, for data and WAL of a cluster."""

    def __init__(
        self, directory: Path, images: Sequence[Path], fs: Sequence[FileSystem], cut: Cut
    ) -> None:
        """Copy the images, apply the cut, and mount them. FileSystemBroken if mounting fails."""
        self._directory = directory
        directories = [directory / role for role, _ in zip(_ROLES, images, strict=False)]
        self.data = directories[0] / "mnt"
        self.wal = directories[1] / "mnt" if len(directories) > 1 else None
        clean_up_if_killed(directory.parent)
        try:
            for disk, own in enumerate(directories):
                shared_directory(own / "mnt")
                copy_sparse(images[disk], own / "image")
                cut.write(disk, own / "image")
                _mount(own / "image", own / "mnt", fs[disk])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unmount the disks, and remove their images."""
        unmount_all(self._directory, patience_s=_PATIENCE_S)
        remove_own_directory(self._directory)


def _mount(image: Path, point: Path, fs: FileSystem) -> None:
    try:
        mount_image(image, point, fs, _OPTIONS[fs])
    except SetupError as error:
        if "loop device" in error.message:
            raise
        raise FileSystemBroken(error.message, code="file-system-broken") from error


def copy_sparse(image: Path, target: Path) -> None:
    """Copy a sparse file, with shared blocks if the file system supports them."""
    run_program(
        ["cp", "--reflink=auto", "--sparse=auto", image, target],
        f"copy the image of a disk to {target}",
    )


class RecordedLoad(Struct, frozen=True):
    """Recordings of the disks, ack ledger and names of relations of one load."""

    disks: Recorded
    acks: AckLedger
    names: Names
    marks_ns: Sequence[int]
    """Starts and ends of checkpoints."""

    @property
    def last_ns(self) -> int:
        """The last time that the recordings of all disks include."""
        return min(disk["last_ns"] for disk in self.disks.logs.facts())
