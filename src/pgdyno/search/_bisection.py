"""The search for the highest point that is met, by doubling, and then bisection with repeats.

``RateSearch`` looks for the highest rate within a limit. Rates are doubled until one is not held,
then halved in ratio between the highest that is and the lowest that is not. A slice may fail by
chance, as by a stall of the disk that comes at any rate: a rate counts as met if most of its slices
met the limit, and as too high once three more have failed than met. (Simulated with stalls in a
fifth of the slices, nine answers of ten are within 10 % of the rate that overloads the server; with
two failures for "too high" and two thirds for "met" it was one of two.) What disturbs a slice may
disturb the next one too, so that a rate is not measured again at once but after another one. The
two rates that decide are measured until each has its result three times.

``StormSearch`` looks for the largest storm that is survived. One that is not is made once more, and
counts only if that one is not either: one stall of the machine is no limit of the server.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

PRECISION = 1.05
"""Ratio of the lowest rate that is too high to the highest that is met, at the end."""
GROWTH = 2.0
FIRST_STEPS_DOWN = 4.0
"""Ratio of the next rate that is tried if even the first is too high."""
CONFIRMED = 3
"""Slices with the same result at each of the two rates that decide."""
FAILURES_MIN = 3
"""So many more slices have failed than met at a rate that is too high."""
DOUBTED_MAX = 7
"""Slices of a rate after which it is no longer doubted."""
STORM_FIRST_SHARE = 16
"""The first storm has this part of the most clients."""
STORM_GAP_MAX = 1.25
"""Ratio of the smallest storm that was not survived to the largest that was, at the end."""
STORM_FAILURES_MIN = 2

Status = Literal["met", "too high", "undecided"]
Point = TypeVar("Point", int, float)


@dataclass
class Tally:
    """The measurements at one point."""

    met: int = 0
    failed: int = 0
    rejected: bool = False
    """True after a long slice that failed."""

    @property
    def slices(self) -> int:
        """Number of measurements."""
        return self.met + self.failed


class Bisection(ABC, Generic[Point]):
    """The points measured, and the two between which the limit lies."""

    def __init__(self) -> None:
        self.tallies: dict[Point, Tally] = {}
        self.last: Point | None = None
        """The point measured last."""

    def add(self, point: Point, *, met: bool) -> None:
        """Take note of a measurement."""
        tally, self.last = self.tallies.setdefault(point, Tally()), point
        if met:
            tally.met += 1
        else:
            tally.failed += 1

    @property
    def met(self) -> Point | None:
        """The highest point that is met and has none below it that is too high."""
        ceiling = self.too_high
        below = (each for each in self._of("met") if ceiling is None or each < ceiling)
        return max(below, default=None)

    @property
    def too_high(self) -> Point | None:
        """The lowest point that is too high; None if all are met."""
        return min(self._of("too high"), default=None)

    def status(self, point: Point) -> Status:
        """Judge the measurements at a point."""
        return self._judged(self.tallies[point])

    @abstractmethod
    def _judged(self, tally: Tally) -> Status: ...

    def _of(self, status: Status) -> list[Point]:
        return sorted(point for point in self.tallies if self.status(point) == status)


class RateSearch(Bisection[float]):
    """A search: the rates to measure next, and the highest by those measured."""

    def __init__(self, first: float, rate_min: float, rate_max: float, rng: random.Random) -> None:
        super().__init__()
        self.first, self.rate_min, self.rate_max, self._rng = first, rate_min, rate_max, rng

    def _judged(self, tally: Tally) -> Status:
        if tally.rejected:
            return "too high"
        if tally.met > tally.failed:
            return "met"
        return "too high" if tally.failed - tally.met >= FAILURES_MIN else "undecided"

    def reject(self, rate: float) -> None:
        """Take note that a rate was not held over a long slice."""
        self.tallies.setdefault(rate, Tally()).rejected = True

    @property
    def confirmed(self) -> bool:
        """True if the rate that is the answer was met often enough."""
        return self.met is not None and self.tallies[self.met].met >= CONFIRMED

    def next_rate(self) -> float | None:
        """Return the rate of the next slice; None at the end of the search."""
        if not self.tallies:
            return self.first
        waiting = self._waiting()
        apart = [rate for rate in waiting if rate != self.last] or waiting
        return self._rng.choice(apart) if apart else None

    def _waiting(self) -> list[float]:
        """Return the rates of which one is measured next."""
        if undecided := self._of("undecided"):
            return [*undecided, *self._below(undecided[0])]
        if (doubted := self._doubted()) is not None:
            return [doubted]
        low, high = self.met, self.too_high
        if low is None:
            return self._lower()
        if high is None:
            return [min(low * GROWTH, self.rate_max)] if low < self.rate_max else []
        if high / low > PRECISION:
            return [self._between(low, high)]
        return self._to_confirm(low, high)

    def _below(self, undecided: float) -> list[float]:
        """Return the rate between one that is undecided and the highest that is met, if any."""
        low = self.met
        if low is None or low >= undecided or undecided / low <= PRECISION:
            return [] if low is None or low >= undecided else [low]
        return [self._between(low, undecided)]

    def _to_confirm(self, low: float, high: float) -> list[float]:
        """Return those of the two rates that decide which were not measured often enough."""
        below, above = self.tallies[low], self.tallies[high]
        sure = above.rejected or above.failed >= CONFIRMED or above.slices >= DOUBTED_MAX
        return [*([low] if below.met < CONFIRMED else []), *([] if sure else [high])]

    def _lower(self) -> list[float]:
        lowest = min(self.tallies)
        return [max(lowest / FIRST_STEPS_DOWN, self.rate_min)] if lowest > self.rate_min else []

    @staticmethod
    def _between(low: float, high: float) -> float:
        return three_digits(math.sqrt(low * high))

    def _doubted(self) -> float | None:
        """Return the lowest rate that is too high, if a higher one was met."""
        ceiling = self.too_high
        if ceiling is None or not any(rate > ceiling for rate in self._of("met")):
            return None
        tally = self.tallies[ceiling]
        return ceiling if tally.slices < DOUBTED_MAX and not tally.rejected else None


class StormSearch(Bisection[int]):
    """A search: the size of the next storm, and the largest survived by those made."""

    def __init__(self, clients_max: int) -> None:
        super().__init__()
        self._clients_max = clients_max

    def _judged(self, tally: Tally) -> Status:
        if tally.met:
            return "met"
        return "too high" if tally.failed >= STORM_FAILURES_MIN else "undecided"

    def next_clients(self) -> int | None:
        """Return the clients of the next storm; None at the end of the search."""
        if failed_once := self._of("undecided"):
            return failed_once[0]
        survived, failed = self.met, self.too_high
        if failed is None:
            return self._larger(survived)
        if failed == 1 or (survived and failed / survived <= STORM_GAP_MAX):
            return None
        between = round((survived * failed) ** 0.5) if survived else max(failed // 2, 1)
        return between if between not in (survived, failed) else None

    def _larger(self, survived: int | None) -> int | None:
        if survived is None:
            return -(-self._clients_max // STORM_FIRST_SHARE)
        return None if survived >= self._clients_max else min(2 * survived, self._clients_max)


def three_digits(rate: float) -> float:
    """Return a rate with three significant digits, as people name one."""
    return float(f"{rate:.3g}")
