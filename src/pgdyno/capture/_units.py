"""Units of work without a transaction block: statements that sessions execute one after the other,
each of which commits by itself.

A unit is known by statements that are executed equally often: of independent ones the counts
differ by about the root of their number, of those in one unit by the units that are under way at
the two looks. Others that the same sessions execute belong to it as often as they are counted.
Samples of the sessions have their order: a unit follows the last one, so that statements lie on a
circle, each with the mean angle at which it was seen before or after another.
"""

from __future__ import annotations

import bisect
import cmath
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from statistics import median_low
from typing import TypeAlias, TypeVar

from msgspec import Struct

from pgdyno.clone.capture_file import Statement
from pgdyno.clone.keys import Keys, Place
from pgdyno.clone.outputs import returned_keys

_Item = TypeVar("_Item")
CALLS_MIN = 100
"""Calls below which equal counts mean nothing."""
_UNDER_WAY = 2.0
"""Units of each session that one of two looks may have counted in part."""
_NEAR = 0.25
"""Share of a circle within which one statement is before another, or after it."""
LOOP_MAX = 16
"""Statements of a loop above which their order is not looked for."""
Run: TypeAlias = "tuple[int, list[tuple[int, str]]]"
"""A session, and the statements that were seen of it in one burst of looks: when they were sent, in
microseconds, and their ids."""


class Unit(Struct, frozen=True):
    """Statements in order, and how often all of them are executed."""

    statements: tuple[str, ...]
    times: float


def units_of(calls: Mapping[str, float], runs: Sequence[Run], seconds: float) -> list[Unit]:
    """Return the units of statements that have no block, with so many calls in so many seconds."""
    sessions = _sessions(runs)
    found = []
    left = dict.fromkeys(each for each in calls if each in sessions)
    for base in equally_often([*left], calls, runs):
        if any(each not in left for each in base):
            continue
        mine = set.union(*(sessions[each] for each in base))
        times = max(calls[each] for each in base)
        members = [each for each in left if sessions[each] <= mine]
        found.append(Unit(in_order(members, times, runs, seconds, base[0]), times))
        for each in members:
            del left[each]
    return found


def _sessions(runs: Iterable[Run]) -> dict[str, set[int]]:
    """Return the sessions that were seen to execute each statement."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for pid, seen in runs:
        for _, each in seen:
            found[each].add(pid)
    return found


def equally_often(
    statements: Sequence[str], calls: Mapping[str, float], runs: Sequence[Run]
) -> Iterator[list[str]]:
    """Yield groups of statements that are executed equally often, the largest first."""
    sessions = max(1, len({pid for pid, _ in runs}))
    groups: list[list[str]] = []
    for each in sorted(statements, key=lambda each: calls[each]):
        last = groups[-1] if groups else None
        if last and calls[each] - calls[last[0]] <= _UNDER_WAY * sessions:
            last.append(each)
        else:
            groups.append([each])
    able = (each for each in groups if len(each) > 1 and _tells(calls[each[0]], sessions))
    yield from sorted(able, key=lambda each: (-len(each), calls[each[0]]))


def _tells(calls: float, sessions: int) -> bool:
    """Return whether equal counts can hardly be by chance: that of two independent statements
    differs by the root of twice their number."""
    return calls >= CALLS_MIN and _UNDER_WAY * sessions < math.sqrt(2 * calls)


def together_but_for_rows(unit: Sequence[Statement]) -> list[int]:
    """Return the places of a unit's statements, with those together that are the same but for their
    number of rows, at the middle one of their places: one comes in place of another, and each was
    seen seldom."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, each in enumerate(unit):
        places[each.without_rows].append(place)
    return sorted(range(len(unit)), key=lambda place: median_low(places[unit[place].without_rows]))


def from_beginning(
    unit: Sequence[Statement], keys: Keys, *, is_loop: bool = False
) -> Sequence[int]:
    """Return the places of a unit's statements from the one on with which it begins: from which on
    most statements name rows that others have made, or returned, before them. Keys that the server
    has made count first, as nobody knows them earlier. Of several beginnings it is the one with
    the fewest statements that look for values that others have inserted before them: whether a
    row is there is looked up first.

    Of a loop, whose rounds are too short for samples to tell all of the order, one statement is
    elsewhere if still more name such rows.
    """
    named = [
        {keys.root((each.table, each.column)) for each in statement.parameters if each.table}
        for statement in unit
    ]
    made = [{keys.made_by(each)} for each in unit]
    added = [
        {*_added(each, keys), *(returned_keys(each, keys).keys() - names)}
        for each, names in zip(unit, named, strict=True)
    ]

    looked, inserted = (
        [{(p.table, p.column) for p in each.parameters if p.use == use} for each in unit]
        for use in ("compared", "inserted")
    )

    def linked(order: Sequence[int]) -> tuple[int, int]:
        return _links(order, named, made), _links(order, named, added)

    orders = [(*range(start, len(unit)), *range(start)) for start in range(len(unit))]
    orders.sort(key=lambda each: _links(each, looked, inserted))
    if is_loop and len(unit) <= LOOP_MAX:
        orders += [each for order in orders for each in with_one_moved(order)]
    return max(orders, key=linked)


def with_one_moved(order: Sequence[_Item]) -> Iterator[tuple[_Item, ...]]:
    """Yield an order with each of its items at each place."""
    for start, to in itertools.product(range(len(order)), repeat=2):
        others = (*order[:start], *order[start + 1 :])
        yield (*others[:to], order[start], *others[to:])


def _links(
    order: Iterable[int],
    named: Sequence[Collection[Place]],
    known: Sequence[Iterable[Place | None]],
) -> int:
    """Return how many keys statements name that are known from others before them, and were not
    named before that: the client knows these by itself."""
    count, so_far, given = 0, set[Place | None](), set[Place | None]()
    for place in order:
        count += len(so_far.intersection(named[place]))
        so_far.update(each for each in known[place] if each not in given)
        given.update(each for each in named[place] if each not in so_far)
    return count


def _added(statement: Statement, keys: Keys) -> Iterator[Place]:
    """Yield the keys of a row that a statement adds: the one that the server makes, and those that
    it gives the row."""
    if (made := keys.made_by(statement)) is not None:
        yield made
    for each in statement.parameters:
        place, table = (each.table, each.column), keys.tables.get(each.table)
        is_key = table is not None and any(each.column in key for key in table.keys)
        if each.use == "inserted" and is_key and keys.root(place) == place:
            yield place


class _Circle:
    """The angles between statements that sessions execute in turn."""

    def __init__(self, statements: Iterable[str], runs: Iterable[Run], turn_us: float) -> None:
        self._turn_us = turn_us
        self._angle: defaultdict[tuple[str, str], complex] = defaultdict(complex)
        self._after: Counter[tuple[str, str]] = Counter()
        members = {*statements}
        for _, seen in runs:
            self._add([each for each in seen if each[1] in members])

    def _add(self, seen: list[tuple[int, str]]) -> None:
        times = [at for at, _ in seen]
        for place, (at, one) in enumerate(seen):
            ends = bisect.bisect_right(times, at + self._turn_us / 2)
            for later, other in seen[place + 1 : ends]:
                part = (later - at) / self._turn_us
                turn = cmath.exp(2j * math.pi * part)
                self._angle[one, other] += turn
                self._angle[other, one] += turn.conjugate()
                if part <= _NEAR:
                    self._after[one, other] += 1

    def angle(self, one: str, other: str) -> float:
        """Return the angle from one statement to another, up to 2 pi; 0 if it is not known."""
        mean = self._angle.get((one, other), 0j)
        return cmath.phase(mean) % (2 * math.pi) if one != other and mean else 0.0

    def is_before(self, one: str, other: str) -> bool:
        """Return whether a statement was seen shortly after another more often than before it."""
        return self._after[one, other] > self._after[other, one]


def in_order(
    members: Sequence[str], times: float, runs: Sequence[Run], seconds: float, first: str = ""
) -> tuple[str, ...]:
    """Return the statements of a unit that is executed so many times, in the order in which they
    were seen from the ``first`` on."""
    sessions = {pid for pid, seen in runs if any(each in members for _, each in seen)}
    turn_us = seconds * 1e6 * max(1, len(sessions)) / times
    first = first or members[0]
    circle = _Circle(members, runs, turn_us)
    ordered = sorted(members, key=lambda each: circle.angle(first, each))
    for _ in ordered:
        swapped = False
        for place in range(1, len(ordered) - 1):
            one, other = ordered[place : place + 2]
            if circle.is_before(other, one):
                ordered[place : place + 2] = other, one
                swapped = True
        if not swapped:
            break
    return tuple(ordered)
