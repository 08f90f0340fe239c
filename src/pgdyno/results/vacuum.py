"""Vacuum in the result of ``pgdyno run``: the tables, the vacuums, what they cost."""

from __future__ import annotations

from pgdyno.results.common import Interval95, Part


class VacuumEffect(Part):
    """Throughput and response times while a vacuum ran, over those of the seconds without one"""

    seconds_during: int
    seconds_without: int
    throughput_ratio: float | None
    """null: fewer than four seconds on a side"""
    throughput_ci95: Interval95 | None
    latency_p99_ratio: float | None
    """Of the 99th percentile of a second"""
    latency_p99_ci95: Interval95 | None


class VacuumPhase(Part):
    phase: str
    seconds: int
    """Seconds in which it was seen"""


class TableVacuum(Part):
    """Vacuums of a table that lasted long enough to be seen, by kind"""

    relation: str
    automatic: bool
    to_prevent_wraparound: bool
    failsafe: bool
    """true: the table was older than the age of the failsafe"""
    count: int
    phases: tuple[VacuumPhase, ...]
    scanned_share: float | None
    """Of the last one, when it was last seen; null: an empty table"""
    index_passes: int
    """Times that the last one vacuumed its indexes; more than one if its memory was full"""
    memory_share: float | None
    """Largest used part of the memory for dead rows"""
    asleep_share: float | None
    """Part of the time in the cost delay; null: before version 18, or without
    track_cost_delay_timing"""
    pages_per_s: float | None
    """Pages scanned per second; null: seen once"""
    left_s: float | None
    """Time that the scan would have taken further at the end of the run; null: it had ended"""
    effect: VacuumEffect


class TableState(Part):
    """A table at the end of the run"""

    relation: str
    live: int
    dead: int
    size_bytes: int | None
    """With indexes and TOAST"""
    dead_bytes: int | None
    """Estimate: the size times the dead rows' share of all rows"""
    growth: float | None
    """Size per live row at the end over that at the beginning; null: no rows then"""
    xid_age: int | None
    mxid_age: int | None
    toast_xid_age: int | None
    """null: it has no TOAST table"""
    toast_mxid_age: int | None
    vacuums: int
    """Vacuums during the run, by count"""
    autovacuums: int


class Vacuums(Part):
    """Vacuum during the run"""

    tables: tuple[TableState, ...]
    """The oldest first"""
    vacuums: tuple[TableVacuum, ...]
    """Those seen for the longest time first"""
    effect: VacuumEffect
    """Of all of them together"""
    xid_age: int | None
    """Age of the oldest transaction ID of all databases"""
    mxid_age: int | None
    members_share: float | None
    """Used part of the room for members of multixacts, up to the end of a file; null: not readable
    for this role"""
