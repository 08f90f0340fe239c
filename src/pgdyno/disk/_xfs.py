"""An XFS file system in an image file, which clones files by sharing their blocks.

It is for servers whose data directory is cloned on a machine whose own file system cannot do that,
such as ext4. Files in its directory::

    image        content of the disk: a sparse file of the disk's size
    mnt/         the file system, through a loop device that is removed with the mount
    mnt/files/   the files of the server, whose account may write there
    mnt/copies/  copies of them, made by pgdyno
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pgdyno.disk._loop import require_loops
from pgdyno.disk.mounting import make_image, mount_image, unmount_all
from pgdyno.errors import SetupError
from pgdyno.server.directories import shared_directory
from pgdyno.server.local.account import change_owner, server_account
from pgdyno.spec.disk import SIZE_BYTES_MIN, DiskPlan

_FREE_PART = 0.8
_STEP_BYTES = 64 << 20
_SIZE_BYTES_DEFAULT_MAX = 256 << 30
_BUSY_S_MAX = 10.0
_OTHERWISE = 'choose a plain disk, whose files are copied: disk.data = "plain"'


class XfsDisk(Struct, frozen=True):
    """A mounted XFS file system."""

    directory: Path
    emulated: str
    kind: Literal["xfs"] = "xfs"

    @property
    def path(self) -> Path:
        """The directory for the files of the server."""
        return self.directory / "mnt" / "files"

    @property
    def copies(self) -> Path:
        """The directory for copies of them."""
        return self.directory / "mnt" / "copies"

    def close(self) -> None:
        """Unmount it and remove the image."""
        unmount_all(self.directory, patience_s=_BUSY_S_MAX)
        (self.directory / "image").unlink(missing_ok=True)


def open_xfs(plan: DiskPlan, directory: Path) -> XfsDisk:
    """Make the disk in ``directory``. Raises SetupError if the machine cannot have it."""
    require_loops("xfs", _OTHERWISE)
    shared_directory(directory)
    disk = XfsDisk(directory, str(plan))
    try:
        _make(disk, plan.size_bytes or _default_size_bytes(directory))
    except BaseException as problem:
        disk.close()
        if isinstance(problem, SetupError):  # A kernel without XFS, for example.
            problem.hint = problem.hint or _OTHERWISE
        raise
    return disk


def _make(disk: XfsDisk, size_bytes: int) -> None:
    free = shutil.disk_usage(disk.directory).free
    if size_bytes > free:
        raise SetupError(
            f"an XFS image of {size_bytes >> 20}MB does not fit into {disk.directory}, where"
            f" {free >> 20}MB are free",
            code="xfs-space",
            hint="make it smaller, or set PGDYNO_HOME to a directory with more space",
        )
    image = disk.directory / "image"
    make_image(image, "xfs", size_bytes)
    shared_directory(disk.directory / "mnt")
    mount_image(image, disk.directory / "mnt", "xfs")
    for path in (disk.path, disk.copies):
        shared_directory(path)
    change_owner(disk.path, server_account())


def _default_size_bytes(directory: Path) -> int:
    """Return most of the free space; the image is sparse, so that unused blocks need no space."""
    free = shutil.disk_usage(directory).free
    usable = int(free * _FREE_PART) // _STEP_BYTES * _STEP_BYTES
    return max(min(_SIZE_BYTES_DEFAULT_MAX, usable), SIZE_BYTES_MIN["xfs"])


def can_make_xfs() -> str | None:
    """Return the reason for which no such disk can be made here; None if it can."""
    try:
        require_loops("xfs", _OTHERWISE)
    except SetupError as problem:
        return problem.message
    return None
