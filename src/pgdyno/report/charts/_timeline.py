"""The periods in which a run was under load.

There is no load between slices, during restarts and during drills. Such periods are gaps in the
charts and are left out of averages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from pgdyno.diagnose.facts.intervals import GAP_MS
from pgdyno.record import Interval
from pgdyno.report.charts._series import Floats

EDGE_MS = 60
"""Tolerance for samples that are taken at a slice boundary, just outside an interval."""


class Timeline(Struct, frozen=True):
    """The periods under load in order, as pairs of start and end in milliseconds."""

    periods: Sequence[tuple[float, float]]

    @classmethod
    def of(cls, intervals: Sequence[Interval], end_ms: float) -> Timeline:
        """Return the periods that ``intervals`` cover; without any, all time until ``end_ms``."""
        found: list[tuple[float, float]] = []
        for each in intervals:
            ended_ms = each.at_ms + each.duration_ms
            if found and each.at_ms - found[-1][1] <= GAP_MS:
                found[-1] = (found[-1][0], max(found[-1][1], ended_ms))
            else:
                found.append((each.at_ms, ended_ms))
        return cls(found or [(0.0, end_ms)])

    def number_of(self, at_ms: Floats) -> npt.NDArray[np.intp]:
        """Return for each time the number of its period, or of the last one before it."""
        begins = np.array([begin for begin, _ in self.periods]) - EDGE_MS
        return np.searchsorted(begins, at_ms, side="right") - 1

    def under_load(self, at_ms: Floats) -> npt.NDArray[np.bool_]:
        """Return for each time whether it is within a period."""
        numbers = self.number_of(at_ms)
        ends = np.array([end for _, end in self.periods])
        return (numbers >= 0) & (at_ms <= ends[np.maximum(numbers, 0)] + EDGE_MS)
