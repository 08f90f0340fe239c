"""The part of a comparison's result that only two versions have."""

from typing import Literal

from pgdyno.record.part import Part
from pgdyno.results.common import BothSides, Effect, Interval95, LatencyEffect, Measure, Outcome


class BuildFlags(Part):
    """A build, by its own account"""

    version: str
    bindir: str
    compiler: str
    cflags: str
    configure: str
    """Its configure options; empty for one built by meson"""
    assertions: bool
    jit: bool
    """JIT compilation is built in and installed"""


class LevelledSetting(Part):
    """A default that differs, made equal"""

    name: str
    before: str | None
    """As shipped in the first version; null: it has no such setting"""
    after: str | None
    """As shipped in the second version; null: it has no such setting"""
    levelled: str
    """The value of both in the levelled trial"""
    by: Literal["setting", "initdb"]


class UnequalSetting(Part):
    """A default that differs and stayed as shipped"""

    name: str
    before: str | None
    after: str | None
    why: str


class PerTransaction(Part):
    """A figure of each slice, in pairs"""

    before: float
    after: float
    ratio: float
    ci95: Interval95


class Counted(Part):
    """A figure counted once for each side"""

    before: float
    after: float
    ratio: float


class VacuumWork(Part):
    """A VACUUM of the same table, with every second row deleted, by each version"""

    rows: int
    wal_bytes: BothSides
    wal_ratio: float
    ms: BothSides


class VersionTrial(Part):
    """The versions compared once: as shipped, or levelled"""

    levelled: bool
    effect: Effect
    latency_p99: LatencyEffect
    compared: Measure
    decision: Outcome
    sentence: str
    throughput_tps: BothSides
    wal_bytes_per_transaction: PerTransaction | None
    """In the slices, with the images of whole pages that follow a checkpoint; null: not measured"""
    wal_bytes_without_images: Counted | None
    """Per transaction, under a load of its own with full_page_writes off; null: nothing written, or
    not measured"""
    cpu_us_per_transaction: PerTransaction | None
    """Of all of the server's processes; null: not measured"""
    vacuum: VacuumWork


class ComparedVersions(Part):
    """Two versions of PostgreSQL, or two builds"""

    before: BuildFlags
    after: BuildFlags
    warnings: tuple[str, ...]
    """Differences of the builds that may change their speed, apart from the version"""
    levelled: tuple[LevelledSetting, ...]
    not_levelled: tuple[UnequalSetting, ...]
    trials: tuple[VersionTrial, ...]
    """As shipped, then levelled, unless no default differs; empty without a verdict"""
