"""Emulated disks: a file system in an image whose daemon slows it down or records it."""

from __future__ import annotations

import shutil
from pathlib import Path

from msgspec import Struct

from pgdyno.disk._device import Device, open_device
from pgdyno.server.directories import shared_directory
from pgdyno.spec.disk import SIZE_BYTES_MIN, DiskKind, DiskPlan

SIZE_BYTES_DEFAULT = 4 << 30
"""The image is sparse: unused blocks need no space."""
_FREE_PART = 0.8
_STEP_BYTES = 64 << 20


class ImagedDisk(Struct, frozen=True):
    """A ``slow`` or ``blackout`` disk."""

    kind: DiskKind
    emulated: str
    device: Device

    @property
    def path(self) -> Path:
        """The root of its file system."""
        return self.device.path

    def close(self) -> None:
        """Unmount it, and end its daemon."""
        self.device.close()


def default_size_bytes(plan: DiskPlan, directory: Path) -> int:
    """Return 4 GB, or most of the free space where that is less."""
    usable = int(shutil.disk_usage(directory).free * _FREE_PART) // _STEP_BYTES * _STEP_BYTES
    return max(min(SIZE_BYTES_DEFAULT, usable), SIZE_BYTES_MIN[plan.fs])


def open_imaged(plan: DiskPlan, directory: Path) -> ImagedDisk:
    """Make the disk in ``directory``. Raises SetupError for what the machine lacks."""
    shared_directory(directory)
    device = open_device(
        directory,
        fs=plan.fs,
        size_bytes=plan.size_bytes or default_size_bytes(plan, directory),
        log=plan.kind == "blackout",
        flush_ms=plan.flush_ms,
        write_bytes_per_s=plan.write_bytes_per_s,
    )
    return ImagedDisk(plan.kind, str(plan), device)
