"""The search for the lines of a profile that make the difference: elimination by groups.

A group of lines is taken back, with all other lines that are left in force on both sides. If that
shows no loss, the whole group goes; if it does, one line of it that makes a difference is found by
halving, and the others return to those that are not decided (generalized binary splitting, F. K.
Hwang, JASA 67, 1972). Of two lines that each do the other's work, the first one goes and the second
one stays, because what has gone is missing from both sides of all later trials. A group whose
trial leaves open whether it makes a difference goes for the time being, and is tried once more when
all others are decided. Pure: :mod:`taking_back` measures.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from msgspec import Struct

Unit = tuple[str, ...]
"""Settings that are taken back together."""

GROUPS_MAX = 6
_SINGLE_MAX = 3
"""Up to this many units are tried one by one."""
_MATTERING_SHARE = 0.2
"""Share of the units that is expected to make a difference, for an estimate of the time."""


class _Doubtful(Struct, frozen=True):
    """A group whose trial left open whether it makes a difference."""

    units: list[Unit]
    gain_max: float


class Elimination:
    """Decides which units are taken back next."""

    def __init__(self, units: Sequence[Unit]) -> None:
        """Begin with all of ``units``, in the order in which they are tried."""
        self.kept: list[Unit] = []
        """Units that made a difference when they were taken back alone."""
        self.trials = 0
        """Number of decisions so far."""
        self._size = group_size(len(units))
        self._open = deque(units)
        self._gone: list[Unit] = []
        self._doubtful: list[_Doubtful] = []
        self._again: _Doubtful | None = None
        """The group in doubt that is tried once more; it has gone until that is decided."""
        self._last_chance = False
        """True if those tried were in doubt, or are a part of such a group."""
        self._tried: list[Unit] = []
        self._rest: list[Unit] = []
        """Units of which, with those tried, at least one makes a difference."""
        self._known = False
        """True if one of those tried is known to make a difference."""

    def next(self) -> tuple[Unit, ...] | None:
        """Return the units to take back next; None if all are decided."""
        if not self._tried:
            self._begin_group()
        if self._known and len(self._tried) > 1:
            middle = (len(self._tried) + 1) // 2
            self._tried, self._rest = self._tried[:middle], self._tried[middle:]
        self._known = False
        return tuple(self._tried) or None

    def _begin_group(self) -> None:
        self._last_chance = not self._open and bool(self._doubtful)
        if self._last_chance:
            self._again = max(self._doubtful, key=lambda each: each.gain_max)
            self._tried = self._again.units
            return
        count = min(self._size, len(self._open))
        self._tried = [self._open.popleft() for _ in range(count)]

    def decide(self, *, matters: bool, gain_max: float | None = None) -> None:
        """Take the answer about the units of :meth:`next`. ``gain_max``: they are not shown to make
        a difference, but may make one that matters, as large as this; the largest is tried first
        when all others are decided."""
        tried, rest = self._tried, self._rest
        self.trials += 1
        self._tried, self._rest = [], []
        if self._again is not None:
            self._doubtful.remove(self._again)
            self._again = None
        if not matters:
            self._tried = rest
            if gain_max is not None and not self._last_chance:
                self._doubtful.append(_Doubtful(tried, gain_max))
            else:
                self._gone += tried
                self._known = bool(rest)
            return
        self._open.extendleft(reversed(rest))
        if len(tried) == 1:
            self.kept += tried
        else:
            self._tried, self._known = tried, True

    @property
    def gone(self) -> list[Unit]:
        """Units that were not shown to make a difference, those in doubt included."""
        return [*self._gone, *(unit for each in self._doubtful for unit in each.units)]

    @property
    def undecided(self) -> list[Unit]:
        """Units that no decision has been made about."""
        tried = [] if self.tries_again else self._tried
        return [*tried, *self._rest, *self._open]

    @property
    def tries_again(self) -> bool:
        """True if the units of :meth:`next` are a group in doubt, which is tried once more."""
        return self._again is not None

    @property
    def trials_expected(self) -> float:
        """About how many more decisions are needed."""
        return _expected(len(self.undecided), self._size)


def group_size(units: int) -> int:
    """Return how many units are tried at once."""
    if units <= _SINGLE_MAX:
        return 1
    return math.ceil(units / min(GROUPS_MAX, max(2, round(units / 6))))


def expected_trials(units: int) -> float:
    """Return about how many trials the elimination of so many units takes."""
    return _expected(units, group_size(units))


def _expected(units: int, size: int) -> float:
    if size == 1:
        return float(units)
    return math.ceil(units / size) + _MATTERING_SHARE * units * (1 + math.log2(size))
