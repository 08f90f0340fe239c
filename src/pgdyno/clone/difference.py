"""The differences between two captures: of one load at two times, or of a load and its clone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from pgdyno.clone.capture_file import SHORTENED, Capture, Statement, Table

DIFFERENCE_MIN = 0.1
"""Share from which on a figure differs: that of the tolerances of a clone."""
POINTS_MIN = 0.05
SHARE = "share"
"""Unit of a part of a whole."""
HOT_SHARE = "updates that are HOT"
_PARAMETER = re.compile(r"\$\d+(?:::(?:text|bigint)\b)?")
_LIST = re.compile(r"\bin \(\?(?:\s*,\s*\?)*\s*\)")
Item = TypeVar("Item", Statement, Table)


class Figure(Struct, frozen=True):
    """A figure before and after."""

    name: str
    unit: str
    before: float
    after: float

    @property
    def ratio(self) -> float | None:
        """After divided by before; None where it was nothing."""
        return self.after / self.before if self.before else None

    @property
    def differs(self) -> bool:
        """True if it differs by ``DIFFERENCE_MIN`` or more, a share by ``POINTS_MIN``."""
        if self.unit == SHARE:
            return abs(self.after - self.before) >= POINTS_MIN
        least = DIFFERENCE_MIN * max(abs(self.before), abs(self.after))
        return abs(self.after - self.before) >= least > 0


class Changed(Struct, frozen=True):
    """A statement or a table that both have, with the figures that differ."""

    name: str
    figures: tuple[Figure, ...]
    added: tuple[str, ...] = ()
    """Columns, keys and indexes of a table that only the second has."""
    removed: tuple[str, ...] = ()


class Differences(Struct, frozen=True):
    """Statements and tables that only one capture has, and the figures that differ."""

    transactions: Figure
    statements: int
    """Statements that both have."""
    new_statements: tuple[Statement, ...]
    gone_statements: tuple[Statement, ...]
    changed_statements: tuple[Changed, ...]
    """Those that take the most time first."""
    tables: int
    new_tables: tuple[str, ...]
    gone_tables: tuple[str, ...]
    changed_tables: tuple[Changed, ...]


def differences(before: Capture, after: Capture) -> Differences:
    """Return the differences between two captures. Statements are the same if only the
    numbers of their parameters differ."""
    both, new, gone = _paired(before.statements, after.statements, lambda each: shape_of(each.text))
    tables, new_tables, gone_tables = _paired(
        before.tables, after.tables, lambda each: each.full_name
    )
    by_time = sorted(both, key=lambda pair: -_time(pair[1]))
    changed_tables = (_of_tables(one, other) for one, other in tables)
    transactions = (before.source.transactions_per_s, after.source.transactions_per_s)
    return Differences(
        transactions=Figure("transactions", "/s", *transactions),
        statements=len(both),
        new_statements=tuple(sorted(new, key=lambda each: -_time(each))),
        gone_statements=tuple(sorted(gone, key=lambda each: -_time(each))),
        changed_statements=tuple(
            Changed(one.text, figures)
            for one, other in by_time
            if (figures := _differing(_of_statements(one, other)))
        ),
        tables=len(tables),
        new_tables=tuple(each.full_name for each in new_tables),
        gone_tables=tuple(each.full_name for each in gone_tables),
        changed_tables=tuple(each for each in changed_tables if each is not None),
    )


def _paired(
    before: Sequence[Item], after: Sequence[Item], name: Callable[[Item], str]
) -> tuple[list[tuple[Item, Item]], list[Item], list[Item]]:
    """Return those of both, those of the second alone and those of the first alone."""
    earlier = {name(each): each for each in before}
    later = {name(each): each for each in after}
    return (
        [(earlier[key], each) for key, each in later.items() if key in earlier],
        [each for key, each in later.items() if key not in earlier],
        [each for key, each in earlier.items() if key not in later],
    )


def shape_of(text: str) -> str:
    """Return a statement with the same sign for each parameter, and for a list of them, without the
    types that a capture writes behind parameters, and in small letters."""
    signs = _PARAMETER.sub("?", text.replace(SHORTENED, "")).lower()
    return _LIST.sub("in (?)", signs)


def _time(statement: Statement) -> float:
    return statement.calls_per_s * statement.ms


def _of_statements(one: Statement, other: Statement) -> list[Figure]:
    return [
        Figure("calls", "/s", one.calls_per_s, other.calls_per_s),
        Figure("rows a call", "", one.rows, other.rows),
        Figure("time of a call", "ms", one.ms, other.ms),
        Figure("WAL of a call", "bytes", one.wal_bytes, other.wal_bytes),
    ]


def _differing(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    return tuple(each for each in figures if each.differs)


def _of_tables(one: Table, other: Table) -> Changed | None:
    figures = _differing(
        [
            Figure("rows", "", one.rows, other.rows),
            Figure("size", "bytes", one.size_bytes, other.size_bytes),
            *_of_updates(one, other),
        ]
    )
    before, after = _parts(one), _parts(other)
    added = tuple(each for each in after if each not in before)
    removed = tuple(each for each in before if each not in after)
    if not (figures or added or removed):
        return None
    return Changed(one.full_name, figures, added, removed)


def _of_updates(one: Table, other: Table) -> Iterator[Figure]:
    if one.hot_share is not None and other.hot_share is not None:
        yield Figure(HOT_SHARE, SHARE, one.hot_share, other.hot_share)


def _parts(table: Table) -> list[str]:
    """Return columns, keys, references and indexes in words."""
    return [
        *(f"column {each.name} {each.type}" for each in table.columns),
        *(f"key ({', '.join(each)})" for each in table.keys),
        *(f"reference ({', '.join(each.columns)}) to {each.table}" for each in table.references),
        *(f"index {each.sql}" for each in table.indexes),
        *table.triggers,
    ]
