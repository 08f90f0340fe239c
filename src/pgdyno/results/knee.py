"""The result of ``pgdyno knee``, and of the knee at the end of an investigation."""

from typing import Literal

from pydantic import ConfigDict

from pgdyno.record.part import Part
from pgdyno.results.common import Head, Interval95, Verdict


class Knee(Part):
    """The point that is the answer: the fewest clients with at least 95 % of the highest
    throughput, or the highest rate that meets the limits"""

    clients: int | None = None
    """absent: a rate was looked for"""
    rate_tps: float | None = None
    """absent: a number of clients was looked for"""
    tps: float
    ci95: Interval95 | None
    """null: too few repeats"""
    p99_ms: float | None
    """null: fewer than ten samples beyond it"""
    clients_ci95: tuple[int, int] | None = None
    """95 % interval of the clients, among the numbers measured"""


class Highest(Part):
    """The highest throughput, with the numbers of clients that noise cannot tell apart"""

    clients_min: int
    clients_max: int
    tps: float


class CurvePoint(Part):
    """A number of clients or a rate, over all its slices"""

    clients: int
    rate_tps: float | None = None
    """absent in a closed loop"""
    tps: float
    ci95: Interval95 | None
    """null: too few repeats"""
    p50_ms: float | None
    p99_ms: float | None
    """null: fewer than ten samples beyond it"""
    p99_ms_ci95: Interval95 | None
    """Of the 99th percentile of a slice; null: fewer than three slices"""
    slices: int
    seconds: float
    met: int | None = None
    """Slices that met the limits; absent in a closed loop"""
    steady: bool | None
    """false: throughput differed between the halves of its slices, or the backlog grew; null: one
    slice, which cannot tell"""
    why: str
    """The reason why it does not count as met or as steady; empty: it does"""


class Law(Part):
    """The Universal Scalability Law, X(N) = λN / (1 + σ(N - 1) + κN(N - 1)), fitted to the curve"""

    follows: bool
    """false: the curve does not follow it, and its figures say nothing"""
    sentence: str
    error: float | None
    """Root mean square of the relative misfit; null: not fitted"""
    single_tps: float | None
    """λ: throughput of one client alone"""
    single_tps_ci95: Interval95 | None
    contention: float | None
    """σ: share of the work that is serialized"""
    contention_ci95: Interval95 | None
    coherence: float | None
    """κ: cost of each pair of clients to each other"""
    coherence_ci95: Interval95 | None
    clients_at_knee: float | None
    """The clients at which growth in proportion would reach the law's highest throughput"""
    clients_at_peak: float | None
    """null: it levels off without a maximum"""


class Sustained(Part):
    """The long slice at the answer, at the end"""

    seconds: float
    tps: float
    p99_ms: float | None
    steady: bool | None
    """null: too short to tell"""
    sentence: str


class Capacity(Part):
    """The most that the server takes"""

    varied: Literal["clients", "rate"]
    group: str
    """The client group that was varied"""
    slo: tuple[str, ...]
    """The limits that a rate must meet; empty for clients"""
    knee: Knee | None
    """null: there is none within what could be tried, or no rate meets the limits"""
    sentence: str
    lower_bound: bool
    """true: something other than the server ends it, the load generator or other programs, so that
    the server takes at least this"""
    highest: Highest | None
    """null: a rate was looked for, or nothing was measured"""
    tried_max: float
    """The most clients, or the highest rate, that were measured"""
    curve: tuple[CurvePoint, ...]
    law: Law | None
    """null: a rate was looked for"""
    limit: Verdict
    """The resource or the wait that ends it"""
    sustained: Sustained | None
    """null: not measured"""
    out_of_time: bool
    """true: the budget ended before the answer was confirmed"""
    elapsed_s: float


class KneeResult(Capacity, Head):
    model_config = ConfigDict(title="pgdyno knee --format json")
