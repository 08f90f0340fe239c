"""The result of ``pgdyno storm``."""

from typing import Literal

from pydantic import ConfigDict

from pgdyno.record.part import Part
from pgdyno.results.common import Head


class Cause(Part):
    """Errors of one cause"""

    sqlstate: str
    """SQLSTATE, or a code of pgdyno such as connect-failed"""
    count: int
    message: str
    """Of the first"""


class StormPoint(Part):
    """A storm"""

    clients: int
    survived: bool
    """true: all clients were connected, and their transactions done, within the limit"""
    steady_s: float | None
    """Time until that; of several rises, the longest; null: not survived, or a leak, which has no
    such moment"""
    connected: int
    """Connections at the end"""
    connect_ms_p50: float | None
    """Time of an attempt that succeeded; null: too few"""
    connect_ms_p99: float | None
    response_ms_p99: float | None
    """Of transactions, counted from when they were due, the wait for a connection included; null:
    fewer than ten samples beyond it"""
    errors: tuple[Cause, ...]
    """The most frequent cause first; empty: none"""
    why: str
    """The reason why it was not survived; empty: it was"""


class Variant(Part):
    """Storms of the same size under one difference, in random order with those without it"""

    title: str
    """Empty: without a difference"""
    clients: int
    storms: int
    survived: int
    steady_s: float | None
    """Median of those survived; null: none"""
    steady_s_min: float | None
    steady_s_max: float | None
    errors: int
    """Of all of its storms"""
    connect_ms_p99: float | None
    """Median"""
    sentence: str


class StormResult(Head):
    model_config = ConfigDict(title="pgdyno storm --format json")

    shape: Literal["herd", "sawtooth", "leak", "retry"]
    group: str
    """The client group that arrives"""
    within_s: float
    """Time within which a storm must be over to be survived"""
    clients_max: int
    """The most clients that were to be tried"""
    largest: StormPoint | None
    """The largest storm that was survived; null: none"""
    failed: int | None
    """Clients of the smallest storm that was not survived, twice; null: none"""
    sentence: str
    points: tuple[StormPoint, ...]
    """All storms of the search, in their order"""
    variants: tuple[Variant, ...]
    """Effects of slow start and of a queue; empty: not measured"""
    untried: tuple[str, ...]
    """Differences for which the budget left no time"""
    out_of_time: bool
    """true: the budget ended before the search did"""
    elapsed_s: float
