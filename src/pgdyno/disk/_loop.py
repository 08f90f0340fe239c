"""A file system of the user's choice in an image file, mounted with the user's options.

For comparing file systems and mount options: while the server is down, the disk can become another
one. With other mount options it is mounted again; with another file system or size, a new image is
made and the files are copied into it. Files in its directory::

    image       content of the disk: a sparse file of the disk's size
    mnt/        the file system, through a loop device that is removed with the mount
    mnt/files/  the files of the server, whose account may write there
    next, over  the image, and the mount point, of the disk that it becomes, for the time of copying
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Literal

from pgdyno.disk._device import default_size_bytes
from pgdyno.disk.mounting import (
    FileSystem,
    make_image,
    mkfs,
    mount_image,
    program,
    require_mounting,
    run_program,
    sync_mount,
    unmount_all,
)
from pgdyno.errors import SetupError
from pgdyno.server.directories import shared_directory
from pgdyno.server.local.account import change_owner, server_account
from pgdyno.spec.disk import DiskPlan

_BUSY_S_MAX = 10.0
_OTHERWISE = "choose a plain disk, whose file system and mount options are those of its directory"


class LoopDisk:
    """A mounted file system in an image file."""

    kind: Literal["loop"] = "loop"

    def __init__(self, directory: Path, plan: DiskPlan) -> None:
        """Internal; use ``open_loop``."""
        self._directory = directory
        self._plan = plan

    @property
    def path(self) -> Path:
        """The directory for the files of the server."""
        return self._point / "files"

    @property
    def emulated(self) -> str:
        """The disk in words."""
        return str(self._plan)

    def become(self, plan: DiskPlan) -> None:
        """Become another disk with the same files, while no process uses it. Raises SetupError, and
        is then as before."""
        before = self._plan
        if plan == before:
            return
        if (plan.fs, plan.size_bytes) == (before.fs, before.size_bytes):
            self._unmount()
            self._mount_or(plan, before)
        else:
            self._copy_into(plan)
        self._plan = plan

    def close(self) -> None:
        """Unmount it and remove the image."""
        self._unmount()
        for name in ("image", "next"):
            (self._directory / name).unlink(missing_ok=True)

    def make(self) -> None:
        """Make the image and mount it."""
        plan = self._plan
        _check_space(plan, self._directory)
        make_image(self._image, plan.fs, _size_bytes(plan, self._directory))
        shared_directory(self._point)
        mount_image(self._image, self._point, plan.fs, plan.mount)
        _make_files(self._point)

    def _copy_into(self, plan: DiskPlan) -> None:
        """Make another image with the same files, and take it instead."""
        following, over = self._directory / "next", self._directory / "over"
        _check_space(plan, self._directory)
        try:
            make_image(following, plan.fs, _size_bytes(plan, self._directory))
            mount_image(following, shared_directory(over), plan.fs, plan.mount)
            run_program(
                [program("cp", "coreutils"), "-a", "--sparse=always", self.path, over],
                f"copy the data to {plan}",
            )
            sync_mount(over)
        except BaseException:
            unmount_all(over, patience_s=_BUSY_S_MAX)
            following.unlink(missing_ok=True)
            raise
        unmount_all(over, patience_s=_BUSY_S_MAX)
        self._unmount()
        following.replace(self._image)
        mount_image(self._image, self._point, plan.fs, plan.mount)

    def _mount_or(self, plan: DiskPlan, before: DiskPlan) -> None:
        """Mount it as ``plan`` says, or if that fails as before."""
        try:
            mount_image(self._image, self._point, plan.fs, plan.mount)
        except SetupError:
            mount_image(self._image, self._point, before.fs, before.mount)
            raise

    def _unmount(self) -> None:
        unmount_all(self._directory, patience_s=_BUSY_S_MAX)

    @property
    def _image(self) -> Path:
        return self._directory / "image"

    @property
    def _point(self) -> Path:
        return self._directory / "mnt"


def open_loop(plan: DiskPlan, directory: Path) -> LoopDisk:
    """Make the disk in ``directory``. Raises SetupError if the machine cannot have it."""
    require_loops(plan.fs, _OTHERWISE)
    shared_directory(directory)
    disk = LoopDisk(directory, plan)
    try:
        disk.make()
    except BaseException as problem:
        disk.close()
        if isinstance(problem, SetupError):  # A kernel without the file system, for example.
            problem.hint = problem.hint or _OTHERWISE
        raise
    return disk


def require_loops(fs: FileSystem, otherwise: str) -> None:
    """Raise SetupError where no image file can be mounted; ``otherwise`` is the hint."""
    if os.geteuid() != 0:
        raise SetupError("only root may mount an image file", code="xfs-root", hint=otherwise)
    require_mounting()
    mkfs(fs)
    if not os.access("/dev/loop-control", os.R_OK | os.W_OK):
        raise SetupError(
            "this system has no loop devices: /dev/loop-control is missing or not accessible",
            code="xfs-loop",
            hint=otherwise,
        )


def _size_bytes(plan: DiskPlan, directory: Path) -> int:
    return plan.size_bytes or default_size_bytes(plan, directory)


def _check_space(plan: DiskPlan, directory: Path) -> None:
    size, free = _size_bytes(plan, directory), shutil.disk_usage(directory).free
    if size > free:
        raise SetupError(
            f"a disk of {size >> 20}MB on a loop device does not fit into {directory}, where"
            f" {free >> 20}MB are free",
            code="loop-space",
            hint="make it smaller with size=…, or set PGDYNO_HOME to a directory with more space",
        )


def _make_files(point: Path) -> None:
    shared_directory(point / "files")
    change_owner(point / "files", server_account())
