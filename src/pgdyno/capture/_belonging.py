"""Statements that were seen alone, and belong to a transaction by what they change.

A row that takes the place of a deleted one comes with it, if both are changed equally often, and
one that stands beside a new row of another table comes with that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from pgdyno.capture._order import Change, changes_of
from pgdyno.capture._transactions import Kind, may_differ
from pgdyno.clone.capture_file import Statement
from pgdyno.clone.keys import Keys

_RARE = 0.01
"""Share of all transactions below which those of a statement may have a block that was not seen."""


def with_belonging(
    kinds: Sequence[Kind],
    statements: Mapping[str, Statement],
    calls: Mapping[str, float],
    keys: Keys,
) -> list[Kind]:
    """Return the kinds, with single statements that may have a block in those that they belong
    to."""
    changes = changes_of(statements, keys)
    left = list(kinds)
    rare = _RARE * sum(each.transactions for each in kinds)
    for alone in kinds:
        own = changes.get(alone.statements[0]) if len(alone.statements) == 1 else None
        if own is None or alone.times or alone not in left:
            continue
        others = (each for each in left if each is not alone and _is_open(each, rare))
        if not _is_open(alone, rare):
            others = (each for each in others if own.is_beside(_of_kind(each, changes)))
        able = [each for each in others if _belongs(own, calls, alone, each, changes)]
        if able:
            best = max(able, key=lambda each: each.transactions)
            is_first = own.inserts and not own.is_beside(_of_kind(best, changes))
            both = (alone, best) if is_first else (best, alone)
            left.remove(alone)
            left[left.index(best)] = replace(
                best,
                statements=both[0].statements + both[1].statements,
                transactions=max(best.transactions, alone.transactions),
                block=True,
            )
    return left


def _is_open(kind: Kind, rare: float) -> bool:
    """Return whether a kind may have statements that were not seen in it."""
    has_block = kind.block or (len(kind.statements) == 1 and kind.transactions < rare)
    return has_block and not (kind.guessed or kind.looped or kind.times)


def _of_kind(kind: Kind, changes: Mapping[str, Change]) -> list[Change]:
    return [changes[each] for each in kind.statements if each in changes]


def _belongs(
    own: Change, calls: Mapping[str, float], alone: Kind, kind: Kind, changes: Mapping[str, Change]
) -> bool:
    """Return whether a change of a single statement belongs to the transactions of a kind."""
    most = may_differ(alone.transactions)
    if own.is_beside(_of_kind(kind, changes)):
        return alone.transactions <= kind.transactions + most
    opposite = [each for each in kind.statements if each in changes and own.undoes(changes[each])]
    counts = (*(calls[each] for each in opposite), kind.transactions)
    return bool(opposite) and min(abs(each - alone.transactions) for each in counts) <= most
