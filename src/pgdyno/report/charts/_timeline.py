"""When a run was under load.

Between slices, while a server restarts and while a drill has the machine, nobody loads the server
that the charts are of: such time is drawn as nothing, and counts in no average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pgdyno.diagnose.intervals import GAP_MS
from pgdyno.record import Interval
from pgdyno.report.charts._series import Floats

EDGE_MS = 60
"""A probe that is read at a slice's edge may be this much outside of the load's own interval."""


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
