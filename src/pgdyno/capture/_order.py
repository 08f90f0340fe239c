"""The order that the statements of a transaction can have: samples tell it only on average.

A row is there before others refer to it, is copied before it is deleted, and is gone before another
takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from pgdyno.clone.capture_file import Statement, Table
from pgdyno.clone.keys import Keys, Place
from pgdyno.spec.sql_text import NAME, folded

_Id = TypeVar("_Id")
_CHANGE = re.compile(
    rf"(?i)\s*(insert\s+into|delete\s+from)\s+(?:only\s+)?(?:{NAME}\s*\.\s*)?({NAME})"
)


_STAY_S_MAX = 10.0
"""Time in which as many rows are deleted as a table has, if each is gone soon."""


class Change(Struct, frozen=True):
    """A statement that inserts rows into a table, or deletes some."""

    inserts: bool
    table: Table
    by_own_key: bool = False
    """True if it deletes rows by a key that is not one of references alone, of a table in which
    none stays: a new row may be one of them."""
    compared: frozenset[Place] = frozenset()
    """Columns by which it finds rows, to delete them or to insert copies."""

    def undoes(self, other: Change) -> bool:
        """Return whether one inserts into the table that the other one deletes from."""
        return self.table.full_name == other.table.full_name and self.inserts != other.inserts

    def is_beside(self, others: Iterable[Change]) -> bool:
        """Return whether it inserts a row that at most one may have beside one that another change
        inserts."""
        single = {each.table for each in self.table.references if each.columns in self.table.keys}
        return self.inserts and any(
            each.inserts and each.table.full_name in single for each in others
        )

    def must_precede(self, other: Change) -> bool:
        """Return whether it comes before another change of the same transaction."""
        if not other.inserts:
            # What is deleted was copied before.
            return self.inserts and not self.compared.isdisjoint(other.compared)
        if self.table.full_name == other.table.full_name:
            return not self.inserts and not self.by_own_key
        return self.inserts and any(
            each.table == self.table.full_name for each in other.table.references
        )


def possible_order(statements: Sequence[Statement], keys: Keys) -> list[int]:
    """Return the places of statements in an order that is possible, as near to theirs as it can
    be."""
    known = changes_of(dict(enumerate(statements)), keys)
    changes = [known.get(place) for place in range(len(statements))]
    ordered: list[int] = []
    for place, change in enumerate(changes):
        ends = len(ordered)
        if change is not None:
            others = (changes[each] for each in ordered)
            later = (at for at, other in enumerate(others) if other and change.must_precede(other))
            ends = next(later, ends)
        ordered.insert(ends, place)
    return ordered


def changes_of(statements: Mapping[_Id, Statement], keys: Keys) -> dict[_Id, Change]:
    """Return the statements that insert rows or delete some, by their ids."""
    tables = {each.name: each for each in keys.tables.values()}
    found = {key: _CHANGE.match(each.text) for key, each in statements.items()}
    return {
        key: Change(
            match[1].lower().startswith("insert"),
            tables[name],
            _is_by_own_key(statements[key], tables[name], keys),
            _compared(statements[key]),
        )
        for key, match in found.items()
        if match is not None and (name := folded(match[2])) in tables
    }


def _compared(statement: Statement) -> frozenset[Place]:
    compared = (each for each in statement.parameters if each.table and each.use == "compared")
    return frozenset((each.table, each.column) for each in compared)


def _is_by_own_key(statement: Statement, table: Table, keys: Keys) -> bool:
    """Return whether a statement deletes rows by a key that has a column of its own, soon after
    they were there."""
    if table.rows > _STAY_S_MAX * statement.calls_per_s * statement.rows:
        return False
    compared = statement.compared_with(table)
    places = ([(table.full_name, each) for each in key] for key in table.keys if compared >= {*key})
    return any(any(keys.root(each) == each for each in key) for key in places)
