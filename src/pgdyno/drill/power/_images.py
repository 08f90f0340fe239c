"""Disk images of one recording: rolled forward to a time, copied, cut, mounted.

Everything lies below one folder, which the sweep of a later start dismantles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.disk import FileSystem, clean_up_if_killed, mount_image, unmount_all
from pgdyno.disk.mounting import run_program
from pgdyno.errors import SetupError
from pgdyno.server.directories import shared_directory
from pgdyno.server.local.safefiles import remove_own_directory

if TYPE_CHECKING:
    from pgdyno._engine import Cut, DiskLogs

_ROLES = ("data", "wal")
_PATIENCE_S = 10.0
# Two mounted file systems may not have the same identity on XFS, as that of the load and its copy.
_OPTIONS: dict[FileSystem, tuple[str, ...]] = {"ext4": (), "xfs": ("nouuid",)}


class FileSystemBroken(SetupError):
    """What a cut left cannot even be mounted."""


@dataclass(frozen=True)
class Recorded:
    """What the disks of one load recorded."""

    logs: DiskLogs
    bases: Sequence[Path]
    """The image of each disk as it was when the recording began; the first has the data."""
    fs: Sequence[FileSystem]


class Roll:
    """The images of all disks, holding what was durable at a time that only goes forward."""

    def __init__(self, recorded: Recorded, folder: Path) -> None:
        """Copies the base images to ``folder``, which must be there."""
        self._recorded = recorded
        self._images = [folder / f"roll-{number}" for number in range(len(recorded.bases))]
        for base, image in zip(recorded.bases, self._images, strict=True):
            copy_sparse(base, image)

    def advance(self, at_ns: int) -> None:
        """Go forward to what was durable at ``at_ns``."""
        for disk, image in enumerate(self._images):
            self._recorded.logs.advance(disk, image, at_ns)

    def places(self, cut: Cut) -> Callable[[Path], CutPlaces]:
        """For ``Cluster.create(disks=…)``: what ``cut`` leaves of the disks, mounted."""
        return lambda folder: CutPlaces(folder / "disks", self._images, self._recorded.fs, cut)


class CutPlaces:
    """The disks after a power cut, as places of a cluster."""

    def __init__(
        self, folder: Path, images: Sequence[Path], fs: Sequence[FileSystem], cut: Cut
    ) -> None:
        """Copy, cut and mount; FileSystemBroken when that fails for what the cut did."""
        self._folder = folder
        folders = [folder / role for role, _ in zip(_ROLES, images, strict=False)]
        self.data = folders[0] / "mnt"
        self.wal = folders[1] / "mnt" if len(folders) > 1 else None
        clean_up_if_killed(folder.parent)
        try:
            for disk, own in enumerate(folders):
                shared_directory(own / "mnt")
                copy_sparse(images[disk], own / "image")
                cut.write(disk, own / "image")
                _mount(own / "image", own / "mnt", fs[disk])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unmount, and remove the images."""
        unmount_all(self._folder, patience_s=_PATIENCE_S)
        remove_own_directory(self._folder)


def _mount(image: Path, point: Path, fs: FileSystem) -> None:
    try:
        mount_image(image, point, fs, _OPTIONS[fs])
    except SetupError as error:
        if "loop device" in error.message:
            raise
        raise FileSystemBroken(error.message, code="file-system-broken") from error


def copy_sparse(image: Path, target: Path) -> None:
    """Copy a sparse file, sharing blocks where the file system can."""
    run_program(
        ["cp", "--reflink=auto", "--sparse=auto", image, target],
        f"copy the image of a disk to {target}",
    )
