"""The order that the statements of a transaction can have: samples tell it only on average.

A row is there before others refer to it, and is gone before another takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from pgdyno.clone.capture_file import Statement, Table
from pgdyno.clone.keys import Keys
from pgdyno.spec.sql_text import NAME, folded

_CHANGE = re.compile(
    rf"(?i)\s*(insert\s+into|delete\s+from)\s+(?:only\s+)?(?:{NAME}\s*\.\s*)?({NAME})"
)


class _Change(Struct, frozen=True):
    """A statement that inserts rows into a table, or deletes some."""

    inserts: bool
    table: Table

    def must_precede(self, other: _Change) -> bool:
        """Return whether it comes before another change of the same transaction."""
        if not other.inserts:
            return False
        if self.table.full_name == other.table.full_name:
            return not self.inserts
        return self.inserts and any(
            each.table == self.table.full_name for each in other.table.references
        )


def possible_order(statements: Sequence[Statement], keys: Keys) -> list[int]:
    """Return the places of statements in an order that is possible, as near to theirs as it can
    be."""
    by_name = {each.name: each for each in keys.tables.values()}
    changes = [_change(each, by_name) for each in statements]
    ordered: list[int] = []
    for place, change in enumerate(changes):
        ends = len(ordered)
        if change is not None:
            others = (changes[each] for each in ordered)
            later = (at for at, other in enumerate(others) if other and change.must_precede(other))
            ends = next(later, ends)
        ordered.insert(ends, place)
    return ordered


def _change(statement: Statement, tables: dict[str, Table]) -> _Change | None:
    found = _CHANGE.match(statement.text)
    table = None if found is None else tables.get(folded(found[2]))
    if found is None or table is None:
        return None
    return _Change(found[1].lower().startswith("insert"), table)
