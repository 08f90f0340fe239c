"""When a run was under load, and its intervals without those too short to make a rate.

Between slices, while a server restarts and while a drill has the machine, nobody loads the server
that the charts are of: such time is drawn as nothing, and counts in no average.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from pgdyno.record import Interval
from pgdyno.report.series import Floats

GAP_MS = 400
"""Intervals follow each other; further apart than this, the load was down in between."""
EDGE_MS = 60
"""A probe that is read at a slice's edge may be this much outside of the load's own interval."""
SHORT_SHARE = 0.5
"""A rate over less than this part of the usual interval jumps."""
_SUMMED = ("intended", "sent", "done", "failed", "skipped", "cancelled", "retried")
_TAKEN_LAST = ("clients", "connections", "backlog")


@dataclass(frozen=True)
class Timeline:
    """The stretches under load in order, as pairs of begin and end in milliseconds."""

    stretches: Sequence[tuple[float, float]]

    @classmethod
    def of(cls, intervals: Sequence[Interval], end_ms: float) -> Timeline:
        """The stretches that ``intervals`` cover; without any, all of the time until ``end_ms``."""
        found: list[tuple[float, float]] = []
        for each in intervals:
            ended_ms = each.at_ms + each.duration_ms
            if found and each.at_ms - found[-1][1] <= GAP_MS:
                found[-1] = (found[-1][0], max(found[-1][1], ended_ms))
            else:
                found.append((each.at_ms, ended_ms))
        return cls(found or [(0.0, end_ms)])

    def number_of(self, at_ms: Floats) -> npt.NDArray[np.intp]:
        """For each moment the number of its stretch, or of the last one before it."""
        begins = np.array([begin for begin, _ in self.stretches]) - EDGE_MS
        return np.searchsorted(begins, at_ms, side="right") - 1

    def under_load(self, at_ms: Floats) -> npt.NDArray[np.bool_]:
        """Which of the moments lie within a stretch."""
        numbers = self.number_of(at_ms)
        ends = np.array([end for _, end in self.stretches])
        return (numbers >= 0) & (at_ms <= ends[np.maximum(numbers, 0)] + EDGE_MS)


def timed(intervals: Sequence[Interval]) -> list[Interval]:
    """``intervals`` of one series, the short ones merged with a neighbour in their slice, or left
    out where they have none."""
    if not intervals:
        return []
    least_ms = SHORT_SHARE * float(np.median([each.duration_ms for each in intervals]))
    return [each for each in _merged(intervals, least_ms) if each.duration_ms >= least_ms]


def _merged(intervals: Sequence[Interval], least_ms: float) -> Iterator[Interval]:
    before: Interval | None = None
    for each in intervals:
        if before is None:
            before = each
        elif min(before.duration_ms, each.duration_ms) < least_ms and _follows(before, each):
            before = _together(before, each)
        else:
            yield before
            before = each
    if before is not None:
        yield before


def _follows(before: Interval, after: Interval) -> bool:
    gap_ms = after.at_ms - before.at_ms - before.duration_ms
    return before.slice_id == after.slice_id and gap_ms <= GAP_MS


def _together(before: Interval, after: Interval) -> Interval:
    names = {each.name for each in fields(Interval)}
    summed = {
        name: getattr(before, name) + getattr(after, name) for name in _SUMMED if name in names
    }
    last = {name: getattr(after, name) for name in _TAKEN_LAST}
    return replace(before, duration_ms=before.duration_ms + after.duration_ms, **summed, **last)
