"""Queues between two transactions: the rows that one puts into a table are taken from it by another
soon after.

A script cannot know which rows are waiting, so that the transaction that takes them follows in the
script of the one that puts them, as it does in an application.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from pgdyno.clone._shares import ALWAYS, FOUND
from pgdyno.clone.capture_file import Capture, Table, Use
from pgdyno.spec.change import first_word

_EVEN_MIN = 0.8
"""Rows that are taken, as a share of those that are put, or the other way round, from which on none
stay."""
_STAY_S_MAX = 10.0
"""Time that rows stay at most."""
_SELDOM = 0.5
"""Share of the transactions that put or take rows below which the others count more."""
_ONCE_MAX = 1.5
"""Executions in a transaction above which a statement is in a loop."""


class Taking(Struct, frozen=True):
    """The transaction that takes the rows that another has put."""

    transaction: int
    """Its place in the capture."""
    share: float
    """Of the executions of the other one, those that it follows: with most statements."""
    part: float
    """Of its own executions, those that follow: with most statements, too."""


class _Moved(Struct, frozen=True):
    """Rows that a transaction puts into a table, or takes from it."""

    times: float = 0.0
    """Executions in a transaction, of statements with all numbers of rows together."""
    rows_per_s: float = 0.0
    columns: frozenset[str] = frozenset()
    """Those of which it names the values."""


_ByPlace: TypeAlias = dict[int, _Moved]


def takings(capture: Capture) -> dict[int, Taking]:
    """Return the transactions that take rows from queues, by the places of those that put them."""
    found: dict[int, Taking] = {}
    put, taken = _moved(capture, "insert", "inserted"), _moved(capture, "delete", "compared")
    for table in capture.tables:
        puts, takes = put[table.full_name], taken[table.full_name]
        own = puts.keys() & takes.keys()
        for place in own:
            # It takes what it has put.
            del puts[place], takes[place]
        if not puts or not takes:
            continue
        taker = max(takes, key=lambda place: takes[place].rows_per_s)
        others = {*found, *(each.transaction for each in found.values())}
        is_queue = _is_queue(table.rows, puts, takes[taker])
        is_read = _finds_rows(capture, table, {taker, *puts, *own})
        if is_queue and not is_read and others.isdisjoint((taker, *puts)):
            executions = sum(capture.transactions[each].per_s for each in puts)
            often = capture.transactions[taker].per_s / executions
            if _is_of_same(capture, (taker, *puts)):
                taking = Taking(taker, _part(often), _part(1 / often))
                found |= dict.fromkeys(puts, taking)
    return found


def _part(often: float) -> float:
    return often if often < ALWAYS else 1.0


def own_rates(per_s: Sequence[float], takings: Mapping[int, Taking]) -> list[float]:
    """Return how often transactions begin in a second in a script of their own."""
    own = [*per_s]
    for place, taking in takings.items():
        own[place] -= taking.share * per_s[place]
        own[taking.transaction] -= taking.share * per_s[place]
    both = zip(own, per_s, strict=True)
    return [left if left > (1 - ALWAYS) * whole else 0.0 for left, whole in both]


def scripts_per_s(capture: Capture) -> float:
    """Return how many scripts of the clone begin in a second at the rate of the source."""
    per_s, found = capture.all_sessions.per_s, takings(capture)
    both = sum(each.share * per_s[place] for place, each in found.items())
    return both + sum(own_rates(per_s, found))


def _moved(capture: Capture, word: str, use: Use) -> defaultdict[str, _ByPlace]:
    """Return the rows that statements with a first word put, or take, by the table, with the
    columns of parameters with a use."""
    found: defaultdict[str, _ByPlace] = defaultdict(dict)
    for place, transaction in enumerate(capture.transactions):
        for step in transaction.steps:
            statement = capture.statements[step.statement]
            named = [each for each in statement.parameters if each.table and each.use == use]
            if named and first_word(statement.text) == word:
                name = named[0].table
                before = found[name].get(place, _Moved())
                columns = frozenset(each.column for each in named if each.table == name)
                rows = statement.rows if statement.added is None else statement.added
                found[name][place] = _Moved(
                    before.times + step.times,
                    before.rows_per_s + transaction.per_s * step.times * rows,
                    before.columns | columns,
                )
    return defaultdict(dict, {name: _once(of_table) for name, of_table in found.items()})


def _once(moved: _ByPlace) -> _ByPlace:
    """Return those of transactions most of which move rows, and in no loop."""
    return {place: each for place, each in moved.items() if _SELDOM <= each.times <= _ONCE_MAX}


def _is_queue(rows: float, puts: _ByPlace, takes: _Moved) -> bool:
    """Return whether the rows of a table may be there until they are taken: as many are as are put,
    by values that these have been given."""
    put_per_s = sum(each.rows_per_s for each in puts.values())
    is_even = _EVEN_MIN * put_per_s <= takes.rows_per_s <= put_per_s / _EVEN_MIN
    is_by_value = all(each.columns & takes.columns for each in puts.values())
    return is_even and is_by_value and put_per_s > 0 and rows <= _STAY_S_MAX * put_per_s


def _finds_rows(capture: Capture, table: Table, but: Container[int]) -> bool:
    """Return whether other transactions than some find rows of a table by a value, and leave
    them there."""
    others = (each for place, each in enumerate(capture.transactions) if place not in but)
    statements = (capture.statements[step.statement] for each in others for step in each.steps)
    reading = (each for each in statements if first_word(each.text) != "delete")
    return any(each.rows >= FOUND and each.compared_with(table) for each in reading)


def _is_of_same(capture: Capture, places: Sequence[int]) -> bool:
    """Return whether the same applications have all of some transactions."""
    rates = [[each.per_s[place] for place in places] for each in capture.applications]
    return all(all(each) or not any(each) for each in rates)
