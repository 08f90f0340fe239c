"""Kinds of transactions of whole ones: those with the same statements are one kind, so that what an
application does in place of something else stays apart."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from pgdyno.capture._logs import Whole
from pgdyno.capture._transactions import Kind, Seen, in_units, kinds_of

_KINDS_MAX = 60
_ALIKE_MIN = 0.5
"""Share of the statements of two transactions that both have, from which on a rare one is of the
kind of the other."""
_RARE_SHARE = 0.002
"""Share of all transactions below which those with the same statements are rare."""
_ROUNDS = 30


class _Same(Struct):
    """Transactions with the same statements."""

    orders: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """By the first executions."""
    times: Counter[str] = field(default_factory=Counter)
    having: Counter[str] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return self.orders.total()

    def add(self, ids: Sequence[str]) -> None:
        first = tuple(dict.fromkeys(ids))
        self.orders[first] += 1
        self.times.update(ids)
        self.having.update(first)

    def take(self, other: _Same) -> None:
        """Add those of a rare kind."""
        self.orders.update(other.orders)
        self.times.update(other.times)
        self.having.update(other.having)

    def kind(self, transactions: float, *, block: bool) -> Kind:
        """Return the kind of so many transactions."""
        ids, count = _order(self.orders), self.count
        return Kind(
            ids,
            transactions,
            block,
            times=tuple(self.times[each] / count for each in ids),
            shares=tuple(self.having[each] / count for each in ids),
        )


def all_kinds(
    calls: Mapping[str, float],
    transactions: Sequence[Whole],
    seen: Seen,
    begins: float,
    ended: float | None = None,
    others: float = 0.0,
) -> list[Kind]:
    """Return the kinds of whole transactions, those of other statements as ``kinds_of``, and the
    units of work of statements without a block."""
    whole = whole_kinds(calls, transactions)
    known = {each for kind in whole for each in kind.statements}
    left = {key: count for key, count in calls.items() if key not in known}
    begun = sum(each.transactions for each in whole if each.block)
    rest = None if ended is None else ended - sum(each.transactions for each in whole)
    kinds = in_units([*whole, *kinds_of(left, seen, begins - begun, rest, others)], seen)
    return sorted(kinds, key=lambda each: -each.transactions)


def whole_kinds(calls: Mapping[str, float], transactions: Sequence[Whole]) -> list[Kind]:
    """Return the kinds of whole transactions, as many of each as agree best with the calls of
    statements."""
    seen: defaultdict[tuple[bool, frozenset[str]], _Same] = defaultdict(_Same)
    for each in transactions:
        if ids := [one for one in each.statements if one in calls]:
            seen[each.block, frozenset(ids)].add(ids)
    kinds = _without_rare(seen)
    counts = _counts(calls, kinds)
    return [
        each.kind(count, block=block)
        for ((block, _), each), count in zip(kinds.items(), counts, strict=True)
    ]


def _without_rare(
    seen: Mapping[tuple[bool, frozenset[str]], _Same],
) -> dict[tuple[bool, frozenset[str]], _Same]:
    """Return the kinds with rare ones added to those that they are like; of others, which a cut or
    an error may have made, at most ``_KINDS_MAX`` in all are kept."""
    ordered = sorted(seen.items(), key=lambda pair: -pair[1].count)
    least = _RARE_SHARE * sum(each.count for each in seen.values())
    found: dict[tuple[bool, frozenset[str]], _Same] = {}
    for (block, ids), each in ordered:
        like = [known for known in found if known[0] == block]
        best = max(like, key=lambda known: _likeness(known[1], ids), default=None)
        is_rare = each.count < least or len(found) >= _KINDS_MAX
        if is_rare and best is not None and _likeness(best[1], ids) >= _ALIKE_MIN:
            found[best].take(each)
        elif len(found) < _KINDS_MAX:
            found[block, ids] = each
    return found


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)


def _counts(
    calls: Mapping[str, float], kinds: Mapping[tuple[bool, frozenset[str]], _Same]
) -> list[float]:
    """Return the transactions of each kind: those of the log, changed until statements are executed
    as often as they were (the iteration of Richardson and Lucy)."""
    occurred: Counter[str] = Counter()
    for each in kinds.values():
        occurred.update(each.times)
    scale = sum(calls[each] for each in occurred) / max(1, occurred.total())
    counts = [each.count * scale for each in kinds.values()]
    per = [
        {one: times / each.count for one, times in each.times.items()} for each in kinds.values()
    ]
    for _ in range(_ROUNDS):
        made: Counter[str] = Counter()
        for count, times in zip(counts, per, strict=True):
            for one, mean in times.items():
                made[one] += count * mean  # type: ignore[assignment]
        counts = [
            count
            * sum(mean * calls[one] / made[one] for one, mean in times.items() if made[one])
            / sum(times.values())
            for count, times in zip(counts, per, strict=True)
        ]
    return counts


def _order(orders: Mapping[tuple[str, ...], int]) -> tuple[str, ...]:
    """Return all statements in the most frequent order; those of others come after the statement
    that is before them there."""
    found: list[str] = []
    for order in sorted(orders, key=lambda each: -orders[each]):
        place = 0
        for each in order:
            if each in found:
                place = found.index(each) + 1
            else:
                found.insert(place, each)
                place += 1
    return tuple(found)
