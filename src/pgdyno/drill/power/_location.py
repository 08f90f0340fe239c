"""The location of a byte of a disk: the file that owns it, its relation and block, or its position
in the WAL.

The owner of a byte is found by the inverse of the file system's map of extents, which the FIEMAP
ioctl reads from a mounted ext4 or XFS. A byte that no file owns is metadata of the file system
(journal, inodes, directories, bitmaps) or free space.

The names of relations are queried from the running server before the cut, since a server damaged by
a cut may not answer; the rest is derived from the path.
"""

from __future__ import annotations

import bisect
import fcntl
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pgdyno.server.local.safefiles import open_plain
from pgdyno.server.lsn import lsn_text
from pgdyno.server.sql_files import query

if TYPE_CHECKING:
    import psycopg


_DEFAULT_TABLESPACE = 1663
_GLOBAL_TABLESPACE = 1664
_RELATION = re.compile(
    r"(?P<first>(?P<parent>global|base/(?P<base>\d+)|"
    r"pg_tblspc/(?P<space>\d+)/PG_[^/]+/(?P<database>\d+))/(?:t\d+_)?(?P<node>\d+))"
    r"(?:_(?P<fork>fsm|vm|init))?(?:\.(?P<segment>\d+))?"
)
_WAL = re.compile(r"pg_wal/(?P<timeline>[0-9A-F]{8})(?P<high>[0-9A-F]{8})(?P<low>[0-9A-F]{8})")
_LAYOUT_SETTINGS = ("block_size", "segment_size", "wal_segment_size")
_FS_IOC_FIEMAP = 0xC020660B
_EXTENTS_PER_CALL = 256
_WHOLE_FILE = 2**64 - 1
_FLAG_SYNC = 1
_EXTENT_LAST = 0x1
# The position on the device is unknown or not final: delayed, encoded or inline data.
_EXTENT_ELSEWHERE = 0x2 | 0x4 | 0x8 | 0x200


@dataclass(frozen=True)
class Layout:
    """Sizes of blocks and segments of a server, in bytes."""

    block_bytes: int = 8192
    segment_bytes: int = 1 << 30
    wal_segment_bytes: int = 16 << 20


@dataclass(frozen=True)
class BlockOf:
    """A block of a relation, by PostgreSQL's object identifiers."""

    tablespace: int
    database: int
    node: int
    fork: str
    """``main``, ``fsm``, ``vm`` or ``init``."""
    block: int


@dataclass(frozen=True)
class Location:
    """Content of one byte of a disk."""

    file: str
    """Path below the data directory; empty if no file owns the byte."""
    byte: int
    """Offset in the file; on the disk if no file owns the byte."""
    name: str = ""
    """Name of the relation, if known."""
    kind: str = ""
    """``relkind`` of the relation: r, i, t and so on."""
    block: BlockOf | None = None
    byte_of_block: int = 0
    wal: int | None = None
    """Position in the WAL, for a byte of a WAL segment."""

    @property
    def block_of_file(self) -> tuple[str, int]:
        """The file and the number of its block; 8 kB for files that are not relations."""
        return (self.file, self.block.block if self.block else self.byte // 8192)

    def sentence(self) -> str:
        """Return a text such as ``pgbench_accounts, block 17, byte 4096 (base/5/16397)``."""
        if not self.file:
            return f"metadata of the file system, byte {self.byte} of the disk"
        if self.wal is not None:
            return f"WAL at {lsn_text(self.wal)} ({self.file})"
        if self.block is None:
            return f"{self.file}, byte {self.byte}"
        fork = "" if self.block.fork == "main" else f" {self.block.fork} fork,"
        name = self.name or f"relation {self.block.node} of database {self.block.database}"
        return f"{name},{fork} block {self.block.block}, byte {self.byte_of_block} ({self.file})"


@dataclass(frozen=True)
class Names:
    """Layout and names of relations of a server, as found by ``read_names``."""

    layout: Layout = Layout()
    relations: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Path of the first file of the main fork → name and kind."""

    def locate(self, owner: tuple[PurePosixPath, int] | None, disk_bytes: int) -> Location:
        """Return the content of a byte of a disk, given the file that owns it.

        The top directories of the disk are ``pgdata``, ``pg_wal`` or both.
        """
        if owner is None:
            return Location("", disk_bytes)
        path, byte = owner
        file = str(path.relative_to("pgdata")) if path.parts[0] == "pgdata" else str(path)
        if found := _RELATION.fullmatch(file):
            return self._relation(file, byte, found)
        if found := _WAL.fullmatch(file):
            return Location(file, byte, wal=self._segment_begin(found) + byte)
        return Location(file, byte)

    def _relation(self, file: str, byte: int, found: re.Match[str]) -> Location:
        size = self.layout.block_bytes
        segment = int(found["segment"] or 0) * (self.layout.segment_bytes // size)
        name, kind = self.relations.get(found["first"], ("", ""))
        tablespace = _GLOBAL_TABLESPACE if found["parent"] == "global" else _DEFAULT_TABLESPACE
        block = BlockOf(
            tablespace=int(found["space"] or tablespace),
            database=int(found["base"] or found["database"] or 0),
            node=int(found["node"]),
            fork=found["fork"] or "main",
            block=segment + byte // size,
        )
        return Location(file, byte, name, kind, block, byte % size)

    def _segment_begin(self, found: re.Match[str]) -> int:
        low = int(found["low"], 16) * self.layout.wal_segment_bytes
        return (int(found["high"], 16) << 32) + low


def read_names(conn: psycopg.Connection) -> Names:
    """Query the layout of the server and the names of the relations in this database."""
    layout = Layout(*(_setting_bytes(conn, name) for name in _LAYOUT_SETTINGS))
    rows = conn.execute(query("drill/power", "relations")).fetchall()
    return Names(layout, {path: (name, kind) for path, name, kind in rows})


def _setting_bytes(conn: psycopg.Connection, name: str) -> int:
    query = "select pg_size_bytes(current_setting(%s))"
    row = conn.execute(query, (name,)).fetchone()
    assert row is not None  # The query returns one row or fails.
    return int(row[0])


_HEAD = struct.Struct("=QQLLLL")
_EXTENT = struct.Struct("=QQQ16xL12x")


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
