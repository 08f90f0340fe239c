"""Kinds of transactions: statements that are executed together, in order, and how often.

Statements that commit by themselves, and follow each other in a session, count as one kind too: a
unit of work without a block.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import mean

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.capture._sampling import Together
from pgdyno.capture._units import Run, equally_often, in_order, units_of

_BLOCK_SHARE = 0.9
_LATE_S = 0.3
"""Time by which the server counts transactions late or early at one of two looks: sessions report
them once a second, and statements at once."""
_AGREES = 2.5
"""Times by which a number that was estimated from some samples may be another one."""
_DIFFERENCE, _DIFFERENCE_MIN = 0.02, 2.0
"""Part by which the executions of statements of one transaction may differ, and the least number:
one may be under way at each of the two looks."""


class Kind(Struct, frozen=True):
    """A kind of transaction."""

    statements: tuple[str, ...]
    """Ids in order."""
    transactions: float
    """Over the period."""
    block: bool
    guessed: bool = False
    """True if no two of its statements were seen in one transaction: they have equal calls."""
    times: tuple[float, ...] = ()
    """Mean executions of each in a transaction; () if only their calls tell."""
    shares: tuple[float, ...] = ()
    """Share of the transactions that have each, as ``times``."""
    looped: bool = False
    """True if all of its statements are repeated: their calls are more than its transactions."""

    @property
    def is_unit(self) -> bool:
        """True for statements that commit by themselves and follow each other."""
        return not self.block and not self.times and len(self.statements) > 1


def may_differ(calls: float) -> float:
    """Return by how many the executions of statements of one transaction may differ."""
    return max(_DIFFERENCE_MIN, _DIFFERENCE * calls)


def evened(calls: Mapping[str, float]) -> dict[str, float]:
    """Return the executions of a transaction's statements, the same for those that may be in the
    same transactions: what one inserts may be what another one needs."""
    groups: list[list[str]] = []
    for each in sorted(calls, key=lambda each: calls[each]):
        least = calls[groups[-1][0]] if groups else -math.inf
        if calls[each] - least <= may_differ(least):
            groups[-1].append(each)
        else:
            groups.append([each])
    return {each: mean(map(calls.__getitem__, group)) for group in groups for each in group}


class Seen(Struct, frozen=True):
    """Sessions as the samples of a period have them."""

    seconds: float
    sequences: Sequence[list[str]]
    """Statements of each transaction."""
    runs: Sequence[Run] = ()

    def times(self, kind: Kind) -> int:
        """Return how many transactions of a kind were seen."""
        return sum(not {*ids}.isdisjoint(kind.statements) for ids in self.sequences)


def kinds_of(
    calls: Mapping[str, float],
    seen: Seen,
    begins: float,
    ended: float | None = None,
    others: float = 0.0,
) -> list[Kind]:
    """Return the kinds of transactions of statements with so many calls, without units of work.
    ``begins`` counts BEGIN, but for those that clients prepare; ``ended`` are all transactions of
    the period, those of single statements too; None: not known. ``others`` are the calls of other
    statements, each of which may be one of these."""
    together = Together([[each for each in ids if each in calls] for ids in seen.sequences])
    groups = _joined([*calls], together)
    alone = [group[0] for group in groups if len(group) == 1]
    kinds = _with_loops([_kind(group, calls, together) for group in groups if len(group) > 1], seen)
    counted = sum(each.transactions for each in kinds)
    left = begins - counted
    over = 0.0 if ended is None else counted + sum(calls[each] for each in alone) - ended
    most = math.inf if ended is None else over + others
    doubt = 0.0 if ended is None else ended * _LATE_S / seen.seconds
    guessed = []
    for equal in equally_often(alone, calls, seen.runs):
        times = max(calls[each] for each in equal)
        saved = times * (len(equal) - 1)
        tells = over if saved > doubt else 0.0
        if max(min(left / times, most / saved), tells / saved) >= _BLOCK_SHARE:
            left, over, most = left - times, over - saved, most - saved
            ordered = in_order(equal, times, seen.runs, seen.seconds)
            guessed.append(Kind(ordered, times, block=True, guessed=True))
    taken = {each for kind in guessed for each in kind.statements}
    kinds += guessed
    kinds += [Kind((each,), calls[each], block=False) for each in alone if each not in taken]
    if ended is not None:
        kinds = _agreeing(kinds, calls, ended, seen)
    return sorted(_with_blocks(kinds, left), key=lambda each: -each.transactions)


def _with_loops(kinds: list[Kind], seen: Seen) -> list[Kind]:
    """Return the kinds with as many transactions of those that only have a loop as were seen,
    compared with others, whose calls tell them; without others they stay."""
    known = [each for each in kinds if not each.looped]
    if not (seen_of_known := sum(map(seen.times, known))):
        return kinds
    each_seen = sum(each.transactions for each in known) / seen_of_known
    return [
        replace(each, transactions=min(each.transactions, seen.times(each) * each_seen))
        if each.looped
        else each
        for each in kinds
    ]


def _agreeing(
    kinds: list[Kind], calls: Mapping[str, float], ended: float, seen: Seen
) -> list[Kind]:
    """Return the kinds with so many transactions of those that only have a loop that all together
    are as many as have ended, as far as that agrees with how often they were seen. Of the two the
    one counts more that is less uncertain."""
    looped = [each for each in kinds if each.looped]
    before = sum(each.transactions for each in looped)
    if not before:
        return kinds
    left = ended - sum(each.transactions for each in kinds if not each.looped)
    if len(looped) == len(kinds):
        factor = left / before
    elif not 1 / _AGREES <= left / before <= _AGREES:
        return kinds
    else:
        of_samples = before**2 / max(1, sum(map(seen.times, looped)))
        of_count = (ended * _LATE_S / seen.seconds) ** 2
        factor = (before * of_count + left * of_samples) / (of_count + of_samples) / before

    def all_of(kind: Kind) -> float:
        return min(kind.transactions * factor, *(calls[each] for each in kind.statements))

    return [replace(each, transactions=all_of(each)) if each.looped else each for each in kinds]


def in_units(kinds: Sequence[Kind], seen: Seen) -> list[Kind]:
    """Put statements that have no block, are in no other kind, and follow each other, into one
    kind."""
    having = Counter(each for kind in kinds for each in kind.statements)
    single = {
        each.statements[0]: each.transactions
        for each in kinds
        if not each.block and len(each.statements) == 1 and having[each.statements[0]] == 1
    }
    units = units_of(single, seen.runs, seen.seconds)
    taken = {each for unit in units for each in unit.statements}
    return [
        *(each for each in kinds if each.statements[0] not in taken),
        *(Kind(each.statements, each.times, block=False) for each in units),
    ]


def _with_blocks(kinds: list[Kind], left: float) -> list[Kind]:
    """Give single statements a block where BEGIN was executed that often."""
    found = []
    for each in sorted(kinds, key=lambda each: -each.transactions):
        is_single = len(each.statements) == 1
        if is_single and not each.block and left >= _BLOCK_SHARE * each.transactions:
            left -= each.transactions
            found.append(replace(each, block=True))
        else:
            found.append(each)
    return found


def _joined(statements: Sequence[str], together: Together) -> list[list[str]]:
    """Return the statements in groups: in one are those that were seen together, also by way of
    others."""
    groups, left = [], dict.fromkeys(statements)
    while left:
        group = [next(iter(left))]
        del left[group[0]]
        for each in group:  # It grows meanwhile.
            partners = [other for other in together.partners(each) if other in left]
            for other in partners:
                del left[other]
            group += partners
        groups.append(group)
    return groups


def _kind(group: list[str], calls: Mapping[str, float], together: Together) -> Kind:
    """Return the kind of statements that were seen together.

    Its transactions are as many as the most frequent statement that is in one only once was
    executed.
    """
    once = [each for each in group if not together.is_repeated(each)]
    times = max(calls[each] for each in once) if once else min(calls[each] for each in group)
    ordered: Sequence[str] = sorted(group, key=lambda each: together.place(each, group))
    if not once:
        ordered = together.in_circle(ordered)
    return Kind(tuple(ordered), times, block=True, looped=not once)
