"""The time that SQL of the user's takes as a change: of each time that it was made or undone."""

from __future__ import annotations

from statistics import median

from msgspec import Struct

from pgdyno import numbers
from pgdyno.dimension.kinds.own_sql import MADE, UNDONE
from pgdyno.record import RunFile
from pgdyno.record.own import own_events
from pgdyno.results.compare import ComparedSql
from pgdyno.spec import Change


class SqlTimes(Struct, frozen=True):
    """The times so far, in milliseconds."""

    made_ms: tuple[float, ...]
    undone_ms: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """The time of making it once and undoing it."""
        return sum(median(each) / 1000 for each in (self.made_ms, self.undone_ms) if each)

    def result(self, change: Change) -> ComparedSql:
        """Return it as results have it."""
        return ComparedSql(
            make=change.sql["make"],
            undo=change.sql["undo"],
            make_ms=numbers.rounded(median(self.made_ms)) if self.made_ms else None,
            undo_ms=numbers.rounded(median(self.undone_ms)) if self.undone_ms else None,
            times=len(self.made_ms),
        )


def sql_times(run: RunFile) -> SqlTimes:
    """Return the times that are recorded."""
    found: dict[str, list[float]] = {MADE: [], UNDONE: []}
    for event in own_events(run):
        if (what := event.detail.get("sql")) in found:
            found[what].append(event.duration_ms or 0.0)
    return SqlTimes(tuple(found[MADE]), tuple(found[UNDONE]))
