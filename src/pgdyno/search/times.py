"""The time budget of a search, and how it is divided."""

from __future__ import annotations

import time

from pgdyno.errors import UsageError
from pgdyno.spec.units import format_duration

BUDGET_MS = 150_000
BUDGET_MS_MIN = 30_000
"""Seven doublings, eight repeats and the long slice, each as short as it can be."""
SLICES_MIN = 6
"""Slices without which nothing can be said, however slow the machine."""
_SLICE_SHARE = 1 / 60
_SLICE_SECONDS = (1.0, 30.0)
_HOLD_SHARE = 1 / 7
_HOLD_SECONDS = (4.0, 120.0)
"""From a budget of 2 min on, the long slice has the 16 values that show whether it is steady."""
_OVERHEAD_SECONDS = 1.0
"""Time of a slice in addition to its length, before the first one was measured."""


class Times:
    """Seconds of load, from its creation on."""

    def __init__(self, budget_s: float) -> None:
        self._began_s = time.monotonic()
        self._deadline_s = self._began_s + budget_s
        self.slice_s = _within(budget_s * _SLICE_SHARE, _SLICE_SECONDS)
        self.hold_s = _within(budget_s * _HOLD_SHARE, _HOLD_SECONDS)
        self._overheads_s: list[float] = []

    @property
    def elapsed_s(self) -> float:
        """Time since the beginning."""
        return time.monotonic() - self._began_s

    def took(self, seconds: float, *, measured_s: float) -> None:
        """Take note of how long a slice took in all."""
        self._overheads_s.append(max(seconds - measured_s, 0.0))

    @property
    def slices_left(self) -> int:
        """Number of slices for which there is time before the long one; the first few are measured
        in any case."""
        each_s = self.slice_s + self._overhead_s
        in_time = int((self._left_s - self.hold_s - self._overhead_s) / each_s)
        return max(0, in_time, SLICES_MIN - len(self._overheads_s))

    @property
    def has_hold(self) -> bool:
        """True if there is time for another long slice."""
        return self._left_s >= self.hold_s

    @property
    def _left_s(self) -> float:
        return self._deadline_s - time.monotonic()

    @property
    def _overhead_s(self) -> float:
        known = self._overheads_s[-10:]
        return sum(known) / len(known) if known else _OVERHEAD_SECONDS


def check_budget(budget_ms: int, *, searches: int = 1) -> None:
    """Raise UsageError for a budget that is too short for so many searches."""
    least_ms = searches * BUDGET_MS_MIN
    if budget_ms < least_ms:
        what = "a search needs" if searches == 1 else f"{searches} sizes to look for need"
        raise UsageError(
            f"--budget {format_duration(budget_ms)}: {what} at least {format_duration(least_ms)}:"
            " about 15 slices each, and a long one at the end",
            code="contradiction",
            hint=f"--budget {format_duration(least_ms)}; the default is"
            f" {format_duration(BUDGET_MS)}",
        )


def _within(value: float, bounds: tuple[float, float]) -> float:
    return min(max(value, bounds[0]), bounds[1])
