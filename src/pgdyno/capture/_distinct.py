"""The numbers of different values that the rows of statements tell, where no statistics do.

A statement that compares columns of a table finds rows / (n1 n2 …) of its rows, with n1, n2 … as
the numbers of different values; if one of them is not known, it follows. A search by a single
column of a key, or one that refers to others, tells that number, too: of rows that many others
could refer to, few may be referred to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from pgdyno.capture._told import with_told
from pgdyno.clone.capture_file import Statement, Table
from pgdyno.clone.keys import GROWING_MIN, Keys, Place
from pgdyno.clone.limits import unlimited

_ROWS_MIN = 0.01
"""Rows of a call below which nothing can be told: values are sought that are not there."""


def with_distinct(
    tables: tuple[Table, ...],
    statements: Iterable[Statement],
    rows: Mapping[str, float],
) -> tuple[Table, ...]:
    """Return the tables with numbers of different values of columns that have none, as far as
    statements tell them; of several, the one with most calls. ``rows`` are those that the tables
    had when these were executed, where they are others."""
    keys = Keys(tables)
    told: dict[Place, float] = {}
    for each in sorted(statements, key=lambda each: -each.calls_per_s):
        if (found := _told(each, keys, rows)) is not None:
            told.setdefault(*found)
    return with_told(tables, "distinct", {place: round(count, 4) for place, count in told.items()})


def _told(
    statement: Statement, keys: Keys, rows_then: Mapping[str, float]
) -> tuple[Place, float] | None:
    """Return the column of which a statement tells the number of values."""
    if statement.aggregates or statement.rows < _ROWS_MIN:
        return None
    used = [each for each in statement.parameters if each.use != "limit"]
    compared = {(each.table, each.column) for each in used if each.use == "compared"}
    names = {table for table, _ in compared}
    if len(names) != 1 or len(compared) != len(used):
        return None
    unknown = [each for each in compared if _is_unknown(each, keys, is_alone=len(compared) == 1)]
    if len(unknown) != 1:
        return None
    others = math.prod(keys.count(each) for each in compared if each not in unknown)
    (name,) = names
    rows = max(1.0, rows_then.get(name, keys.tables[name].rows))
    is_limited = len(used) < len(statement.parameters)
    found = unlimited(statement.rows) if is_limited else statement.rows
    count = min(rows, max(1.0, rows / others / found))
    (place,) = unknown
    if keys.root(place) != place and count >= keys.count(place):
        return None
    whole = max(1.0, keys.tables[name].rows)
    return place, -min(1.0, count / whole) if count > GROWING_MIN * rows else count


def _is_unknown(place: Place, keys: Keys, *, is_alone: bool) -> bool:
    """Return whether the number of values of a column is not known otherwise; of one in a key, or
    that refers to another, if it ``is_alone``."""
    table = keys.tables[place[0]]
    column = table.column(place[1])
    if column is None or column.distinct is not None or column.labels:
        return False
    if keys.root(place) == place and not table.is_in_key(column):
        return True
    return is_alone and (column.name,) not in table.keys and not column.has_sequence
