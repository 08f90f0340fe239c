"""Kinds of transactions: statements that are executed together, in order, and how often.

Statements that commit by themselves, and follow each other in a session, count as one kind too: a
unit of work without a block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.capture._sampling import Together
from pgdyno.capture._units import Run, equally_often, in_order, units_of

_BLOCK_SHARE = 0.9


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

    @property
    def is_unit(self) -> bool:
        """True for statements that commit by themselves and follow each other."""
        return not self.block and not self.times and len(self.statements) > 1


class Seen(Struct, frozen=True):
    """Sessions as the samples of a period have them."""

    seconds: float
    sequences: Sequence[list[str]]
    """Statements of each transaction."""
    runs: Sequence[Run] = ()


def kinds_of(calls: Mapping[str, float], seen: Seen, begins: float) -> list[Kind]:
    """Return the kinds of transactions of statements with so many calls, of which BEGIN has
    ``begins``, without units of work."""
    together = Together([[each for each in ids if each in calls] for ids in seen.sequences])
    groups = _joined([*calls], together)
    alone = [group[0] for group in groups if len(group) == 1]
    kinds = [_kind(group, calls, together) for group in groups if len(group) > 1]
    left = begins - sum(each.transactions for each in kinds)
    guessed = []
    for equal in equally_often(alone, calls, seen.runs):
        times = max(calls[each] for each in equal)
        if left >= _BLOCK_SHARE * times:
            left -= times
            ordered = in_order(equal, times, seen.runs, seen.seconds)
            guessed.append(Kind(ordered, times, block=True, guessed=True))
    taken = {each for kind in guessed for each in kind.statements}
    kinds += guessed
    kinds += [Kind((each,), calls[each], block=False) for each in alone if each not in taken]
    return sorted(_with_blocks(kinds, left), key=lambda each: -each.transactions)


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
    once = [each for each in group if each not in together.repeated]
    times = max(calls[each] for each in once) if once else min(calls[each] for each in group)
    ordered = sorted(group, key=lambda each: together.place(each, group))
    return Kind(tuple(ordered), times, block=True)
