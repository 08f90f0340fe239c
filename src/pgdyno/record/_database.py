"""A run file's database, read-only: rows out of it, and clauses for asking for them.

Whatever SQLite finds wrong with a file is raised as UsageError with a hint, when the damaged place
is first read.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from pgdyno.record import fileformat
from pgdyno.record.opening import check_header, check_marks, connect, damaged
from pgdyno.visible import visible_within

if TYPE_CHECKING:
    from numpy.typing import NDArray

Row = TypeVar("Row")


class Database:
    """One run file, open for reading. Threads may share it."""

    def __init__(self, path: Path) -> None:
        """Opens ``path``; UsageError if it is missing, foreign, damaged or of another format."""
        self.path = path
        check_header(path)
        with self.reading():
            self._db = connect(path)
            check_marks(self._db, path)

    def close(self) -> None:
        """Lets go of the file."""
        self._db.close()

    def version(self) -> int:
        """A number that is another one whenever the file has changed."""
        ((version,),) = self.tuples("pragma data_version")
        return int(version)

    def has(self, table: str) -> bool:
        """Whether the file has a table; an older one lacks those that came later."""
        named = "select count(*) from sqlite_schema where type = 'table' and name = ?"
        ((count,),) = self.tuples(named, [table])
        return bool(count)

    def damaged(self, what: str) -> Exception:
        """The error to raise when ``what`` in the file cannot be read."""
        return damaged(self.path, what)

    def all(self, kind: type[Row], sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Dataclasses of all rows."""
        return [self.decoded(kind, row) for row in self.rows(sql, values)]

    def one(self, sql: str, values: Sequence[Any] = ()) -> dict[str, Any]:
        """The one row that there must be."""
        rows = self.rows(sql, values)
        if len(rows) != 1:
            raise self.damaged("it does not say what was run")
        return rows[0]

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Rows as dicts."""
        with self.reading():
            cursor = self._db.execute(sql, values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def tuples(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows as tuples."""
        with self.reading():
            return self._db.execute(sql, values).fetchall()

    def decoded(self, kind: type[Row], row: Mapping[str, Any]) -> Row:
        """A dataclass of a row; columns named …_json fill the field of that name, decoded."""
        values = {}
        for name, value in row.items():
            plain_name = name.removesuffix("_json")
            if plain_name != name:
                value = self.json(value)
                # A spec is used again, to the letter.
                value = value if plain_name == "spec" else visible_within(value)
            values[plain_name] = value
        # What older files do not have has a default.
        lacking = _defaulted(kind) - set(values)  # type: ignore[arg-type]
        known = _types_of(kind)  # type: ignore[arg-type]
        wanted = {name: types for name, types in known.items() if name not in lacking}
        for name, types in wanted.items():
            if name not in values or not _is_one_of(values[name], types):
                raise self.damaged(f"no {name} that {kind.__name__} could have")
        return kind(**{name: values[name] for name in wanted})

    def json(self, text: Any) -> Any:
        """A decoded JSON column."""
        try:
            return json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise self.damaged(f"a record in it is not JSON: {error}") from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turns what SQLite finds wrong with a file into an error for the user."""
        try:
            yield
        except sqlite3.ProgrammingError:
            raise  # a mistake of ours, or a closed file
        except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
            raise self.damaged(str(error)) from error


@cache
def _types_of(kind: Any) -> dict[str, tuple[type, ...]]:
    """The fields of a dataclass and the types that their values have."""
    hints = get_type_hints(kind)
    types = {}
    for field in fields(kind):
        hint = hints[field.name]
        among = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        types[field.name] = tuple(get_origin(each) or each for each in among)
    return types


@cache
def _defaulted(kind: Any) -> frozenset[str]:
    """The fields of a dataclass that have a default."""
    return frozenset(field.name for field in fields(kind) if field.default is not MISSING)


def _is_one_of(value: Any, types: tuple[type, ...]) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False
    if isinstance(value, int) and not isinstance(value, bool):
        return int in types or float in types
    return isinstance(value, types)


def columns_of(table: str) -> dict[str, str]:
    """The columns of a table and their declared types; ValueError if there is no such table."""
    types = fileformat.columns().get(table)
    if types is None:
        raise ValueError(f"a run file has no table {table!r}")
    return types


def among_slices(slice_ids: Collection[int] | None) -> str:
    """A where clause for some slices; ids are numbers, so they need no placeholders."""
    if slice_ids is None:
        return ""
    return f"where slice_id in ({', '.join(str(int(number)) for number in slice_ids)})"


def clause(
    table: str, only: Mapping[str, Any], *, skip_none: bool = False
) -> tuple[str, list[Any]]:
    """A where clause and its values; unknown columns raise ValueError."""
    conditions, values = [], []
    for name, value in only.items():
        if value is None and skip_none:
            continue
        if name not in columns_of(table):
            raise ValueError(f"table {table} has no column {name!r}")
        several = isinstance(value, Collection) and not isinstance(value, (str, bytes))
        members = list(value) if several else [value]
        if several:
            conditions.append(f"{name} in ({', '.join('?' * len(members))})")
        else:
            conditions.append(f"{name} is ?")
        values += members
    return (f"where {' and '.join(conditions)}" if conditions else ""), values


def array(column: Sequence[Any], kind: str) -> NDArray[Any]:
    """A column as an array: at_ms int64, other numbers float64 with NaN for NULL, text objects."""
    import numpy as np

    if kind == "at_ms":
        return np.array(column, dtype=np.int64)
    if kind in ("integer", "real"):
        return np.array(column, dtype=np.float64)
    return np.array(column, dtype=object)
