"""The numbers of different values that the rows of statements tell, where no statistics do.

A statement that compares columns of a table finds rows / (n1 n2 …) of its rows, with n1, n2 … as
the numbers of different values; if one of them is not known, it follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from pgdyno.capture._told import with_told
from pgdyno.clone.capture_file import Statement, Table
from pgdyno.clone.keys import GROWING_MIN, Keys, Place

_ROWS_MIN = 0.01
"""Rows of a call below which nothing can be told: values are sought that are not there."""
_MORE = 3.0
"""Times the rows of a LIMIT from which on nearly all values, spread at random, have as many."""


def with_distinct(tables: tuple[Table, ...], statements: Iterable[Statement]) -> tuple[Table, ...]:
    """Return the tables with numbers of different values of columns that have none, as far as
    statements tell them; of several, the one with most calls."""
    keys = Keys(tables)
    told: dict[Place, float] = {}
    for each in sorted(statements, key=lambda each: -each.calls_per_s):
        if (found := _told(each, keys)) is not None:
            told.setdefault(*found)
    return with_told(tables, "distinct", {place: round(count, 4) for place, count in told.items()})


def _told(statement: Statement, keys: Keys) -> tuple[Place, float] | None:
    """Return the column of which a statement tells the number of values."""
    if statement.aggregates or statement.rows < _ROWS_MIN:
        return None
    used = [each for each in statement.parameters if each.use != "limit"]
    compared = {(each.table, each.column) for each in used if each.use == "compared"}
    names = {table for table, _ in compared}
    if len(names) != 1 or len(compared) != len(used):
        return None
    unknown = [each for each in compared if _is_unknown(each, keys)]
    if len(unknown) != 1:
        return None
    others = math.prod(keys.count(each) for each in compared if each not in unknown)
    rows = max(1, keys.rows(keys.tables[names.pop()]))
    is_limited = len(used) < len(statement.parameters)
    found = _without_limit(statement.rows) if is_limited else statement.rows
    count = min(rows, max(1.0, rows / others / found))
    return unknown[0], -count / rows if count > GROWING_MIN * rows else count


def _without_limit(rows: float) -> float:
    """Return how many rows values have at least, of which a statement with LIMIT finds so many:
    values that are spread at random have fewer rows than the mean as often as more."""
    spread = math.inf if rows >= 1 else -math.log1p(-rows)
    return min(spread, _MORE * max(1.0, rows))


def _is_unknown(place: Place, keys: Keys) -> bool:
    table = keys.tables[place[0]]
    column = table.column(place[1])
    is_own = keys.root(place) == place and column is not None and not table.is_in_key(column)
    return is_own and column is not None and column.distinct is None and not column.labels
