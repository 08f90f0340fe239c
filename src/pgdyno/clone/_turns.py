"""Turns of the values that one statement has for the same column, by itself or by references: each
is the key of another row, but those of one row that is inserted are its own."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from pgdyno.clone.keys import Keys, Place

_Same: TypeAlias = tuple[Place, str, int]
"""The column that is meant, and the table and the query that have the values."""


class Turns:
    """The turns of a statement."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._taken: Counter[_Same] = Counter()
        self._rows: Counter[Place] = Counter()
        """Rows that have a value for a column."""
        self._of_rows: dict[tuple[_Same, int], int] = {}
        """Turn of the value by which a row, by its number, is known."""

    def next(self, place: Place, query: int, *, count: int, is_inserted: bool) -> int:
        """Return the turn of the next values of a column: two of an inserted row that are keys by
        themselves are the same one."""
        root = self._keys.root(place)
        same = root, place[0], query
        turn = self._taken[same]
        if is_inserted and root[0] != place[0] and self._keys.is_key(place):
            turn = self._of_rows.setdefault((same, self._rows[place]), turn)
            self._rows[place] += 1
        self._taken[same] = max(self._taken[same], turn + count)
        return turn
