"""Free space of the disks that a soak fills: that of the run file, and those of a local server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct


class Disk(Struct, frozen=True):
    """A file system, and what it holds in words."""

    path: Path
    holds: str

    @property
    def free_bytes(self) -> int | None:
        """Bytes free for accounts other than root; None if it cannot be read."""
        with suppress(OSError):
            status = os.statvfs(self.path)
            return status.f_bavail * status.f_frsize
        return None


def disks_of(run_file: Path, data_dir: Path | None) -> list[Disk]:
    """Return the disks of the run file and of the server's data and WAL, each once."""
    found: dict[int, Disk] = {}
    for path, holds in _places(run_file, data_dir):
        with suppress(OSError):
            device = path.stat().st_dev
            held = f"{found[device].holds} and {holds}" if device in found else holds
            found[device] = Disk(path, held)
    return list(found.values())


def _places(run_file: Path, data_dir: Path | None) -> Iterator[tuple[Path, str]]:
    yield run_file.absolute().parent, "the run file"
    if data_dir is not None:
        yield data_dir, "the data"
        yield data_dir / "pg_wal", "the WAL"


def fullest(disks: list[Disk], keep_free_bytes: int) -> Disk | None:
    """Return a disk with less free space than is to remain; None if there is none."""
    for disk in disks:
        free_bytes = disk.free_bytes
        if free_bytes is not None and free_bytes < keep_free_bytes:
            return disk
    return None
