"""The slices of a search by point, and their figures together: level, response time, whether it
lasts.

A point has one throughput and one p99, in the curve, the answer and every sentence: those of its
shorter slices. The throughput is their geometric mean, as that of a trial's side is; where points
were measured in rounds, it is that of the average round (``stats/levels.py``). Percentiles are
those of all their transactions. The long slice has figures of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict

from msgspec import Struct

from pgdyno import numbers
from pgdyno._engine import Histogram
from pgdyno.diagnose import Diagnosis
from pgdyno.record import Distribution, RunFile
from pgdyno.results.common import Verdict
from pgdyno.results.knee import Sustained
from pgdyno.search._points import PointSlice, is_steady
from pgdyno.search._sizes import KNEE_SHARE, KneeEstimate
from pgdyno.search.slo import Limit
from pgdyno.stats import geometric_mean, mean_bounds
from pgdyno.trial.result import Steadiness, limit_of, steadiness

LASTS_SHARE = 0.9
"""Share of the throughput of the shorter slices below which the long one is said to have less."""
SLICES_FOR_INTERVAL = 3


class Hold(Struct, frozen=True):
    """The long slice."""

    point: float
    measured: PointSlice
    steadiness: Steadiness
    """As ``pgdyno run`` has it."""

    @classmethod
    def of(cls, run: RunFile, point: float, measured: PointSlice) -> Hold:
        """Return the long slice with the judgement of its seconds."""
        return cls(point, measured, steadiness(run, [measured.slice_id]))

    @property
    def steady(self) -> bool | None:
        """True if the throughput became steady; None if the slice is too short to tell."""
        if self.measured.behind:
            return False
        return self.steadiness.steady


@dataclass
class Curve:
    """All slices, by point."""

    points: dict[float, list[PointSlice]] = field(default_factory=dict)

    def add(self, point: float, measured: PointSlice) -> None:
        """Add a slice."""
        self.points.setdefault(point, []).append(measured)

    def ids(self, point: float) -> list[int]:
        """Return the ids of a point's slices."""
        return [each.slice_id for each in self.points.get(point, [])]


class Searched(Struct, frozen=True, kw_only=True):
    """The measurements of a search that has ended."""

    group: str
    limits: tuple[Limit, ...]
    curve: Curve
    hold: Hold | None
    limit: Diagnosis | None
    """Of the slices at the answer, or where no more is held."""
    out_of_time: bool
    elapsed_s: float


class SearchFigures(TypedDict):
    """The members that the results of all searches have."""

    group: str
    slo: tuple[str, ...]
    lower_bound: bool
    tried_max: float
    limit: Verdict
    out_of_time: bool
    elapsed_s: float


def search_figures(searched: Searched) -> SearchFigures:
    """Return the members of a result that do not depend on what was varied."""
    return {
        "group": searched.group,
        "slo": tuple(str(each) for each in searched.limits),
        "lower_bound": is_lower_bound(searched.limit),
        "tried_max": max(searched.curve.points, default=0),
        "limit": limit_verdict(searched.limit),
        "out_of_time": searched.out_of_time,
        "elapsed_s": round(searched.elapsed_s, 1),
    }


class PointLevel(NamedTuple):
    """A throughput, with its 95 % interval."""

    tps: float
    ci95: tuple[float, float] | None


def level_of_size(found: KneeEstimate | None, curve: Curve, size: int) -> PointLevel:
    """Return the level of a size, which only a size that counts has in the search's levels."""
    if found is None or size not in found.levels.points:
        return PointLevel(round(mean_tps(curve.points[size]), 2), None)
    interval = found.levels.interval(found.levels.points.index(size))
    return PointLevel(round(found.level(size), 2), rounded_bounds(interval))


def level_of_rate(slices: Sequence[PointSlice]) -> PointLevel:
    """Return the level of a rate, of which each slice is as good as another."""
    return PointLevel(round(mean_tps(slices), 2), interval_of([each.tps for each in slices]))


class PointFigures(TypedDict):
    """The members that a point has in the curve, whatever was varied."""

    tps: float
    ci95: tuple[float, float] | None
    p50_ms: float | None
    p99_ms: float | None
    p99_ms_ci95: tuple[float, float] | None
    slices: int
    seconds: float
    steady: bool | None


def point_figures(level: PointLevel, slices: Sequence[PointSlice]) -> PointFigures:
    """Return the figures of a point over all its slices."""
    percentiles = Distribution.of(merged_response(slices)).percentiles_ns
    p50, p99 = percentiles[50.0], percentiles[99.0]
    each_ms = [each.response.percentile(99) / 1e6 for each in slices if each.response.count]
    return {
        "tps": level.tps,
        "ci95": level.ci95,
        "p50_ms": None if p50 is None else round(p50 / 1e6, 3),
        "p99_ms": None if p99 is None else round(p99 / 1e6, 3),
        "p99_ms_ci95": None if p99 is None else interval_of(each_ms),
        "slices": len(slices),
        "seconds": round(sum(each.seconds for each in slices), 2),
        "steady": is_steady(slices),
    }


def unsteady_words(steady: bool | None) -> str:
    """Return why a size does not count as steady; '' if it does."""
    return "throughput drifted within its slices" if steady is False else ""


def limits_words(searched: Searched) -> str:
    """Return the limits of the response time; '' if there are none."""
    return " and ".join(str(each) for each in searched.limits)


def bounds_words(bounds: tuple[int, int]) -> str:
    """Return the interval of the answer; '' if it has one value."""
    low, high = bounds
    return "" if low == high else f" (95 % interval {low:,} to {high:,})"


def top_words(found: KneeEstimate) -> str:
    """Return the sizes with the highest throughput."""
    low, high = min(found.top), max(found.top)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def rank_words(
    found: KneeEstimate, top: str, level: str, *, have: str = "have", limits: str = "", of: str = ""
) -> str:
    """Return how the answer, with its ``level``, ranks among the sizes within the ``limits``, of
    which ``top`` have the highest throughput."""
    if found.top == (found.knee,):
        return f", which {have} the highest throughput{limits}: {level}"
    share = numbers.percent(KNEE_SHARE)
    words = f", the fewest with at least {share} of the highest throughput{limits}: {level}"
    if found.knee in found.top:
        return f"{words}; the noise does not tell {top} apart"
    return f"{words}; the highest, {numbers.tps(found.top_tps)} tps, has {of}{top}"


def merged_response(slices: Sequence[PointSlice]) -> Histogram:
    """Return the response times of all the slices."""
    merged = Histogram()
    for each in slices:
        merged.add(each.response)
    return merged


def p99_ms_of(slices: Sequence[PointSlice]) -> float | None:
    """Return p99 over the slices; None for too few transactions."""
    p99_ns = Distribution.of(merged_response(slices)).percentiles_ns[99.0]
    return None if p99_ns is None else round(p99_ns / 1e6, 3)


def mean_tps(slices: Sequence[PointSlice]) -> float:
    """Return the throughput of the slices: their geometric mean; 0 if one of them did nothing."""
    values = [each.tps for each in slices]
    return geometric_mean(values) if values and min(values) > 0 else 0.0


def interval_of(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the geometric mean; None for too few values."""
    if len(values) < SLICES_FOR_INTERVAL or min(values) <= 0:
        return None
    low, high = mean_bounds([math.log(value) for value in values])
    return rounded_bounds((math.exp(low), math.exp(high)))


def rounded_bounds(bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    """Return the bounds as results have them."""
    return None if bounds is None else (round(bounds[0], 3), round(bounds[1], 3))


def limit_verdict(diagnosis: Diagnosis | None) -> Verdict:
    """Return the limit that ends the curve."""
    if diagnosis is None:
        return Verdict(finding=None, sentence="not examined: too little was measured where it ends")
    return limit_of(diagnosis)


def sustained(hold: Hold | None, curve_tps: Mapping[float, float]) -> Sustained | None:
    """Return the figures of the long slice, beside the throughput of its point in the curve."""
    if hold is None:
        return None
    measured = hold.measured
    share = measured.tps / max(curve_tps[hold.point], 1e-9)
    less = f"; {numbers.percent(1 - share)} less than in the shorter slices"
    p99_ms = p99_ms_of([measured])
    latency = "" if p99_ms is None else f", p99 {numbers.significant(p99_ms)} ms"
    behind = f"; {measured.why}" if measured.why else ""
    return Sustained(
        seconds=round(measured.seconds, 2),
        tps=round(measured.tps, 2),
        p99_ms=p99_ms,
        steady=hold.steady,
        sentence=f"{numbers.tps(measured.tps)} tps over {measured.seconds:.0f} s{latency},"
        f" {hold.steadiness.sentence}{less if share < LASTS_SHARE else ''}{behind}",
    )


def is_lower_bound(limit: Diagnosis | None) -> bool:
    """Return whether something other than the server ends it: the load generator, other programs,
    other load."""
    found = limit.findings if limit else []
    return any(each.status == "found" and each.causes_distrust for each in found)


def bounded(sentence: str, limit: Diagnosis | None) -> str:
    """Return the sentence, with the note that the server may take more if that is so."""
    if not is_lower_bound(limit):
        return sentence
    return f"{sentence}; the server alone takes at least this: the limit is not its own"


def on_connection_ms(slices: Sequence[PointSlice], connections: int) -> float:
    """Return the mean time that a transaction has a connection of a pool: that from its first byte
    to its last answer, of which a pooler may have kept it waiting. By Little's law transactions
    have a connection for no longer than connections / throughput."""
    done = sum(each.response.count for each in slices)
    if not done:
        return 0.0
    service_ms = sum(each.service_ms * each.response.count for each in slices) / done
    seconds = sum(each.seconds for each in slices)
    tps = sum(each.tps * each.seconds for each in slices) / seconds
    return min(service_ms, 1000 * connections / tps) if tps else service_ms
