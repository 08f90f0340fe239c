"""The result of ``pgdyno pool``."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from pgdyno.record.part import Number, Part
from pgdyno.results.common import Head, Interval95, Verdict
from pgdyno.results.knee import Sustained


class BestSize(Part):
    """The smallest size with at least 95 % of the highest throughput, among those that meet the
    limits"""

    size: int
    """Connections of the pool"""
    size_ci95: tuple[int, int]
    """95 % interval of the size, among those measured"""
    tps: float
    ci95: Interval95 | None
    """null: too few repeats"""
    p99_ms: float | None
    """null: fewer than ten samples beyond it"""
    service_ms: float
    """Mean time of a transaction on its connection"""


class HighestOfSizes(Part):
    """The highest throughput, with the sizes that noise cannot tell apart"""

    size_min: int
    size_max: int
    tps: float


class SizePoint(Part):
    """A pool size, over all its slices"""

    size: int
    tps: float
    ci95: Interval95 | None
    """null: too few repeats"""
    p50_ms: float | None
    p99_ms: float | None
    """null: fewer than ten samples beyond it"""
    p99_ms_ci95: Interval95 | None
    """Of the 99th percentile of a slice; null: fewer than three slices"""
    service_ms: float
    """Mean time of a transaction on its connection; the rest of the response is a queue for one"""
    slices: int
    seconds: float
    met: bool
    """false: the size does not meet the limits, or transactions failed; without limits true"""
    steady: bool | None
    """false: throughput differed between the halves of its slices; null: one slice, which cannot
    tell"""
    why: str
    """The reason why it is not met or not steady; empty: it is"""


class TimePart(Part):
    """A part of the mean response time of a transaction, at the best size and at the larger one"""

    part: str
    words: str
    best_ms: float
    beyond_ms: float
    findings: tuple[str, ...]
    """Findings that explain it at the larger size"""


class Beyond(Part):
    """The largest size measured, against the best one: what connections beyond the best cost"""

    size: int
    throughput_ratio: float
    ci95: Interval95
    tps_per_connection: float
    """Change of the throughput by each connection more"""
    service_ms_per_connection: float
    """Change of the time of a transaction on its connection by each connection more"""
    parts: tuple[TimePart, ...]
    """Parts of the response time, those that grow most first; empty: too little was measured"""
    sentence: str


class PoolSettings(Part):
    """Settings of a pooler or of a pool library, under its own names"""

    of: str
    settings: dict[str, Number | str]
    note: str
    """Conditions and traps; empty: none"""


class Arithmetic(Part):
    """The connections of several instances of the application"""

    instances: int
    size_each: int
    """Pool size of each instance"""
    total: int
    """Connections of all instances together"""
    sentence: str


class ApplicationPools(Part):
    """The application's own pools in front of the pooler, searched with the pooler's best size"""

    instances: int
    """Number of pools: each instance of the application has one"""
    best: BestSize | None
    """Size of the pool of each instance; null: no size meets the limits"""
    total: int | None
    """Connections of all instances at that size; null: no size is best"""
    sentence: str
    highest: HighestOfSizes | None
    """null: nothing was measured"""
    curve: tuple[SizePoint, ...]
    limit_beyond: Verdict
    """The parts that the time goes to beyond the best size"""
    beyond: Beyond | None
    """null: no larger size was measured"""
    pooler_size: int
    """Size of the pooler's pool meanwhile"""
    coupled: bool
    """true: the pooler's size is the sum of these pools, and was changed with them"""


class PoolResult(Head):
    model_config = ConfigDict(title="pgdyno pool --format json")

    pooler: Literal["none", "pgbouncer", "pgpool"]
    """none: the pool of the clients themselves"""
    group: str
    """The client group with the pool"""
    clients: int
    rate_tps: float | None
    """Rate at which the clients send; null: a closed loop"""
    slo: tuple[str, ...]
    """The limits of the response time, the wait for a connection included"""
    best: BestSize | None
    """null: no size meets the limits"""
    sentence: str
    lower_bound: bool
    """true: something other than the server ends it, the load generator or other programs"""
    highest: HighestOfSizes | None
    """null: nothing was measured"""
    tried_max: int
    """The largest size that was measured"""
    curve: tuple[SizePoint, ...]
    limit: Verdict
    """The resource or the wait that limits the best size"""
    limit_beyond: Verdict
    """The parts that the time goes to beyond the best size; a finding, if one explains what grows
    most"""
    beyond: Beyond | None
    """null: no larger size was measured"""
    settings: Annotated[tuple[PoolSettings, ...], Field(description="empty: no size is best")]
    arithmetic: Arithmetic | None
    """null: no size is best"""
    application: ApplicationPools | None = None
    """null: the application has no pools in front of a pooler"""
    sustained: Sustained | None
    """With the best sizes; null: not measured"""
    out_of_time: bool
    """true: the budget ended before the answer was confirmed"""
    elapsed_s: float


Layer = PoolResult | ApplicationPools
"""The size that was looked for: the only one or the pooler's, or that of the application's pools in
front of it."""
