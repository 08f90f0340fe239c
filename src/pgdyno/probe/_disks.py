"""Which block devices hold the data and the WAL, and what those devices do.

Sources: proc_pid_mountinfo(5) for mounts, Documentation/admin-guide/iostats.rst of the Linux
kernel for /proc/diskstats.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgdyno.probe._host import PROC

SYS_BLOCK = Path("/sys/class/block")
SECTOR_BYTES = 512
"""The unit of /proc/diskstats, whatever the device's own sector is."""
NOT_REAL = re.compile(r"(loop|ram|zram|nbd|fd|sr)\d+")
"""Devices in memory, in files or without a medium: shown only if they hold data or WAL."""
OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """One mounted file system."""

    device: str
    """'major:minor'."""
    point: str
    kind: str
    source: str
    options: str


def parse_mountinfo(text: str) -> list[Mount]:
    """/proc/self/mountinfo, in the order of mounting."""
    mounts = []
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        first, last = left.split(), right.split()
        if len(first) < 6 or len(last) < 3:
            continue
        options = f"{first[5]},{last[2]}"
        mounts.append(Mount(first[2], _unescape(first[4]), last[0], _unescape(last[1]), options))
    return mounts


def _unescape(text: str) -> str:
    return OCTAL.sub(lambda found: chr(int(found[1], 8)), text)


def mount_of(path: Path) -> Mount | None:
    """The file system that ``path`` is on; None if it cannot be told."""
    try:
        real = Path(os.path.realpath(path))
        mounts = parse_mountinfo((PROC / "self" / "mountinfo").read_text())
    except OSError:
        return None
    holding = [mount for mount in mounts if real.is_relative_to(mount.point)]
    # The deepest one; of two on the same place the later covers the earlier.
    return (
        max(enumerate(holding), key=lambda item: (len(item[1].point), item[0]))[1]
        if (holding)
        else None
    )


def device_of(path: Path) -> str:
    """Name of the whole block device ('sda', not 'sda1') that ``path`` is on.

    '' if it is on none (memory, network, FUSE) or the path cannot be looked at.
    """
    try:
        number = path.stat().st_dev
    except OSError:
        return ""
    name = _device_name(f"{os.major(number)}:{os.minor(number)}")
    if name:
        return name
    # btrfs and others give each volume a number of its own; then the mount's source tells.
    mount = mount_of(path)
    try:
        source = Path(mount.source).stat().st_rdev if mount else 0
    except OSError:
        return ""
    return _device_name(f"{os.major(source)}:{os.minor(source)}")


def _device_name(number: str) -> str:
    """Name of the block device of this 'major:minor', the disk if it is a partition."""
    place = Path("/sys/dev/block") / number
    if number.startswith("0:") or not place.exists():
        return ""
    real = place.resolve()
    return real.parent.name if (real / "partition").exists() else real.name


def wal_directory(data_dir: Path) -> Path:
    """Where the server of this data directory keeps its WAL."""
    return data_dir / "pg_wal"


def holders(data_dir: Path | None) -> dict[str, str]:
    """Device name → 'data', 'wal' or 'data,wal'; empty when the directory cannot be looked at."""
    held: dict[str, list[str]] = {}
    if data_dir is not None:
        for what, path in (("data", data_dir), ("wal", wal_directory(data_dir))):
            device = device_of(path)
            if device:
                held.setdefault(device, []).append(what)
    return {device: ",".join(what) for device, what in held.items()}


def parse_diskstats(text: str) -> dict[str, dict[str, int | None]]:
    """/proc/diskstats: device name → the counters of metric_disk.

    Flushes are None before Linux 5.5, which began to count them.
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


def sample_disks(holds: dict[str, str]) -> list[dict[str, Any]]:
    """Rows for metric_disk: whole disks, and whatever holds data or WAL."""
    return [
        {"device": name, "holds": holds.get(name, ""), **counters}
        for name, counters in parse_diskstats((PROC / "diskstats").read_text()).items()
        if name in holds or not (NOT_REAL.fullmatch(name) or _is_partition(name))
    ]


def _is_partition(name: str) -> bool:
    return (SYS_BLOCK / name / "partition").exists()
