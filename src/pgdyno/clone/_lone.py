"""Rows with a key of several columns, one of which is unique by itself and decides the others.

Where several columns refer to such a row, their keys are those of one row: a device and its owner.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pgdyno.clone._likely import Place


class LoneKey(Struct, frozen=True):
    """Such a key of a table; its columns are those to which the table's own refer."""

    lone: Place
    """The one that is unique by itself."""
    counts: Mapping[Place, int]
    """Keys of the others that refer to further tables."""
    rows: int

    def other(self, of: Place, number: str) -> str:
        """Return the key of another column in a row, by the number of that, from 0."""
        return f"mod({number}, {self.counts[of]}) + 1"

    def one_with(self, of: Place, other: str) -> str:
        """Return the key of the unique column in one of the rows with a key of another one."""
        count = self.counts[of]
        return f"{other} + {count} * random(0, ({self.rows} - ({other})) / {count})"
