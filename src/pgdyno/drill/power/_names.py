"""Content of a byte of a file in a data directory: relation and block, or WAL position.

The names of relations are queried from the running server before the cut, since a server damaged by
a cut may not answer; the rest is derived from the path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pgdyno.server.lsn import lsn_text

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
    query = files("pgdyno.drill.power").joinpath("sql/relations.sql").read_text()
    rows = conn.execute(query.encode()).fetchall()
    return Names(layout, {path: (name, kind) for path, name, kind in rows})


_LAYOUT_SETTINGS = ("block_size", "segment_size", "wal_segment_size")


def _setting_bytes(conn: psycopg.Connection, name: str) -> int:
    query = "select pg_size_bytes(current_setting(%s))"
    row = conn.execute(query, (name,)).fetchone()
    assert row is not None  # The query returns one row or fails.
    return int(row[0])
