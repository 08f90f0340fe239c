"""Traces of somebody who altered a capture file: numbers that are too large, names that are not
there, tables and columns twice."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import fields

from pgdyno.escaping import visible_line

if TYPE_CHECKING:
    from pgdyno.clone.capture_file import Capture, Table

_MOST = 1e15
_MOST_OF = {
    "labels": 10_000,
    "major": 1000,
    "sessions": 100_000,
    "times": 1e7,
    "seconds": 1e9,
    "calls_per_s": 1e9,
    "transactions_per_s": 1e7,
    "per_s": 1e7,
    "share": 1,
    "shares": 1,
    "null_share": 1,
    "hot_share": 2,
    "frequent": 1,
    "update_skew": 100,
    "elements": 10_000,
    "waits": 1,
}
"""Highest numbers of fields, where they decide how much is made."""
_LEAST_OF = {"distinct": -1, "correlation": -1}
_NAME_CHARACTERS_MAX = 1000
_TEXT_CHARACTERS_MAX = 1 << 20
_NAMES = ("schema", "name", "type", "base", "table", "column", "columns", "keys", "id", "severity")
"""Fields with names; other texts may be longer."""
_PARTITIONS_MAX = 10_000
_STEPS_MAX = 2000
"""Of a transaction: a capture has no more statements."""
_PARAMETER = re.compile(r"\$\d{6}")


def altered(capture: Capture) -> str | None:
    """Return a part of a file that no capture has; None if it is as it was written."""
    found = next(_found(capture), None)
    return None if found is None else visible_line(found)


def _found(capture: Capture) -> Iterator[str]:
    yield from _values(capture, "")
    names = [each.full_name for each in capture.tables]
    names += [f"{each.schema}.{each.name}" for each in capture.views]
    yield from (f"the table {each} twice" for each in _twice(names))
    known = {each.full_name: each for each in capture.tables}
    for table in capture.tables:
        yield from _of_table(table, known)
    parameters = (each for statement in capture.statements for each in statement.parameters)
    for each in parameters:
        if each.table and each.table not in known:
            yield f"a parameter of the table {each.table}, which it does not have"
    count = len(capture.statements)
    if any(not 0 <= step.statement < count for each in capture.transactions for step in each.steps):
        yield "the number of a statement that it does not have"
    if not all(each.steps for each in capture.transactions):
        yield "a transaction without statements"
    if any(len(each.steps) > _STEPS_MAX for each in capture.transactions):
        yield f"a transaction of more than {_STEPS_MAX} steps"
    if any(len(each.per_s) != len(capture.transactions) for each in capture.applications):
        yield "an application with other transactions"


def _of_table(table: Table, known: dict[str, Table]) -> Iterator[str]:
    names = [each.name for each in table.columns]
    yield from (f"the column {table.full_name}.{each} twice" for each in _twice(names))
    if table.has_primary and not table.keys:
        yield f"a primary key of {table.full_name} without columns"
    partitioned = [] if table.partitions is None else [table.partitions.columns]
    references = [*table.references, *table.likely]
    paths = [table.path] if table.path else []
    own = [*table.keys, *partitioned, *paths, *(each.columns for each in references)]
    for columns in own:
        if not columns or not set(names).issuperset(columns) or _twice(columns):
            yield f"a key of {table.full_name} with columns that it does not have"
    if (parts := table.partitions) is not None:
        if not 1 <= parts.count <= _PARTITIONS_MAX:
            yield f"{parts.count} partitions of {table.full_name}"
        if parts.shares and len(parts.shares) != parts.count:
            yield f"shares of other partitions than those of {table.full_name}"
    for each in references:
        to = known.get(each.table)
        if to is None:
            yield f"a reference to the table {each.table}, which it does not have"
        elif len(each.keys) != len(each.columns) or not all(map(to.column, each.keys)):
            yield f"a reference to columns that {each.table} does not have"


def _twice(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return [each for each in names if each in seen or seen.add(each)]  # type: ignore[func-returns-value]


def _values(value: object, name: str) -> Iterator[str]:
    """Yield the values that are too large, or negative, below a field."""
    if isinstance(value, Struct):
        for each in fields(value):
            yield from _values(getattr(value, each.name), each.name)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _of_text(key, "name")
            yield from _values(item, name)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _values(item, name)
    elif isinstance(value, str):
        yield from _of_text(value, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        least, most = _LEAST_OF.get(name, 0), _MOST_OF.get(name, _MOST)
        if not math.isfinite(value) or not least <= value <= most:
            yield f'"{name}": {value:g}' if abs(value) < _MOST else f'"{name}" beyond {_MOST:g}'


def _of_text(text: str, name: str) -> Iterator[str]:
    most = _NAME_CHARACTERS_MAX if name in _NAMES else _TEXT_CHARACTERS_MAX
    if len(text) > most:
        yield f'"{name}" of more than {most} characters'
    elif "\0" in text or _PARAMETER.search(text):
        yield f'a "{name}" that no server has'
