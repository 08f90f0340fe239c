"""Client sessions by where they come from: role, application and client address, in each state.

The server answers with one row for each origin and state that occurs. The rows made of it have all
six states, 0 for one that does not occur, so that nothing has to be guessed from a missing row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from pgdyno.json_types import Row
from pgdyno.record import sessionages
from pgdyno.record.sessionages import EMPTY, STATES, added, written

ORIGINS_MAX = 50
"""Origins with a row of their own, those with most sessions; all others are added up. More are
hundreds of pods with an address each, which would fill the run file."""
OTHERS = "(others)"
"""Role, application and address of the row that others are added up in."""


class _Origin(Struct):
    """Sessions of one origin."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATES.values(), 0))
    hidden: int = 0
    unused: int = 0
    idle_ages: Sequence[int] = EMPTY
    pause_ages: Sequence[int] = EMPTY
    transaction_ages: Sequence[int] = EMPTY
    connection_ages: Sequence[int] = EMPTY

    @property
    def sessions(self) -> int:
        return sum(self.counts.values()) + self.hidden

    def take(self, row: Row) -> None:
        """Add the sessions of one state."""
        column, count = STATES.get(row["state"]), int(row["count"])
        if column is None:
            self.hidden += count
        else:
            self.counts[column] += count
        self.unused += int(row["unused"])
        if column == "idle":
            self.idle_ages = added(self.idle_ages, row["state_ages"])
        elif column in ("in_transaction", "in_aborted"):
            self.pause_ages = added(self.pause_ages, row["state_ages"])
        self.transaction_ages = added(self.transaction_ages, row["transaction_ages"])
        self.connection_ages = added(self.connection_ages, row["connection_ages"])

    def row(self, names: Sequence[str]) -> Row:
        """Return its row of metric_origin."""
        role, application, address = names
        return {
            "role": role,
            "application": application,
            "address": address,
            **self.counts,
            "hidden": self.hidden,
            "unused": self.unused,
            "idle_ages": written(self.idle_ages),
            "pause_ages": written(self.pause_ages),
            "transaction_ages": written(self.transaction_ages),
            "connection_ages": written(self.connection_ages),
        }


def by_origin(answer: Iterable[Row]) -> list[Row]:
    """Return the rows of metric_origin."""
    rows = list(answer)
    sizes: dict[tuple[str, str, str], int] = {}
    for row in rows:
        sizes[_names(row)] = sizes.get(_names(row), 0) + int(row["count"])
    named = {*sorted(sizes, key=lambda names: -sizes[names])[:ORIGINS_MAX]}
    origins: dict[tuple[str, str, str], _Origin] = {}
    for row in rows:
        names = _names(row) if _names(row) in named else (OTHERS,) * 3
        origins.setdefault(names, _Origin()).take(row)
    largest = sorted(origins.items(), key=lambda item: -item[1].sessions)
    return [origin.row(names) for names, origin in largest]


def by_state(answer: Iterable[Row]) -> list[Row]:
    """Return the rows of metric_activity: all six states, over all origins."""
    counts = dict.fromkeys(sessionages.STATES, 0)
    oldest_ms: dict[str, float | None] = dict.fromkeys(sessionages.STATES)
    for row in answer:
        state = row["state"]
        if state in counts:
            counts[state] += int(row["count"])
            ages = [age for age in (oldest_ms[state], row["xact_age_ms_max"]) if age is not None]
            oldest_ms[state] = max(ages, default=None)
    return [
        {"state": state, "count": count, "xact_age_ms_max": oldest_ms[state]}
        for state, count in counts.items()
    ]


def _names(row: Row) -> tuple[str, str, str]:
    return (str(row["role"]), str(row["application"]), str(row["address"]))
