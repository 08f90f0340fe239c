"""Load of others on the server: rows of the databases in which something moves.

A server may have thousands of databases and pgdyno looks every second, so a database gets rows only
from when it first does something; the first two are how it was and how it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pgdyno.probe._link import Row


@dataclass
class ForeignLoad:
    """Remembers how each database stood when it was last looked at."""

    _before: dict[str, Row] = field(default_factory=dict)
    _written: set[str] = field(default_factory=set)

    def moved(self, answers: Sequence[Row]) -> list[Row]:
        """The rows for metric_foreign."""
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
