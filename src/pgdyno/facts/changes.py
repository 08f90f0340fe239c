"""Sudden changes within a period under one load: of throughput, and of response times of all client
groups together and of each where there are several.

The more series are searched, the more of them seem to change by chance: the significance asked of
each takes their number into account. What all groups show alike is said once, of the whole; what
only some of them show is said of these, because in the whole they would drown, or be blamed on all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import sub
from statistics import mean, median

from msgspec import Struct

from pgdyno.facts.intervals import GAP_MS
from pgdyno.numbers import figure
from pgdyno.record import Interval, RunFile, samples_needed
from pgdyno.stats import POINTS_MIN, change_points
from pgdyno.stats.changes import SEGMENT_MIN
from pgdyno.stats.steady import DRIFT_MATTERS

SUDDEN_SHARE = 0.5
"""Share of a level change that the adjacent seconds must show; otherwise it is a slow drift."""
PERCENTILES = (50, 99)
SAME_MS = 2000
"""Changes of two series at most this far apart are at the same moment."""
SAME_RATIO = 1.25
"""Two ratios that differ by less say the same: in a closed loop, throughput times response time is
the number of clients (Little's law)."""
AMPLE = 1.25
"""Transactions of the mean interval over those that a percentile needs, from which on nearly every
interval has enough; with fewer, intervals are merged."""
_POINTS_MAX = 2000


class SeriesChange(Struct, frozen=True):
    """A moment at which a series went from one level to another, both medians of intervals."""

    at_ms: int
    before: float
    after: float
    overlapped: tuple[str, ...] = ()
    """Events and samples around it."""

    @property
    def ratio(self) -> float:
        """Level after, relative to that before; infinite if that was 0."""
        return self.after / self.before if self.before else math.inf

    def _sentence(self, series: str, unit: str) -> str:
        went = "fell" if self.after < self.before else "rose"
        beside = (
            f"overlapped with {'; '.join(self.overlapped)}"
            if self.overlapped
            else "nothing that was watched overlapped it"
        )
        levels = f"from {figure(self.before)} to {figure(self.after)} {unit}"
        return f"{series} {went} {levels}; {beside}"


class ThroughputChange(SeriesChange, frozen=True):
    """A change of throughput, in transactions per second."""

    @property
    def sentence(self) -> str:
        """Text of the change, without its time."""
        return self._sentence("throughput", "tps")

    def to_json(self) -> dict[str, object]:
        """Return the form in results."""
        return {
            "at_s": round(self.at_ms / 1000, 1),
            "before_tps": round(self.before, 2),
            "after_tps": round(self.after, 2),
            "overlapped_with": list(self.overlapped),
            "sentence": self.sentence,
        }


def sudden_changes(
    values: Sequence[float], *, beside: int = 1
) -> Iterator[tuple[int, float, float]]:
    """Yield index, level before and level after of the changes that matter and are sudden, where
    ``beside`` series in all are searched."""
    edges = [0, *change_points(values, beside=beside), len(values)]
    for (start, point), (_, end) in pairwise(pairwise(edges)):
        before, after = median(values[start:point]), median(values[point:end])
        moved = after - before
        if abs(moved) < DRIFT_MATTERS * max(before, after):
            continue
        after_it, before_it = (
            values[point : point + SEGMENT_MIN],
            values[point - SEGMENT_MIN : point],
        )
        if (mean(after_it) - mean(before_it)) / moved >= SUDDEN_SHARE:
            yield point, before, after


def throughput_changes(period: Sequence[Interval], *, beside: int) -> Iterator[ThroughputChange]:
    """Changes of throughput within a period under one load, where ``beside`` series in all are
    searched."""
    rates = [each.throughput_tps for each in period]
    for point, before, after in sudden_changes(rates, beside=beside):
        yield ThroughputChange(period[point].at_ms, before, after)


Point = tuple[int, float]
"""Start in ms since the start of the run, and a percentile in ms."""
Stretches = Sequence[Sequence[Point]]
"""The points of each period under one load."""


class PercentileChange(SeriesChange, frozen=True, kw_only=True):
    """A change of a percentile of the response time, in milliseconds."""

    percentile: int
    group: str | None = None
    """The client group; None for all of them together."""
    within_ms: int = 0
    """Time between two points of the series, where it is longer than ``SAME_MS``: the moment is
    known to within this."""

    @property
    def sentence(self) -> str:
        """Text of the change, without its time."""
        series = f"p{self.percentile} of the response time"
        if self.group is not None:
            series += f" of group {self.group}"
        merged = f" (one value for each {self.within_ms / 1000:.0f} s)" if self.within_ms else ""
        return self._sentence(series, "ms" + merged)

    def to_json(self) -> dict[str, object]:
        """Return the form in results."""
        return {
            "at_s": round(self.at_ms / 1000, 1),
            "within_s": round(self.within_ms / 1000, 1),
            "client_group": self.group,
            "percentile": self.percentile,
            "before_ms": round(self.before, 3),
            "after_ms": round(self.after, 3),
            "overlapped_with": list(self.overlapped),
            "sentence": self.sentence,
        }

    def is_with(self, other: SeriesChange) -> bool:
        """True if another series changed at the same moment."""
        others_ms = other.within_ms if isinstance(other, PercentileChange) else 0
        return abs(self.at_ms - other.at_ms) <= max(SAME_MS, self.within_ms, others_ms)

    def is_said_by_any(self, others: Iterable[SeriesChange]) -> bool:
        """True if one of the other changes says the same."""
        return any(self.is_said_by(other) for other in others)

    def is_said_by(self, other: SeriesChange) -> bool:
        """True if the change of another series, at the same moment, says the same."""
        ratio = (
            other.ratio if isinstance(other, PercentileChange) else 1 / (other.ratio or math.inf)
        )
        alike = bool(ratio) and 1 / SAME_RATIO <= self.ratio / ratio <= SAME_RATIO
        return alike and self.is_with(other)


class LatencySeries(Struct, frozen=True):
    """A percentile of the response time over time, of one client group or of all."""

    percentile: int
    group: str | None
    stretches: Stretches
    within_ms: int = 0
    """As in ``LatencyChange``."""

    @property
    def is_searched(self) -> bool:
        """True if a period has enough points to look for changes."""
        return any(len(points) >= POINTS_MIN for points in self.stretches)

    def changes(self, beside: int) -> list[PercentileChange]:
        """Return the changes, where so many series are searched beside each other."""
        return [
            PercentileChange(
                points[index][0],
                before,
                after,
                percentile=self.percentile,
                group=self.group,
                within_ms=self.within_ms,
            )
            for points in self.stretches
            if len(points) >= POINTS_MIN
            for index, before, after in sudden_changes(
                [value for _, value in points], beside=beside
            )
        ]


def latency_series(
    run: RunFile, slice_ids: Sequence[int], periods: Sequence[Sequence[Interval]]
) -> list[LatencySeries]:
    """Return the series of ``run``: of the whole, and of each client group if several worked."""
    groups = working_groups(run, slice_ids)
    named: list[str | None] = [None, *(groups if len(groups) > 1 else ())]
    return [each for group in named for each in _series_of(run, slice_ids, group, periods)]


def working_groups(run: RunFile, slice_ids: Sequence[int]) -> list[str]:
    """Return the names of the client groups that did transactions."""
    done = (
        interval.client_group
        for interval in run.intervals(slice_ids, by=("client_group",))
        if interval.done and interval.client_group is not None
    )
    return list(dict.fromkeys(done))


def _series_of(
    run: RunFile,
    slice_ids: Sequence[int],
    group: str | None,
    periods: Sequence[Sequence[Interval]],
) -> Iterator[LatencySeries]:
    """Yield the series of a group, of intervals merged until a point has enough transactions."""

    def read(points_max: int) -> dict[str, list[float]]:
        columns = run.latency_series(
            "response",
            PERCENTILES,
            slice_ids,
            group=group,
            points_max=points_max,
            enough_only=True,
        )
        return {name: column.tolist() for name, column in columns.items()}

    each_interval = read(_POINTS_MAX)
    count = len(each_interval["at_ms"])
    total = run.histogram("response", slice_ids, group=group).count
    for percentile in PERCENTILES:
        fitting = int(total / (AMPLE * samples_needed(percentile)))
        merges = POINTS_MIN <= fitting < count
        points = read(fitting) if merges else each_interval
        at_ms = [int(each) for each in points["at_ms"]]
        apart_ms = int(median(map(sub, at_ms[1:], at_ms))) if len(at_ms) > 1 else 0
        values = points[f"p{percentile}"]
        stretches = [_within(period, at_ms, values) for period in periods]
        yield LatencySeries(percentile, group, stretches, apart_ms if apart_ms > SAME_MS else 0)


def _within(
    period: Sequence[Interval], at_ms: Sequence[int], values: Sequence[float]
) -> list[Point]:
    """Return the points that lie within a period and are known.

    A point, of which a long run's histograms are merged too, ends where the next begins.
    """
    end_ms = period[-1].at_ms + period[-1].duration_ms + GAP_MS
    return [
        (start, value)
        for start, end, value in zip(at_ms, [*at_ms[1:], end_ms], values, strict=True)
        if start >= period[0].at_ms and end <= end_ms and value == value
    ]


def latency_changes(
    series: Sequence[LatencySeries], of_rate: Sequence[SeriesChange], *, beside: int
) -> tuple[list[PercentileChange], bool]:
    """Return the changes that no other says, nor one of throughput, ``of_rate``; and whether there
    are any at all. ``beside`` series are searched in all."""
    listed: list[PercentileChange] = []
    seen: list[PercentileChange] = []
    of_all: list[PercentileChange] = []
    for percentile in PERCENTILES:
        changes = {
            each.group: each.changes(beside)
            for each in series
            if each.percentile == percentile and each.is_searched
        }
        of_whole = changes.pop(None, [])
        of_groups = [change for each in changes.values() for change in each]
        for change in of_whole:
            theirs = [each for each in of_groups if each.is_with(change)]
            if theirs and not _is_alike(change, theirs, len(changes)):
                continue
            of_groups = [each for each in of_groups if each not in theirs]
            of_all.append(change)
            if not change.is_said_by_any([*of_rate, *seen]):
                listed.append(change)
        for change in of_groups:
            same = [each for each in seen if each.group == change.group]
            if not change.is_said_by_any([*same, *of_all]):
                listed.append(change)
        seen += [*of_whole, *(change for each in changes.values() for change in each)]
    return listed, bool(seen)


def _is_alike(
    of_whole: PercentileChange, of_groups: Sequence[PercentileChange], groups: int
) -> bool:
    """True if every one of so many groups changed as the whole did."""
    return len({each.group for each in of_groups}) == groups and all(
        each.is_said_by(of_whole) for each in of_groups
    )


def searched(series: Iterable[LatencySeries]) -> int:
    """Return how many series are searched: these as far as they have enough points, and
    throughput."""
    return 1 + sum(each.is_searched for each in series)


def unsearched_groups(series: Sequence[LatencySeries]) -> list[str]:
    """Return the groups of which no percentile could be searched."""
    known = {each.group for each in series if each.is_searched}
    named = dict.fromkeys(each.group for each in series if each.group is not None)
    return [name for name in named if name not in known]
