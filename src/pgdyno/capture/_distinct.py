"""The numbers of different values that the rows of statements tell, where no statistics do.

A statement that compares columns of a table finds rows / (n1 n2 …) of its rows, with n1, n2 … as
the numbers of different values; if one of them is not known, it follows. A search by a single
column of a key, or one that refers to others, tells that number, too: of rows that many others
could refer to, few may be referred to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from pgdyno.capture._texts import is_recursive
from pgdyno.capture._told import with_told
from pgdyno.clone.capture_file import SHORTENED, Reference, Statement, Table, Use
from pgdyno.clone.keys import GROWING_MIN, Keys, Place
from pgdyno.clone.limits import unlimited
from pgdyno.spec.sql_text import NAME, folded

_ROWS_MIN = 0.01
"""Rows of a call below which nothing can be told: values are sought that are not there."""
_GROUP = re.compile(rf"(?i)\bgroup\s+by\s+(?:{NAME}\s*\.\s*)?({NAME})\s*(?:order\b.*|limit\b.*)?$")
_GROUP_ROWS = 2.0
"""Times the groups from which on rows are more than these."""
_COPYING = re.compile(
    rf"(?is)\s*insert\s+into\s+(?:{NAME}\s*\.\s*)?({NAME})\s*\(([^()]*)\)\s*select\s+([^()]*?)"
    rf"\s+from\s+(?:{NAME}\s*\.\s*)?({NAME})\b"
)


def with_distinct(
    tables: tuple[Table, ...],
    statements: Iterable[Statement],
    rows: Mapping[str, float],
) -> tuple[Table, ...]:
    """Return the tables with numbers of different values of columns that have none, as far as
    statements tell them: of several the one with most calls, of those that compare a column alone
    if there are such. ``rows`` are those that the tables had when the statements were executed."""
    by_calls = sorted(statements, key=lambda each: -each.calls_per_s)
    compared = [(each, _compared(each)) for each in by_calls]
    for is_alone in (True, False):
        keys = Keys(tables)
        told: dict[Place, float] = {}
        for statement, places in compared:
            if places and (len(places) == 1) == is_alone:
                told = dict(_told(statement, places, keys, rows)) | told
        tables = _with(tables, told)
    tables = _with(tables, _at_most(by_calls, Keys(tables), rows))
    keys = Keys(tables)
    groups = dict(group for each in reversed(by_calls) for group in _grouped(each, keys))
    tables = _with(tables, groups)
    known = {
        (table.full_name, each.name)
        for table in tables
        for each in table.columns
        if each.distinct is not None
    }
    copied = [both for each in by_calls for both in _copied(each, keys) if both[0] in known]
    return tuple(_with_likely(table, copied) for table in tables)


def _with(tables: tuple[Table, ...], told: Mapping[Place, float]) -> tuple[Table, ...]:
    return with_told(tables, "distinct", {each: round(told[each], 4) for each in told})


def _with_likely(table: Table, copied: Iterable[tuple[Place, Place]]) -> Table:
    """Return a table whose columns have the values of those to which they are copied."""
    more = tuple(
        Reference((name,), to, (column,))
        for (to, column), (of, name) in dict.fromkeys(copied)
        if of == table.full_name and not any(name in each.columns for each in table.likely)
    )
    return replace(table, likely=(*table.likely, *more)) if more else table


def _at_most(
    statements: Iterable[Statement], keys: Keys, rows: Mapping[str, float]
) -> dict[Place, float]:
    """Return the columns with few values, as statements tell that find rows by them and in a range:
    all of their values together have at least as many rows."""
    found: dict[Place, float] = {}
    for each in statements:
        for place, count in _told(each, _compared(each, ("limit", "least", "most")), keys, rows):
            if count > 0:
                found[place] = min(count, found.get(place, count))
    return found


def _compared(statement: Statement, but: Sequence[Use] = ("limit",)) -> set[Place]:
    """Return the columns of a table whose values decide the rows of a statement; none if there are
    others, or the rows do not tell. Some uses do not count."""
    used = [each for each in statement.parameters if each.use not in but]
    compared = {(each.table, each.column) for each in used if each.use == "compared"}
    is_one = len({table for table, _ in compared}) == 1 and len(compared) == len(used)
    tells = is_one and not statement.aggregates and statement.rows >= _ROWS_MIN
    return compared if tells and not is_recursive(statement.text) else set()


def _told(
    statement: Statement, compared: set[Place], keys: Keys, rows_then: Mapping[str, float]
) -> Iterator[tuple[Place, float]]:
    """Yield the column of which a statement tells the number of values, with that."""
    is_alone = len(compared) == 1 and not _has_list(statement)
    unknown = [each for each in compared if _is_unknown(each, keys, is_alone=is_alone)]
    if len(unknown) != 1:
        return
    (place,) = unknown
    others = math.prod(keys.used(each) for each in compared - {place})
    name = place[0]
    rows = max(1.0, rows_then.get(name, keys.tables[name].rows))
    is_limited = any(each.use == "limit" for each in statement.parameters)
    found = unlimited(statement.rows) if is_limited else statement.rows
    count = min(rows, max(1.0, rows / others / found))
    if keys.root(place) == place or count < keys.count(place):
        whole = max(1.0, keys.tables[name].rows)
        yield place, -min(1.0, count / whole) if count > GROWING_MIN * rows else count


def _has_list(statement: Statement) -> bool:
    """Return whether a statement compares a column with several values."""
    is_array = any(each.type.endswith("[]") for each in statement.parameters)
    return is_array or SHORTENED in statement.text


def _grouped(statement: Statement, keys: Keys) -> Iterator[tuple[Place, float]]:
    """Yield the column of a GROUP BY with fewer groups than rows, and their number."""
    found = _GROUP.search(statement.text)
    compared = [each for each in statement.parameters if each.use in ("compared", "least", "most")]
    names = {each.table for each in compared}
    if found is None or len(names) != 1 or statement.rows < _ROWS_MIN:
        return
    place = (names.pop(), folded(found[1]))
    table = keys.tables[place[0]]
    if not _is_unknown(place, keys, is_alone=False):
        return
    columns = {each.column for each in compared if each.use == "compared"}
    rows = keys.rows(table) / math.prod(keys.count((place[0], each)) for each in columns)
    if rows >= _GROUP_ROWS * statement.rows:
        yield place, max(1.0, statement.rows)


def _copied(statement: Statement, keys: Keys) -> Iterator[tuple[Place, Place]]:
    """Yield the columns into which an INSERT copies rows of another table, with those that it
    copies."""
    found = _COPYING.match(statement.text)
    names = {each.name: each for each in keys.tables.values()}
    if found is None or not {folded(found[1]), folded(found[4])} <= names.keys():
        return
    to, source = names[folded(found[1])], names[folded(found[4])]
    for one, other in zip(found[2].split(","), found[3].split(","), strict=False):
        place = (source.full_name, folded(other))
        if _is_unknown(place, keys, is_alone=False):
            yield (to.full_name, folded(one)), place


def _is_unknown(place: Place, keys: Keys, *, is_alone: bool) -> bool:
    """Return whether the number of values of a column is not known otherwise; of one in a key, or
    that refers to another, if a single value of it ``is_alone``."""
    table = keys.tables[place[0]]
    column = table.column(place[1])
    if column is None or column.distinct is not None or column.labels:
        return False
    if keys.root(place) == place and not table.is_in_key(column):
        return True
    return is_alone and (column.name,) not in table.keys and not column.has_sequence
