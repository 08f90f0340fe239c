"""Which file owns a byte of a disk: the file system's own map of extents, turned round.

Asked of a mounted file system with the FIEMAP ioctl, which ext4 and XFS answer. A byte that no
file owns is the file system's: its journal, inodes, directories, bitmaps, or free space.
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
# Its place is unknown, not yet given, or not the device's own: delayed, encoded, inline data.
_EXTENT_ELSEWHERE = 0x2 | 0x4 | 0x8 | 0x200


@dataclass(frozen=True, order=True)
class Extent:
    """A run of bytes of one file that lies in one piece on the disk."""

    disk_bytes: int
    """Where it begins on the disk."""
    file_bytes: int
    """Where it begins in the file."""
    length_bytes: int
    path: PurePosixPath
    """Below the root of the file system."""


class FileMap:
    """The owner of every byte of a disk that belongs to a regular file."""

    def __init__(self, extents: Iterator[Extent]) -> None:
        """Extents must not overlap, as those of files that share no blocks do not."""
        self._extents = sorted(extents)
        self._begins = [extent.disk_bytes for extent in self._extents]

    @classmethod
    def of(cls, root: Path) -> FileMap:
        """The map of the file system that is mounted at ``root``; OSError if it has no FIEMAP."""
        return cls(_extents_below(root))

    def owner(self, disk_bytes: int) -> tuple[PurePosixPath, int] | None:
        """The file that owns this byte of the disk and the byte of it; ``None``: no file's."""
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
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [
            name for name in subfolders if (Path(folder) / name).lstat().st_dev == device
        ]
        for name in names:
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink():
                yield from _extents_of(path, PurePosixPath(path.relative_to(root)))


def _extents_of(path: Path, name: PurePosixPath) -> Iterator[Extent]:
    with open_plain(path) as file:
        begin, last = 0, False
        while not last:
            found = _ask(file.fileno(), begin)
            for logical, physical, length, flags in found:
                begin, last = logical + length, bool(flags & _EXTENT_LAST)
                if not flags & _EXTENT_ELSEWHERE:
                    yield Extent(physical, logical, length, name)
            last = last or not found


def _ask(descriptor: int, begin: int) -> list[tuple[int, int, int, int]]:
    """The next extents from byte ``begin`` of the file: where there, where on the disk, length."""
    buffer = bytearray(_HEAD.size + _EXTENTS_PER_CALL * _EXTENT.size)
    _HEAD.pack_into(buffer, 0, begin, _WHOLE_FILE - begin, _FLAG_SYNC, 0, _EXTENTS_PER_CALL, 0)
    fcntl.ioctl(descriptor, _FS_IOC_FIEMAP, buffer)
    mapped = _HEAD.unpack_from(buffer)[3]
    return [
        _EXTENT.unpack_from(buffer, _HEAD.size + number * _EXTENT.size) for number in range(mapped)
    ]
