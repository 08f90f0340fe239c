"""Free space of the file systems of data and WAL, with a warning before one is full.

A server ends with a PANIC when WAL cannot be written, so the warning is given while this can still
be prevented; ``pgdyno.stats.filling`` computes whether a disk fills.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from pgdyno.numbers import size
from pgdyno.probe._disks import mount_of, wal_directory
from pgdyno.probe._server_log import log_bytes_by_device
from pgdyno.record import Recorder
from pgdyno.stats.filling import (
    Space,
    contents_name,
    disk_name,
    forecast,
    full_soon,
    growths,
    wal_wanted,
)

WARN_SECONDS = 60.0
"""Time within which a disk that will be full causes a warning."""
_SEGMENT = re.compile(r"[0-9A-F]{24}")
_REMEMBERED = 12


class DiskSpace(Struct, frozen=True):
    """The space on a file system that contains data, WAL or both: a row of metric_space."""

    holds: str
    """``data``, ``wal`` or ``data,wal``."""
    filesystem: str
    size_bytes: int
    free_bytes: int
    wal_dir_bytes: int | None
    """Size of the WAL; ``None`` on a disk without it."""
    log_bytes: int | None = None
    """Size of the server's log; ``None`` on a disk without it, or if it is not to be seen."""


class SpaceSampler:
    """Sampler of metric_space, with one warning for each file system that is about to be full."""

    def __init__(
        self,
        recorder: Recorder,
        data_dir: Path,
        *,
        max_wal_size_bytes: int | None,
        warn: Callable[[str], None],
    ) -> None:
        self._recorder = recorder
        self._data_dir = data_dir
        self._max_wal_size_bytes = max_wal_size_bytes
        self._warn = warn
        self._seen: dict[str, deque[tuple[float, DiskSpace]]] = {}
        self._warned: set[str] = set()

    def sample(self) -> None:
        """Take one sample. Raises OSError when the data directory is not accessible."""
        now_s = time.monotonic()
        disks = sample_space(self._data_dir)
        self._recorder.add_rows("metric_space", [asdict(disk) for disk in disks])
        for disk in disks:
            seen = self._seen.setdefault(disk.holds, deque(maxlen=_REMEMBERED))
            if seen and seen[-1][1].size_bytes != disk.size_bytes:
                seen.clear()  # The WAL has moved to another disk.
            seen.append((now_s, disk))
            self._warn_if_filling(disk)

    def _warn_if_filling(self, disk: DiskSpace) -> None:
        filling = forecast(self._space(disk.holds), self._max_wal_size_bytes)
        if disk.holds in self._warned or filling is None or filling.seconds > WARN_SECONDS:
            return
        self._warned.add(disk.holds)
        text = (
            f"{full_soon(disk_name(disk.holds, disk.filesystem), filling.seconds)}:"
            f" {size(disk.free_bytes)} of {size(disk.size_bytes)} are free"
        )
        self._warn(f"warning: {text}")
        label = f"{contents_name(disk.holds)} disk about to fill"
        self._recorder.add_event("warning", label, {"message": text})

    def _space(self, holds: str) -> Space:
        seen = self._seen[holds]
        latest = seen[-1][1]
        times_s = [at_s for at_s, _ in seen]
        used = [each.size_bytes - each.free_bytes for _, each in seen]
        wal = [each.wal_dir_bytes or 0 for _, each in seen]
        data_growth, wal_growth = growths(times_s, used, wal)
        known = self._max_wal_size_bytes
        return Space(
            size_bytes=latest.size_bytes,
            free_bytes=latest.free_bytes,
            data_growth_bytes_s=data_growth,
            wal_dir_bytes=latest.wal_dir_bytes,
            wal_growth_bytes_s=wal_growth,
            wal_bytes_s=wal_growth,
            wal_wanted_bytes=None if known is None else wal_wanted(known),
        )


def sample_space(data_dir: Path) -> list[DiskSpace]:
    """Return the space of each file system that contains data, WAL or both.

    Without access to the WAL directory, its file system is omitted. Raises OSError when the data
    directory is not accessible.
    """
    wal_dir, logs = wal_directory(data_dir), log_bytes_by_device(data_dir)
    try:
        wal_bytes = _wal_bytes(wal_dir)
        same = wal_dir.stat().st_dev == data_dir.stat().st_dev
    except OSError:
        return [_disk_space("data", data_dir, None, logs)]
    if same:
        return [_disk_space("data,wal", data_dir, wal_bytes, logs)]
    return [_disk_space("data", data_dir, None, logs), _disk_space("wal", wal_dir, wal_bytes, logs)]


def _disk_space(
    holds: str, path: Path, wal_bytes: int | None, logs: Mapping[int, int]
) -> DiskSpace:
    stat, device = os.statvfs(path), path.stat().st_dev
    return DiskSpace(
        holds,
        filesystem=_kind(path, device),
        size_bytes=stat.f_blocks * stat.f_frsize,
        # Blocks reserved for root are not free for a server.
        free_bytes=stat.f_bavail * stat.f_frsize,
        wal_dir_bytes=wal_bytes,
        log_bytes=logs.get(device),
    )


@cache
def _kind(path: Path, device: int) -> str:
    """Return the file system of ``path``, found once for each ``device`` that it is on."""
    mount = mount_of(path)
    return mount.kind if mount else ""


def _wal_bytes(wal_dir: Path) -> int:
    """Return the size of all segments, which have the same size."""
    with os.scandir(wal_dir) as entries:
        segments = [entry for entry in entries if _SEGMENT.fullmatch(entry.name)]
    for segment in segments:
        try:
            return len(segments) * segment.stat().st_size
        except FileNotFoundError:
            continue  # Just recycled.
    return 0
