"""Load of others on the server: rows of the databases with activity.

A server may have thousands of databases, which are read every second, so a database has rows only
from its first activity; the first two rows are its figures before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pgdyno.json_types import Row


@dataclass
class ForeignLoad:
    """The figures of each database from the previous sample."""

    _before: dict[str, Row] = field(default_factory=dict)
    _written: set[str] = field(default_factory=set)

    def moved(self, answers: Sequence[Row]) -> list[Row]:
        """Return the rows for metric_foreign."""
        rows: list[Row] = []
        for row in answers:
            name = row["database"]
            before = self._before.get(name, row)
            if name not in self._written and (row != before or row["at_work"]):
                self._written.add(name)
                rows.append({**before, "at_work": 0})
            if name in self._written:
                rows.append(row)
        self._before = {row["database"]: row for row in answers}
        return rows
