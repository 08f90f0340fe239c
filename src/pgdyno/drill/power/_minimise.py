"""Delta debugging: search for the smallest part of a failing set that still fails.

Independent of disks. A test may be expensive, such as the start of a server: results are cached,
and the number of tests is limited. A search that reaches the limit returns the smallest failing
part found so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


@dataclass
class TestLimit:
    """Limit of the tests of a search, by number and time."""

    __test__ = False  # Not a class of tests for pytest.

    tests_left: int
    deadline_s: float = float("inf")
    """Time on the clock of ``time.monotonic``."""
    tests_made: int = 0

    @property
    def reached(self) -> bool:
        """True if no further test may be made."""
        return self.tests_left <= 0 or time.monotonic() >= self.deadline_s

    def count_test(self) -> None:
        """Count one test."""
        self.tests_left -= 1
        self.tests_made += 1


class _LimitReached(Exception):
    """The limit was reached during a search."""


@dataclass
class Search(Generic[Item]):
    """A minimisation."""

    fails: Callable[[tuple[Item, ...]], bool]
    """Test of a part of the items."""
    limit: TestLimit
    best: tuple[Item, ...]
    """The smallest failing part found so far."""
    exhausted: bool = False
    """True if the limit ended the search: a smaller part may exist."""
    _known: dict[frozenset[Item], bool] = field(default_factory=dict)

    def run(self, *levels: Callable[[Item], Hashable]) -> tuple[Item, ...]:
        """Return the smallest failing part of ``best``, which is assumed to fail as a whole.

        ``levels`` group items, coarsest first (file, block): whole groups are removed before
        single items, which needs fewer tests if the items that matter are in few groups.
        """
        try:
            if self._try(()):
                return self.best
            for level in (*levels, _itself):
                self._reduce(list(_groups(self.best, level)))
        except _LimitReached:
            self.exhausted = True
        return self.best

    def _reduce(self, groups: list[tuple[Item, ...]]) -> None:
        """Apply ddmin of Zeller and Hildebrandt to ``groups``, which together are ``best``."""
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

    def _failing(self, parts: list[list[tuple[Item, ...]]]) -> list[tuple[Item, ...]] | None:
        return next((part for part in parts if self._try(_flat(part))), None)

    def _try(self, items: tuple[Item, ...]) -> bool:
        key = frozenset(items)
        if key not in self._known:
            if self.limit.reached:
                raise _LimitReached
            self.limit.count_test()
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
    """Return all but each chunk in turn; none for two chunks, whose complements are chunks."""
    if len(chunks) == 2:
        return []
    return [
        [group for other in chunks if other is not chunk for group in other] for chunk in chunks
    ]


def _flat(groups: list[tuple[Item, ...]]) -> tuple[Item, ...]:
    return tuple(item for group in groups for item in group)
