"""Parts that the results of several commands share."""

from typing import Annotated, Literal

from pydantic import AliasChoices, Field, WithJsonSchema

from pgdyno.record.incidents import Incident
from pgdyno.record.part import Part

SCHEMA_VERSION = 2
"""Schema version of the results of run, compare and investigate, and of ``unfinished``."""

Measure = Literal["throughput", "latency_p99"]
Outcome = Literal["better", "worse", "mixed", "no difference", "inconclusive", "not comparable"]
Judged = Literal["in a trial", "beside the load", "by a finding", "not"]
HowSet = Literal["sessions", "reload", "restart"]
Interval95 = Annotated[
    tuple[float, float],
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "number"},
            "minItems": 2,
            "maxItems": 2,
            "description": "95 % interval",
        }
    ),
]
SetBy = Annotated[
    dict[str, HowSet],
    Field(
        description="Setting in which the sides differ: how it was set; reload and restart after"
        " ALTER SYSTEM"
    ),
]


Incidents = Annotated[
    tuple[Incident, ...],
    Field(description="Unplanned restarts, crashes and absences of the server during the run"),
]


class Head(Part):
    """The first members of a result: its origin, and reasons to distrust it."""

    schema_version: Literal[2]
    run_file: str
    database: str | None
    """The database of the load"""
    trustworthy: bool
    distrust: tuple[str, ...]
    """The reasons why the figures cannot be trusted; empty if there are none"""
    incidents: Incidents
    emulated: str | None
    """The emulated disks of the measurement, in words; null: none"""


class Verdict(Part):
    finding: str | None
    sentence: str


class Failures(Part):
    """Transactions that failed finally, and the most frequent error"""

    count: int
    share: float
    """Share of the transactions that ended"""
    by_sqlstate: dict[str, int]
    sqlstate: str | None
    message: str | None


class FailuresBySide(Part):
    """The failures on each side"""

    before: Failures
    after: Failures


class Effect(Part):
    """A paired effect on throughput"""

    throughput_ratio: float
    ci95: Interval95
    pairs: int


class UnusualSetting(Part):
    """A setting that is not at its built-in value and can matter for speed"""

    setting: str
    value: str
    built_in: str
    source: str
    """As in pg_settings: configuration file, database, user, …"""
    judged: Judged
    """In a trial: under load, by investigate; beside the load: by executing its statements; by a
    finding: that proposes another value"""
    saved_share: float | None
    """Share of the response time that goes with the built-in value; null: not tried beside the
    load"""
    effect: Effect | None
    """Of its built-in value, alone or together with ``reset_with``; null: not in a trial"""
    reset_with: tuple[str, ...]
    """Other settings that were reset in the same trial"""
    finding: str | None
    sentence: str


UnusualSettings = Annotated[
    tuple[UnusualSetting, ...] | None,
    Field(
        description="Settings that are not at their built-in value and can matter for speed; null:"
        " they were not asked for"
    ),
]


class LatencyEffect(Part):
    """A paired effect on the 99th percentile of the response time"""

    ratio: float
    ci95: Interval95


class BothSides(Part):
    before: float
    after: float


class PostponedSide(Part):
    amount: int | None
    """null: this role may not read it"""
    ms: float
    """Time that the work took, within the slice"""


class Postponed(Part):
    """Work that slices postponed and did at their end, within their time: means of the slices"""

    work: Literal["WAL flush", "vacuum", "checkpoint"]
    unit: str
    before: PostponedSide
    after: PostponedSide


class GroupEffect(Part):
    """A paired effect on one client group"""

    group: str
    compared: Measure
    ratio: float
    ci95: Interval95
    """At a level that is divided among the groups: all intervals contain the effect in 95 % of the
    trials"""
    verdict: Outcome


class NoiseFloor(Part):
    """The difference between identical slices"""

    of: Measure
    """The figure that was compared"""
    ci95: Interval95
    """Identical slices differ if it excludes 1: by chance in one of twenty measurements, or because
    the procedure favours a side"""
    pairs: int
    """0: not measured"""
    six_pairs_show: float | None
    """The smallest effect, as a fraction, that six pairs with this spread show in four of five
    trials; null: not measured"""


class Latency(Part):
    """Milliseconds. A percentile with fewer than ten samples above it is null"""

    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p99_9: float | None = Field(alias="p99.9")
    p99_99: float | None = Field(alias="p99.99")
    max: float
    mean: float
    count: int


class LedgerColumns(Part):
    """The transaction ledger"""

    over: Literal["run", "measured"]
    """The whole run, or the measured slices only"""
    intended: int
    done: int
    failed: int
    skipped: int
    cancelled: int
    backlog: int
    sent: int
    retried: int
    expected_errors: int
    late: int
    carried_in: int
    """Under way or waiting when the slices began: intended + carried_in = done + failed + skipped +
    cancelled + backlog; 0 for a whole run"""


class ErrorCount(Part):
    """An error by SQLSTATE and position in the script"""

    sqlstate: str
    group: str = Field(validation_alias=AliasChoices("group", "client_group"))
    script: str
    file: str
    line: int | None
    statement: str
    client: int | None
    count: int
    expected: bool
    retried: bool
    message: str
    detail: str
    hint: str
    context: str
    excerpt: str
    advice: str
