"""The search for the highest rate that meets a limit, by bisection with repeats.

Rates are doubled until one is not held within the limit, then halved in ratio between the highest
that is and the lowest that is not. A slice may fail by chance, as by a stall of the disk that comes
at any rate: a rate counts as met if most of its slices met the limit, and as too high once three
more have failed than met. (Simulated with stalls in a fifth of the slices, nine answers of ten are
within 10 % of the rate that overloads the server; with two failures for "too high" and two thirds
for "met" it was one of two.) What disturbs a slice may disturb the next one too, so that a rate is
not measured again at once but after another one. The two rates that decide are measured until each
has its result three times.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Literal

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

Status = Literal["met", "too high", "undecided"]


@dataclass
class Tally:
    """The slices at one rate."""

    met: int = 0
    failed: int = 0
    rejected: bool = False
    """True after a long slice that failed."""

    @property
    def slices(self) -> int:
        """Number of slices."""
        return self.met + self.failed

    @property
    def status(self) -> Status:
        """The judgement of the slices."""
        if self.rejected:
            return "too high"
        if self.met > self.failed:
            return "met"
        return "too high" if self.failed - self.met >= FAILURES_MIN else "undecided"


@dataclass
class RateSearch:
    """A search: the rates to measure next, and the highest by those measured."""

    first: float
    rate_min: float
    rate_max: float
    rng: random.Random
    tallies: dict[float, Tally] = field(default_factory=dict)
    last: float | None = None
    """The rate of the last slice."""

    def add(self, rate: float, *, met: bool) -> None:
        """Take note of a slice."""
        tally, self.last = self.tallies.setdefault(rate, Tally()), rate
        if met:
            tally.met += 1
        else:
            tally.failed += 1

    def reject(self, rate: float) -> None:
        """Take note that a rate was not held over a long slice."""
        self.tallies.setdefault(rate, Tally()).rejected = True

    @property
    def met(self) -> float | None:
        """The highest rate that meets the limit and has no rate below it that is too high."""
        return max((rate for rate in self._of("met") if rate < self._ceiling), default=None)

    @property
    def too_high(self) -> float | None:
        """The lowest rate that is too high; None if all rates are met."""
        return None if math.isinf(self._ceiling) else self._ceiling

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
        return self.rng.choice(apart) if apart else None

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
        ceiling = self._ceiling
        if not any(rate > ceiling for rate in self._of("met")):
            return None
        tally = self.tallies[ceiling]
        return ceiling if tally.slices < DOUBTED_MAX and not tally.rejected else None

    @property
    def _ceiling(self) -> float:
        return min(self._of("too high"), default=math.inf)

    def _of(self, status: Status) -> list[float]:
        return sorted(rate for rate, tally in self.tallies.items() if tally.status == status)


def three_digits(rate: float) -> float:
    """Return a rate with three significant digits, as people name one."""
    return float(f"{rate:.3g}")
