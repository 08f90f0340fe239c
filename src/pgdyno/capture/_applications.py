"""Applications: sessions that execute other transactions than the others do, by role and name.

Names may tell of somebody, and are not kept. Sessions with other names that do the same are of one
application, and so are those that were hardly seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from pgdyno.capture._sampling import Client, Connected
from pgdyno.capture._transactions import Kind
from pgdyno.clone.capture_file import Application

_SEEN_MIN = 20
"""Transactions from which on a client may be an application of its own."""
_SAME_MIN = 0.5
"""Part of the transactions that two clients have in common, from which on they are of one."""


class _Group(Struct):
    seen: Counter[int] = field(default_factory=Counter)
    """Transactions, by the numbers of their kinds."""
    sessions: float = 0.0
    busy: float = 0.0

    def take(self, other: _Group) -> None:
        self.seen.update(other.seen)
        self.sessions += other.sessions
        self.busy += other.busy


def applications_of(
    kinds: Sequence[Kind],
    seen: Iterable[tuple[Client, Sequence[str]]],
    connected: Mapping[Client, Connected],
    seconds: float,
) -> tuple[Application, ...]:
    """Return the applications of a load, those with most sessions first; none if all clients do the
    same. ``seen`` are the ids of statements in transactions of clients."""
    groups = _joined(_groups(kinds, seen, connected))
    if len(groups) < 2:
        return ()
    rates = [_rates(group, groups, kinds, seconds) for group in groups]
    return tuple(
        Application(max(1, round(group.sessions)), round(group.busy, 2), rate)
        for group, rate in zip(groups, rates, strict=True)
        if any(rate)
    )


def _groups(
    kinds: Sequence[Kind],
    seen: Iterable[tuple[Client, Sequence[str]]],
    connected: Mapping[Client, Connected],
) -> list[_Group]:
    """Return a group for each client that was seen often enough, and what others did in the one
    that does the most."""
    found: dict[Client, _Group] = {}
    kind_of = _KindOf(kinds)
    for client, ids in seen:
        if (number := kind_of(frozenset(ids))) is not None:
            found.setdefault(client, _Group()).seen[number] += 1
    for client, group in found.items():
        mean = connected.get(client, Connected())
        group.sessions, group.busy = mean.sessions, mean.busy
    ordered = sorted(found.values(), key=lambda each: -each.seen.total())
    often = [each for each in ordered if each.seen.total() >= _SEEN_MIN]
    for group in ordered[len(often) :]:
        if often:
            max(often, key=lambda each: _in_common(each, group)).take(group)
    return often


class _KindOf:
    """The kind that statements are most likely of."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = [frozenset(each.statements) for each in kinds]
        self._known: dict[frozenset[str], int | None] = {}

    def __call__(self, ids: frozenset[str]) -> int | None:
        if ids not in self._known:
            shares = [len(ids & each) / len(ids | each) for each in self._kinds]
            best = max(range(len(shares)), key=shares.__getitem__, default=None)
            self._known[ids] = None if best is None or not shares[best] else best
        return self._known[ids]


def _in_common(one: _Group, other: _Group) -> float:
    """Return the part of the transactions that two groups have in common."""
    totals = one.seen.total(), other.seen.total()
    return sum(min(one.seen[each] / totals[0], other.seen[each] / totals[1]) for each in one.seen)


def _joined(groups: list[_Group]) -> list[_Group]:
    """Return the groups, those that do the same joined, the most similar first."""
    left = list(groups)
    while len(left) > 1:
        pairs = [(one, other) for one in range(len(left)) for other in range(one)]
        one, other = max(pairs, key=lambda pair: _in_common(left[pair[0]], left[pair[1]]))
        if _in_common(left[one], left[other]) < _SAME_MIN:
            break
        left[other].take(left.pop(one))
    return sorted(left, key=lambda each: -each.sessions)


def _rates(
    group: _Group, groups: Sequence[_Group], kinds: Sequence[Kind], seconds: float
) -> tuple[float, ...]:
    """Return the transactions of a group in a second, of each kind: its part of those seen, or of
    all where none was seen."""
    everything = sum(each.seen.total() for each in groups)
    rates = []
    for number, kind in enumerate(kinds):
        of_kind = sum(each.seen[number] for each in groups)
        part = group.seen[number] / of_kind if of_kind else group.seen.total() / everything
        rates.append(round(kind.transactions * part / seconds, 4))
    return tuple(rates)
