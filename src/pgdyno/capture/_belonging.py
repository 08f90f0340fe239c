"""Statements that were seen alone, and belong to a transaction by what they change.

A row that takes the place of a deleted one comes with it, if both are changed equally often, and
one that stands beside a new row of another table comes with that. Of rows that others find by a
value none is gone for long, so that they are replaced in one transaction. A statement with another
number of rows comes in place of one that is the same otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

from msgspec.structs import replace

from pgdyno.capture._order import Change, changes_of
from pgdyno.capture._transactions import Kind, may_differ
from pgdyno.capture._units import CALLS_MIN
from pgdyno.clone.capture_file import Statement, Table
from pgdyno.clone.keys import Keys
from pgdyno.spec.change import first_word

_FOUND = 0.5
"""Rows of a call from which on a statement finds what it looks for."""
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
    kinds = _with_same(kinds, statements, calls, changes)
    left = list(kinds)
    rare = _RARE * sum(each.transactions for each in kinds)
    for alone in kinds:
        own = changes.get(alone.statements[0]) if _is_alone(alone, statements) else None
        if own is None or alone.times or alone not in left:
            continue
        others = (each for each in left if each is not alone and _is_open(each, rare))
        stay = _is_found(own.table, statements.values())
        if not (_is_open(alone, rare) or (stay and alone.transactions >= CALLS_MIN)):
            others = (each for each in others if own.is_beside(_of_kind(each, changes)))
        able = [each for each in others if _belongs(own, calls, alone, each, changes)]
        if able:
            best = max(able, key=lambda each: each.transactions)
            # Rows that stay are deleted before others take their place, those of locks behind that.
            is_first = any(map(own.undoes, _of_kind(best, changes))) and own.inserts != stay
            both = (alone, best) if is_first else (best, alone)
            left.remove(alone)
            left[left.index(best)] = replace(
                best,
                statements=both[0].statements + both[1].statements,
                transactions=max(best.transactions, alone.transactions),
                block=True,
            )
    return left


def _with_same(
    kinds: Sequence[Kind],
    statements: Mapping[str, Statement],
    calls: Mapping[str, float],
    changes: Container[str],
) -> list[Kind]:
    """Return the kinds, with those in another one that are the same with other numbers of rows, and
    single changes in one that has such: a transaction has either."""

    found: list[Kind] = []
    counts: list[Counter[str]] = []
    homes: dict[frozenset[str], int] = {}
    """Places of kinds by their texts, and by those of each of their statements."""
    for kind in sorted(kinds, key=lambda each: len(each.statements) == 1):
        own = Counter[str]()
        for each in kind.statements:
            own[statements[each].without_rows] += calls[each]  # type: ignore[assignment]
        texts, place = frozenset(own), len(found)
        if not (kind.times or kind.looped):
            is_change = len(kind.statements) == 1 and kind.statements[0] in changes
            parts = [texts, *(frozenset((each,)) for each in own)]
            place = homes.get(texts, place)
            is_same = place < len(found) and (is_change or texts == {*counts[place]})
            place = place if is_same else len(found)
            homes = dict.fromkeys(parts, place) | homes
        if place == len(found):
            found.append(kind)
            counts.append(own)
            continue
        counts[place] += own
        found[place] = replace(
            found[place],
            statements=found[place].statements + kind.statements,
            transactions=max(found[place].transactions, *(counts[place][each] for each in own)),
        )
    return found


def _is_alone(kind: Kind, statements: Mapping[str, Statement]) -> bool:
    """Return whether all statements of a kind are the same but for their number of rows."""
    return len({statements[each].without_rows for each in kind.statements}) == 1


def _is_found(table: Table, statements: Iterable[Statement]) -> bool:
    """Return whether statements find rows of a table by a value: as many stay as are replaced."""
    queries = (each for each in statements if first_word(each.text) == "select")
    return any(each.rows >= _FOUND and each.compared_with(table) for each in queries)


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
    each_time = [calls[each] for each in opposite]
    counts = (*each_time, sum(each_time), kind.transactions)
    return bool(opposite) and min(abs(each - alone.transactions) for each in counts) <= most
