"""Space needed for making pgbench's tables, computed in advance.

pgbench's rows have a fixed length. A branch has 100,000 accounts of 128 bytes, 61 on a page, 1,640
pages, and 276 pages of the primary key; building that sorts the numbers, on disk if they do not fit
into maintenance_work_mem. COPY writes about as much WAL as pages. Measured on PostgreSQL 15 and 18
at scale 100. Not included: rows that a load adds to pgbench_history, and the tables of ``mixed``,
which are empty at first.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.server.sql_files import query

if TYPE_CHECKING:
    import psycopg

    from pgdyno.spec.workload import InitSpec
    from pgdyno.workload._found import FoundTable

_PAGE_BYTES = 8192
_HEAP_BYTES = 1640 * _PAGE_BYTES
_INDEX_BYTES = 276 * _PAGE_BYTES
_SORT_BYTES = 2 << 20
_BUSINESS_BYTES = 3 << 20
"""Tables and keys of business at scale 1, before any order; measured as 2.7 MB on PostgreSQL 18."""

_TPCC_BYTES = 120 << 20
"""Tables and keys of tpcc-like at scale 1, items included."""

_ENTITY_BYTES = 1 << 20
"""Empty tables and keys of entity-resolution, with 16 partitions each."""


class TableSpace(Struct, frozen=True):
    """Space needed for making the tables of a workload."""

    scale: int | None
    """None: the tables have one size alone."""
    branch_bytes: int
    """Tables, keys and sorting, for each branch."""
    branch_wal_bytes: int
    freed_bytes: int = 0
    """Space of tables that are dropped first."""
    location: str | None = None
    """Directory of the tablespace, if outside of the data directory."""
    what: str = "pgbench's tables"
    """The tables, for messages."""

    @property
    def table_bytes(self) -> int:
        """Space that must be free on the file system of the tables."""
        return max(0, (self.scale or 1) * self.branch_bytes - self.freed_bytes)

    @property
    def wal_bytes(self) -> int:
        """Amount of WAL written; the server decides how much of it is kept."""
        return (self.scale or 1) * self.branch_wal_bytes

    @property
    def in_words(self) -> str:
        """The tables, with their scale."""
        return self.what if self.scale is None else f"{self.what} at scale {self.scale:,}"


def space_for_tables(
    conn: psycopg.Connection, scale: int, init: InitSpec, dropped: Collection[FoundTable]
) -> TableSpace:
    """Return the space needed for ``init`` at ``scale`` in the database of ``conn``."""
    heap = _HEAP_BYTES * 100 // init.fillfactor
    keys = _INDEX_BYTES + _SORT_BYTES if "p" in init.steps else 0
    names = {"schemas": [each.schema for each in dropped], "names": [each.name for each in dropped]}
    row = conn.execute(
        query("workload", "table_space"), {**names, "tablespace": init.tablespace}
    ).fetchone()
    assert row is not None
    freed, location = row
    return TableSpace(
        scale,
        heap + keys,
        0 if init.unlogged_tables else heap + (_INDEX_BYTES if keys else 0),
        freed_bytes=int(freed) if "d" in init.steps else 0,
        location=location or None,
    )


def entity_space(scale: int) -> TableSpace:
    """Return the space needed for the tables of entity-resolution, which are nearly empty at first;
    what the load adds is not included."""
    return TableSpace(scale, _ENTITY_BYTES, _ENTITY_BYTES, what="the tables of entity-resolution")


def ingest_space(scale: int) -> TableSpace:
    """Return the space needed for the empty table of ingest."""
    return TableSpace(scale, _PAGE_BYTES, _PAGE_BYTES, what="the table of ingest")


def tpcc_space(scale: int) -> TableSpace:
    """Return the space needed for the tables of tpcc-like before any load."""
    return TableSpace(scale, _TPCC_BYTES, _TPCC_BYTES, what="the tables of tpcc-like")


def business_space(scale: int) -> TableSpace:
    """Return the space needed for the tables of business; their WAL is the pages' again."""
    return TableSpace(scale, _BUSINESS_BYTES, _BUSINESS_BYTES, what="the tables of business")
