"""The part of a result for the server's own counts of statements (pg_stat_statements)."""

from __future__ import annotations

from pgdyno.results.common import Part


class StatementFigures(Part):
    """Sums of statements that are told apart by their text"""

    text: str
    """Of a shape: without values; of a group: its beginning"""
    calls: int
    exec_ms: float
    share: float
    """Of the time of all statements"""
    plan_ms: float | None
    """null: not counted (pg_stat_statements.track_planning)"""
    rows: int
    wal_records: int | None
    wal_fpi: int | None
    wal_bytes: int
    wal_buffers_full: int | None
    """null: before PostgreSQL 18"""
    blocks_read: int
    blocks_dirtied: int | None
    blocks_written: int | None
    local_blocks_dirtied: int | None
    temp_blocks: int
    """Read and written"""
    read_ms: float | None
    """Part of exec_ms; null: not counted (track_io_timing)"""
    write_ms: float | None
    jit_ms: float | None
    """Part of exec_ms and plan_ms; null: before PostgreSQL 15"""


class StatementGroup(StatementFigures):
    """Statements that begin alike, up to their second parameter"""

    shapes: int
    """Different shapes in it"""


class ServerStatements(Part):
    """Statements of the database under load, as the server counted them in the measured slices"""

    absent: str | None
    """The reason why there are none, and what would allow them"""
    exec_ms: float
    """Of all statements"""
    evictions: int
    """Times that statements were thrown out for want of room, whose counts are lost"""
    groups: tuple[StatementGroup, ...]
    """Those first that took the most time"""
    shapes: tuple[StatementFigures, ...]
