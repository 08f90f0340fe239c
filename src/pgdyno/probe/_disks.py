"""The block devices of the data and the WAL, and their counters.

Sources: proc_pid_mountinfo(5) for mounts, Documentation/admin-guide/iostats.rst of the Linux
kernel for /proc/diskstats.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from msgspec import Struct

from pgdyno.probe._host import PROC
from pgdyno.record.fileformat import MetricRow

SYS_BLOCK = Path("/sys/class/block")
SECTOR_BYTES = 512
"""The unit of /proc/diskstats, for any sector size of the device."""
NOT_REAL = re.compile(r"(loop|ram|zram|nbd|fd|sr)\d+")
"""Devices in memory, in files or without a medium: shown only if they hold data or WAL."""
OCTAL = re.compile(r"\\([0-7]{3})")


class MountInfo(Struct, frozen=True):
    """A mounted file system."""

    device: str
    """'major:minor'."""
    point: str
    kind: str
    source: str
    options: str


def parse_mountinfo(text: str) -> list[MountInfo]:
    """Parse /proc/self/mountinfo; return mounts in the order of mounting."""
    mounts = []
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        first, last = left.split(), right.split()
        if len(first) < 6 or len(last) < 3:
            continue
        options = f"{first[5]},{last[2]}"
        mounts.append(
            MountInfo(first[2], _unescape(first[4]), last[0], _unescape(last[1]), options)
        )
    return mounts


def _unescape(text: str) -> str:
    return OCTAL.sub(lambda found: chr(int(found[1], 8)), text)


def mount_of(path: Path) -> MountInfo | None:
    """Return the file system of ``path``; None if it cannot be determined."""
    try:
        real = Path(os.path.realpath(path))
        mounts = parse_mountinfo((PROC / "self" / "mountinfo").read_text())
    except OSError:
        return None
    holding = [mount for mount in mounts if real.is_relative_to(mount.point)]
    # The deepest one; of two on the same mount point the later covers the earlier.
    return (
        max(enumerate(holding), key=lambda item: (len(item[1].point), item[0]))[1]
        if (holding)
        else None
    )


def device_of(path: Path) -> str:
    """Return the name of the whole block device ('sda', not 'sda1') of ``path``.

    '' if there is none (memory, network, FUSE) or the path is not accessible.
    """
    try:
        number = path.stat().st_dev
    except OSError:
        return ""
    name = _device_name(f"{os.major(number)}:{os.minor(number)}")
    if name:
        return name
    # btrfs and others give each volume a number of its own; then use the mount's source.
    mount = mount_of(path)
    try:
        source = Path(mount.source).stat().st_rdev if mount else 0
    except OSError:
        return ""
    return _device_name(f"{os.major(source)}:{os.minor(source)}")


def _device_name(number: str) -> str:
    """Return the name of the block device 'major:minor'; for a partition, its disk."""
    entry = Path("/sys/dev/block") / number
    if number.startswith("0:") or not entry.exists():
        return ""
    real = entry.resolve()
    return real.parent.name if (real / "partition").exists() else real.name


def wal_directory(data_dir: Path) -> Path:
    """Return the WAL directory of this data directory."""
    return data_dir / "pg_wal"


def holders(data_dir: Path | None) -> dict[str, str]:
    """Return 'data', 'wal' or 'data,wal' by device; empty if the directory is inaccessible."""
    held: dict[str, list[str]] = {}
    if data_dir is not None:
        for what, path in (("data", data_dir), ("wal", wal_directory(data_dir))):
            device = device_of(path)
            if device:
                held.setdefault(device, []).append(what)
    return {device: ",".join(what) for device, what in held.items()}


def parse_diskstats(text: str) -> dict[str, dict[str, int | None]]:
    """Parse /proc/diskstats; return the counters of metric_disk by device name.

    Flushes are None before Linux 5.5, which does not count them.
    """
    devices: dict[str, dict[str, int | None]] = {}
    for line in text.splitlines():
        words = line.split()
        numbers = [int(word) for word in words[3:]]
        devices[words[2]] = {
            "reads": numbers[0],
            "read_bytes": numbers[2] * SECTOR_BYTES,
            "read_ms": numbers[3],
            "writes": numbers[4],
            "write_bytes": numbers[6] * SECTOR_BYTES,
            "write_ms": numbers[7],
            "in_flight": numbers[8],
            "busy_ms": numbers[9],
            "queue_ms": numbers[10],
            "flushes": numbers[15] if len(numbers) > 16 else None,
            "flush_ms": numbers[16] if len(numbers) > 16 else None,
        }
    return devices


def sample_disks(holds: dict[str, str]) -> list[MetricRow]:
    """Return rows for metric_disk: whole disks, and devices that hold data or WAL."""
    return [
        {"device": name, "holds": holds.get(name, ""), **counters}
        for name, counters in parse_diskstats((PROC / "diskstats").read_text()).items()
        if name in holds or not (NOT_REAL.fullmatch(name) or _is_partition(name))
    ]


def _is_partition(name: str) -> bool:
    return (SYS_BLOCK / name / "partition").exists()
