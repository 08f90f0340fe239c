"""Read-only database of a run file: its rows, and clauses to select them.

Errors that SQLite finds in a file are raised as UsageError with a hint, when the damaged page is
first read.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints, is_typeddict

from msgspec.structs import fields

from pgdyno.escaping import visible_within
from pgdyno.json_types import Row
from pgdyno.record import fileformat
from pgdyno.record.opening import check_header, check_marks, connect, damaged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pgdyno.errors import UsageError
    from pgdyno.record.part import Fact

Kind = TypeVar("Kind")
Stored = TypeVar("Stored", bound="Fact")
_AS_WRITTEN = ("spec", "rows")
"""Not altered: a spec can be run again, and names in the rows of a look become SQL."""


class RunDatabase:
    """The database of one run file, open for reading. Threads may share it."""

    def __init__(self, path: Path) -> None:
        """Open ``path``. UsageError if it is missing, foreign, damaged or of another format."""
        self.path = path
        check_header(path)
        with self.reading():
            self._db = connect(path)
            check_marks(self._db, path)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def version(self) -> int:
        """Return a number that differs after each change of the file."""
        ((version,),) = self.tuples("pragma data_version")
        return int(version)

    def damaged(self, problem: str) -> UsageError:
        """Return the error to raise for a damaged file; ``problem`` ends its message."""
        return damaged(self.path, problem)

    def all(self, kind: type[Kind], sql: str, values: Sequence[Any] = ()) -> list[Kind]:
        """Return all rows as values of a type."""
        return [self.decoded(kind, row) for row in self.rows(sql, values)]

    def one(self, sql: str, values: Sequence[Any] = ()) -> Row:
        """Return the only row of a query. UsageError if there is none or more than one."""
        rows = self.rows(sql, values)
        if len(rows) != 1:
            raise self.damaged("a required row is missing")
        return rows[0]

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return all rows as dicts."""
        with self.reading():
            cursor = self._db.execute(sql, values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def tuples(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows as tuples."""
        with self.reading():
            return self._db.execute(sql, values).fetchall()

    def decoded(self, kind: type[Kind], row: Row) -> Kind:
        """Return a row as a value of a type; a column NAME_json becomes the field NAME, decoded."""
        values = {}
        for name, column, types in _places_in(kind, tuple(row)):  # type: ignore[arg-type]
            value = None if column is None else row[column]
            if column is not None and column != name:
                value = self.json(value)
                value = value if name in _AS_WRITTEN else visible_within(value)
            if isinstance(value, str) and issubclass(types[0], StrEnum):
                value = types[0]._value2member_map_.get(value)
            if bool in types and value in (0, 1):  # SQLite has no type for them.
                value = bool(value)
            if column is None or not _is_one_of(value, types):
                raise self.damaged(f"a {kind.__name__} has no valid {name}")
            values[name] = value
        return kind(**values)

    def fact(self, kind: type[Stored], row: Row, **more: object) -> Stored:
        """Return a row as a fact: members that are not its columns are in ``more``, and columns
        that are no members are left out."""
        from pydantic import ValidationError

        by_name = {column.removesuffix("_json"): column for column in row}
        members = {
            name: visible_within(self.json(row[column])) if column != name else row[column]
            for name, column in by_name.items()
            if name in _members_of(kind)
        }
        try:
            return kind.model_validate(members | more)
        except ValidationError as problem:
            raise self.damaged(f"a {kind.__name__} in it is not valid") from problem

    def json(self, text: Any) -> Any:
        """Return a decoded JSON column. UsageError if it is not JSON."""
        try:
            return json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise self.damaged(f"a record in it is not JSON: {error}") from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Within the block, convert SQLite's errors about the file to UsageError."""
        try:
            yield
        except sqlite3.ProgrammingError:
            raise  # a bug, or a closed file
        except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
            raise self.damaged(str(error)) from error


def _members_of(kind: type[Fact]) -> set[str]:
    return {field.alias or name for name, field in kind.model_fields.items()}


@cache
def _places_in(
    kind: Any, columns: tuple[str, ...]
) -> tuple[tuple[str, str | None, tuple[type, ...]], ...]:
    """Return field, column and types of values for a type in a row of these columns; None is
    the column of a field that has none."""
    by_field = {column.removesuffix("_json"): column for column in columns}
    return tuple((name, by_field.get(name), types) for name, types in _types_of(kind).items())


@cache
def _types_of(kind: Any) -> dict[str, tuple[type, ...]]:
    """Return the fields of a type of rows and the types of their values."""
    hints = get_type_hints(kind)
    types = {}
    for field in fields(kind):
        hint = hints[field.name]
        members = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        types[field.name] = tuple(map(_runtime_type, members))
    return types


def _runtime_type(hint: Any) -> Any:
    """Return the class of a type hint's values: dict for a TypedDict or dict[str, int]."""
    if is_typeddict(hint):
        return dict
    return get_origin(hint) or hint


def _is_one_of(value: Any, types: tuple[type, ...]) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False
    if isinstance(value, int) and not isinstance(value, bool):
        return int in types or float in types
    return isinstance(value, types)


def columns_of(table: str) -> dict[str, str]:
    """Return a table's columns and their declared types. ValueError if there is no such table."""
    types = fileformat.columns().get(table)
    if types is None:
        raise ValueError(f"a run file has no table {table!r}")
    return types


def in_slices(slice_ids: Collection[int] | None) -> str:
    """Return a where clause for some slices, without placeholders since ids are numbers."""
    if slice_ids is None:
        return ""
    return f"where slice_id in ({', '.join(str(int(number)) for number in slice_ids)})"


def clause(table: str, only: Row, *, skip_none: bool = False) -> tuple[str, list[Any]]:
    """Return a where clause and its values. ValueError for an unknown column."""
    conditions, values = [], []
    for name, value in only.items():
        if value is None and skip_none:
            continue
        if name not in columns_of(table):
            raise ValueError(f"table {table} has no column {name!r}")
        is_list = isinstance(value, Collection) and not isinstance(value, (str, bytes))
        members = list(value) if is_list else [value]
        if is_list:
            conditions.append(f"{name} in ({', '.join('?' * len(members))})")
        else:
            conditions.append(f"{name} is ?")
        values += members
    return (f"where {' and '.join(conditions)}" if conditions else ""), values


def array(column: Sequence[Any], kind: str) -> NDArray[Any]:
    """Return a column as an array: at_ms as int64, other numbers as float64 with NaN for NULL, text
    as objects."""
    import numpy as np

    if kind == "at_ms":
        return np.array(column, dtype=np.int64)
    if kind in ("integer", "real"):
        return np.array(column, dtype=np.float64)
    return np.array(column, dtype=object)
