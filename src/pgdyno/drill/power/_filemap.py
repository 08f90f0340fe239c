"""Map from the bytes of a disk to the files that own them.

It is the inverse of the file system's map of extents, which the FIEMAP ioctl reads from a mounted
ext4 or XFS. A byte that no file owns is metadata of the file system (journal, inodes, directories,
bitmaps) or free space.
"""

from __future__ import annotations

import bisect
import fcntl
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pgdyno.server.local.safefiles import open_plain

_FS_IOC_FIEMAP = 0xC020660B
_HEAD = struct.Struct("=QQLLLL")
_EXTENT = struct.Struct("=QQQ16xL12x")
_EXTENTS_PER_CALL = 256
_WHOLE_FILE = 2**64 - 1
_FLAG_SYNC = 1
_EXTENT_LAST = 0x1
# The position on the device is unknown or not final: delayed, encoded or inline data.
_EXTENT_ELSEWHERE = 0x2 | 0x4 | 0x8 | 0x200


@dataclass(frozen=True, order=True)
class Extent:
    """Bytes of a file that are contiguous on the disk."""

    disk_bytes: int
    """Start on the disk."""
    file_bytes: int
    """Start in the file."""
    length_bytes: int
    path: PurePosixPath
    """Path relative to the root of the file system."""


class FileMap:
    """Map from the bytes of a disk to the regular files that own them."""

    def __init__(self, extents: Iterator[Extent]) -> None:
        """``extents`` must not overlap: no files with shared blocks."""
        self._extents = sorted(extents)
        self._begins = [extent.disk_bytes for extent in self._extents]

    @classmethod
    def of(cls, root: Path) -> FileMap:
        """Return the map of the file system mounted at ``root``. OSError if it lacks FIEMAP."""
        return cls(_extents_below(root))

    def owner(self, disk_bytes: int) -> tuple[PurePosixPath, int] | None:
        """Return the file that owns a byte of the disk and its offset in the file, or ``None``."""
        index = bisect.bisect_right(self._begins, disk_bytes) - 1
        if index < 0:
            return None
        extent = self._extents[index]
        inside = disk_bytes - extent.disk_bytes
        if inside >= extent.length_bytes:
            return None
        return extent.path, extent.file_bytes + inside


def _extents_below(root: Path) -> Iterator[Extent]:
    device = root.stat().st_dev
    for directory, children, names in os.walk(root):
        children[:] = [
            name for name in children if (Path(directory) / name).lstat().st_dev == device
        ]
        for name in names:
            path = Path(directory) / name
            if path.is_file() and not path.is_symlink():
                yield from _extents_of(path, PurePosixPath(path.relative_to(root)))


def _extents_of(path: Path, name: PurePosixPath) -> Iterator[Extent]:
    with open_plain(path) as file:
        begin, last = 0, False
        while not last:
            found = _extents_from(file.fileno(), begin)
            for logical, physical, length, flags in found:
                begin, last = logical + length, bool(flags & _EXTENT_LAST)
                if not flags & _EXTENT_ELSEWHERE:
                    yield Extent(physical, logical, length, name)
            last = last or not found


def _extents_from(descriptor: int, begin: int) -> list[tuple[int, int, int, int]]:
    """Return the next extents from ``begin``: offset in the file, on the disk, length, flags."""
    buffer = bytearray(_HEAD.size + _EXTENTS_PER_CALL * _EXTENT.size)
    _HEAD.pack_into(buffer, 0, begin, _WHOLE_FILE - begin, _FLAG_SYNC, 0, _EXTENTS_PER_CALL, 0)
    fcntl.ioctl(descriptor, _FS_IOC_FIEMAP, buffer)
    mapped = _HEAD.unpack_from(buffer)[3]
    return [
        _EXTENT.unpack_from(buffer, _HEAD.size + number * _EXTENT.size) for number in range(mapped)
    ]
