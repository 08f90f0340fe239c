"""Delta debugging: the smallest part of a failing set that still fails.

Knows nothing of disks. A test may be as dear as starting a server, so answers are remembered, a
budget bounds the work, and what is found when it ends is the best so far: it fails, but may not be
the smallest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


@dataclass
class Budget:
    """How many tests may still be made, and until when."""

    tests_left: int
    deadline_s: float = float("inf")
    """On the clock of ``time.monotonic``."""
    spent: int = 0

    @property
    def over(self) -> bool:
        """Whether no further test may be made."""
        return self.tests_left <= 0 or time.monotonic() >= self.deadline_s

    def spend(self) -> None:
        """Count one test."""
        self.tests_left -= 1
        self.spent += 1


class _Spent(Exception):
    """The budget ended in the middle of a search."""


@dataclass
class Search(Generic[Item]):
    """One minimisation: ``fails`` says whether a part of the items still fails.

    ``best`` is the smallest failing part found so far; ``exhausted`` that the budget ended before
    the search did, so that a smaller one may exist.
    """

    fails: Callable[[tuple[Item, ...]], bool]
    budget: Budget
    best: tuple[Item, ...]
    exhausted: bool = False
    _known: dict[frozenset[Item], bool] = field(default_factory=dict)

    def run(self, *levels: Callable[[Item], Hashable]) -> tuple[Item, ...]:
        """The smallest part of ``best`` that fails, which the whole is taken to do.

        ``levels`` group items, coarsest first (the file, the block): whole groups are dropped
        before single items are looked at, which is cheaper where what matters lies together.
        """
        try:
            if self._try(()):
                return self.best
            for level in (*levels, _itself):
                self._reduce(list(_groups(self.best, level)))
        except _Spent:
            self.exhausted = True
        return self.best

    def _reduce(self, groups: list[tuple[Item, ...]]) -> None:
        """Zeller and Hildebrandt's ddmin over ``groups``, which together are ``best``."""
        parts = 2
        while len(groups) >= 2:
            chunks = _split(groups, min(parts, len(groups)))
            if (smaller := self._failing(chunks)) is not None:
                groups, parts = smaller, 2
            elif (smaller := self._failing(_complements(chunks))) is not None:
                groups, parts = smaller, max(parts - 1, 2)
            elif parts >= len(groups):
                return
            else:
                parts *= 2

    def _failing(self, candidates: list[list[tuple[Item, ...]]]) -> list[tuple[Item, ...]] | None:
        return next((one for one in candidates if self._try(_flat(one))), None)

    def _try(self, items: tuple[Item, ...]) -> bool:
        key = frozenset(items)
        if key not in self._known:
            if self.budget.over:
                raise _Spent
            self.budget.spend()
            self._known[key] = self.fails(items)
        if self._known[key]:
            self.best = items
        return self._known[key]


def _itself(item: Hashable) -> Hashable:
    return item


def _groups(items: Sequence[Item], level: Callable[[Item], Hashable]) -> Iterator[tuple[Item, ...]]:
    grouped: dict[Hashable, list[Item]] = {}
    for item in items:
        grouped.setdefault(level(item), []).append(item)
    yield from map(tuple, grouped.values())


def _split(groups: list[tuple[Item, ...]], parts: int) -> list[list[tuple[Item, ...]]]:
    edges = [len(groups) * number // parts for number in range(parts + 1)]
    return [groups[begin:end] for begin, end in pairwise(edges)]


def _complements(chunks: list[list[tuple[Item, ...]]]) -> list[list[tuple[Item, ...]]]:
    """Everything but each chunk in turn; with two chunks these are the chunks, already tried."""
    if len(chunks) == 2:
        return []
    return [
        [group for other in chunks if other is not chunk for group in other] for chunk in chunks
    ]


def _flat(groups: list[tuple[Item, ...]]) -> tuple[Item, ...]:
    return tuple(item for group in groups for item in group)
