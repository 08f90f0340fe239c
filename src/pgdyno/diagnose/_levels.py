"""Sudden changes of level within a period under one load, and those of throughput."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean, median

from msgspec import Struct

from pgdyno.numbers import figure
from pgdyno.record import Interval
from pgdyno.stats import change_points
from pgdyno.stats.changes import SEGMENT_MIN
from pgdyno.stats.steady import DRIFT_MATTERS

SUDDEN_SHARE = 0.5
"""Share of a level change that the adjacent seconds must show; otherwise it is a slow drift."""


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
