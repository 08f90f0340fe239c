"""The search for the fewest of something with at least 95 % of the highest throughput: clients, or
connections of a pool.

The size is doubled until the throughput has stopped growing. Then rounds follow, in random order:
each measures again the points that decide, and more between them (bisection): between the knee and
the next smaller size, and between the highest throughput and the next larger size. Earlier points
are returned to in each round, so that a machine that is slower for a while is not taken for a
property of a point (``stats/levels.py``).

The highest of several levels is too high by chance. Points that noise cannot tell from the highest
one are therefore taken together, and their mean is the highest throughput.

With a limit of the response time, only points that meet it count: the highest throughput is the
highest of theirs. If none does, all count, since that is where one could yet be found.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from pgdyno.stats.levels import PointLevels, Sample, levels

KNEE_SHARE = 0.95
"""Share of the highest throughput that the knee has at least."""
GROWTH_MIN = 0.05
"""Growth over two doublings of the size below which throughput has stopped growing. A server
that follows the law X = λN / (1 + σ(N - 1)) then has more than 95 % of what it can ever reach."""
LAST_GROWTH_MIN = 0.025
"""The same of the last doubling alone, where nothing larger may be tried."""
FALLS = 0.85
"""Share of the highest throughput below which nothing larger is tried."""
ALIKE_ERRORS = 1.5
"""Points closer to the highest one than so many standard errors count as equal to it, ..."""
ALIKE_SHARE = 0.8
"""... unless they have less than this share of it."""
GAP_MAX = 1.15
"""Ratio of two neighbouring sizes that are not told apart further."""
REPEATS_MIN = 4
REPEATS_MAX = 8
PRECISION = 0.03
"""A point that decides is measured until its interval is as narrow as this, four times at least
and eight times at most; all others twice."""
OTHERS_REPEATS = 2
NEW_SLICES_MIN = 8
"""Slices that are left at least when a new point is begun, so that it can be measured again."""
TOP_POINTS = 3
"""Points of the highest throughput that are measured again in each round."""
POINTS_MIN = 3
"""Points that were measured repeatedly, with which those that were not are left out."""
DRAWS = 300


class KneeEstimate(Struct, frozen=True):
    """The knee by the levels measured."""

    levels: PointLevels
    knee: int
    """Its size."""
    knee_bounds: tuple[int, int]
    """Its 95 % interval, among the sizes that were measured."""
    top: tuple[int, ...]
    """The sizes with the highest throughput, which noise cannot tell apart."""
    top_tps: float
    saturated: bool
    """False if throughput still grew at the largest size: then there is no knee."""
    meets: bool
    """False if no point meets the limit; then the knee is that of all points."""

    def level(self, size: int) -> float:
        """Return the throughput at this size."""
        return self.levels.value(self.levels.points.index(size))

    @property
    def answer(self) -> int:
        """Return the size at the knee; without one, the largest that was measured."""
        return self.knee if self.saturated else self.levels.points[-1]

    @property
    def at_limit(self) -> int:
        """Return the size at which the limit shows: of those with the highest throughput the
        largest, up to twice the knee's; without a knee, the largest that was measured."""
        if not self.saturated:
            return self.levels.points[-1]
        near = [size for size in self.top if size <= 2 * self.knee]
        return max(near, default=min(self.top))


class SizeSearch:
    """A search: the points to measure next, and the knee by those measured."""

    def __init__(self, most: int, rng: random.Random) -> None:
        """``most``: the largest size that may be tried."""
        self.most = most
        self.fewest = 1
        self.why_ended: str | None = None
        """The reason why less than at first could be tried."""
        self._rng = rng
        self._samples: list[Sample] = []
        self._unmet: set[int] = set()
        self._round = 0
        self._refined = False

    def add(self, size: int, tps: float, *, met: bool = True) -> None:
        """Take note of a slice; ``met``: whether all slices of this size together meet the
        limit."""
        self._samples.append(Sample(size, self._round, tps))
        (self._unmet.discard if met else self._unmet.add)(size)

    def cannot(self, size: int, why: str) -> None:
        """Take note that this size cannot be measured: from now on smaller ones are tried."""
        if size <= self.most:
            self.most, self.why_ended = size - 1, why
        self._samples = [each for each in self._samples if each.point < size]

    def too_few(self, size: int) -> None:
        """Take note that the first size is too small for anything to be measured."""
        self.fewest = 2 * size

    @property
    def samples(self) -> Sequence[Sample]:
        """All slices so far."""
        return self._samples

    def next_round(self, slices_left: int) -> list[int]:
        """Return the sizes of the next slices, in order; none at the end of the search."""
        if slices_left <= 0 or self.most < self.fewest:
            return []
        if not self._refined:
            larger = self._larger()
            if larger is not None:
                return [larger]
            self._refined = True
        self._round += 1
        wanted = [each for each in self._wanted(slices_left) if each <= self.most]
        self._rng.shuffle(wanted)
        return wanted[:slices_left]

    @property
    def is_open(self) -> bool:
        """True if points would still be measured, had there been time."""
        return bool(self._samples) and bool(self._wanted(NEW_SLICES_MIN))

    def found(self) -> KneeEstimate | None:
        """Return the knee by the levels so far; None if nothing was measured. A point that was
        measured only once is not the answer, unless hardly any was measured more often."""
        if not self._samples:
            return None
        count = Counter(each.point for each in self._samples)
        often = [each for each in self._samples if count[each.point] >= OTHERS_REPEATS]
        enough = len({each.point for each in often}) >= POINTS_MIN
        return self._look(often if enough else self._samples).found()

    def _look(self, samples: Sequence[Sample]) -> _Look:
        return _Look(levels(samples), self.most, self._unmet)

    def _larger(self) -> int | None:
        """Return twice the size, if throughput may grow with it."""
        if not self._samples:
            return self.fewest
        look = self._look(self._samples)
        largest = look.points[-1]
        return min(2 * largest, self.most) if largest < self.most and look.grows else None

    def _wanted(self, slices_left: int) -> list[int]:
        """Return the points of the next round."""
        look = self._look(self._samples)
        larger = self._larger()
        new = look.between if larger is None else [larger]
        if slices_left < NEW_SLICES_MIN:
            new = []
        short = [look.points[n] for n in look.deciding if not look.is_precise(n)]
        repeats = zip(look.points, look.levels.repeats, strict=True)
        seldom = [point for point, count in repeats if count < OTHERS_REPEATS]
        if new and not short:
            # A new point needs others in its round, to be compared with.
            short = [look.points[n] for n in look.deciding]
        return list(dict.fromkeys([*new, *short, *seldom]))


class _Look:
    """A look at the levels so far."""

    def __init__(self, measured: PointLevels, most: int, unmet: Collection[int] = ()) -> None:
        self.levels = measured
        self.points = measured.points
        self.most = most
        places = range(len(self.points))
        met = [place for place in places if self.points[place] not in unmet]
        self.meets = bool(met)
        self.counted = met or list(places)
        """The places that meet the limit; all if none does."""

    @cached_property
    def grows(self) -> bool:
        """True if throughput at the largest size measured may still grow with a larger one."""
        return _grows(self.points, self.levels.logs)

    @property
    def saturated(self) -> bool:
        """True if throughput has stopped growing, or the limit ends it."""
        if not self.grows or self.counted[-1] != len(self.points) - 1:
            return True
        at_limit = self.points[-1] >= self.most
        return at_limit and _last_growth(self.points, self.levels.logs) <= LAST_GROWTH_MIN

    @cached_property
    def best(self) -> int:
        """The place of the highest throughput."""
        return max(self.counted, key=lambda place: float(self.levels.logs[place]))

    @cached_property
    def top(self) -> list[int]:
        """The places of the points that noise cannot tell from the highest one."""
        logs, best = self.levels.logs, self.best
        return [
            place
            for place in self.counted
            if place == best
            or logs[best] - logs[place]
            <= min(
                ALIKE_ERRORS * self.levels.error_of_difference(best, place),
                -math.log(ALIKE_SHARE),
            )
        ]

    @cached_property
    def top_log(self) -> float:
        """Logarithm of the highest throughput."""
        return _mean(self.levels.logs, self.top, self.levels.repeats)

    @property
    def knee(self) -> int:
        """The place of the knee."""
        return self._knee(self.levels.logs, self.top_log)

    @property
    def between(self) -> list[int]:
        """The sizes to measure between the knee and the next smaller one, and between the highest
        throughput and the next larger size if that is lower; none if they are close."""
        wanted = [_middle(self.points, self.knee - 1)]
        if self.best + 1 < len(self.points) and self.best + 1 not in self.top:
            wanted.append(_middle(self.points, self.best))
        return [size for size in wanted if size is not None]

    @property
    def deciding(self) -> list[int]:
        """The places of the points that decide: the knee, the next smaller size, the highest, and
        beyond that the next if it is the limit that excludes it."""
        highest = sorted(self.top, key=lambda place: -self.levels.logs[place])[:TOP_POINTS]
        beyond = [
            place
            for place in (self.best + 1,)
            if place < len(self.points) and place not in self.counted
        ]
        return sorted({self.knee, max(self.knee - 1, 0), *highest, *beyond})

    def is_precise(self, place: int) -> bool:
        """True if a point was measured often enough."""
        repeats = self.levels.repeats[place]
        if repeats < REPEATS_MIN:
            return False
        return repeats >= REPEATS_MAX or self.levels.half_width(place) <= PRECISION

    def found(self) -> KneeEstimate:
        """Return the knee."""
        return KneeEstimate(
            levels=self.levels,
            knee=self.points[self.knee],
            knee_bounds=self._bounds(),
            top=tuple(self.points[place] for place in self.top),
            top_tps=math.exp(self.top_log),
            saturated=self.saturated,
            meets=self.meets,
        )

    def _knee(self, logs: NDArray[np.float64], top_log: float) -> int:
        """Return the first place that counts and has at least 95 % of the highest throughput."""
        least = top_log + math.log(KNEE_SHARE)
        enough = (place for place in self.counted if logs[place] >= least)
        return next(enough, max(self.counted, key=lambda place: float(logs[place])))

    def _bounds(self) -> tuple[int, int]:
        """Return the 95 % interval of the knee: of the knees of levels that are as likely."""
        drawn = self.levels.draws(DRAWS, seed=len(self.points))
        knees = [self._knee(row, _mean(row, self.top, self.levels.repeats)) for row in drawn]
        low, high = np.quantile(knees, [0.025, 0.975], method="nearest")
        places = min(int(low), self.knee), max(int(high), self.knee)
        return self.points[places[0]], self.points[places[1]]


def _mean(logs: NDArray[np.float64], places: Sequence[int], weights: Sequence[int]) -> float:
    chosen = [weights[place] for place in places]
    return float(np.average(logs[list(places)], weights=chosen))


def _middle(points: Sequence[int], place: int) -> int | None:
    """Return the size between a point and the next; None if they are close."""
    if place < 0:
        return None
    smaller, larger = points[place], points[place + 1]
    if larger - smaller <= 1 or larger / smaller <= GAP_MAX:
        return None
    return min(max(round(math.sqrt(smaller * larger)), smaller + 1), larger - 1)


def _grows(points: Sequence[int], logs: NDArray[np.float64]) -> bool:
    """Return whether the last two doublings of the size raised the highest throughput."""
    if logs[-1] < max(logs) + math.log(FALLS):
        return False
    early = _highest_up_to(points[-1] / 4, points, logs)
    return float(max(logs)) - early > math.log1p(GROWTH_MIN)


def _last_growth(points: Sequence[int], logs: NDArray[np.float64]) -> float:
    """Return the growth over the last doubling of the size."""
    return math.expm1(float(logs[-1]) - _highest_up_to(points[-1] / 2, points, logs))


def _highest_up_to(most: float, points: Sequence[int], logs: NDArray[np.float64]) -> float:
    """Return the largest logarithm up to a size."""
    kept = [float(log) for point, log in zip(points, logs, strict=True) if point <= most]
    return max(kept, default=-math.inf)
