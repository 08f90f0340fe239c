"""Load of others on the server: databases with activity, and the probes of other pgdynos.

A server may have thousands of databases, which are read every second, so a database has rows only
from its first activity; the first two rows are its figures before and after.

Probes show after each sample, as the text of their session's last statement, how many transactions
they have made. Statistics by database count them beside those of a load. Anybody may wear the name
of such a session and show any number, so that no more are believed than probes make.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from pgdyno.json_types import Row
from pgdyno.server.sql_files import OWN

RATE_MAX = 150.0
"""Transactions per second that are believed of a session: a check looks at waits up to a hundred
times, and five times at the queues for locks, beside the samples themselves."""
SHOWN = f"select {OWN} 'pgdyno: {{}} transactions of probes'"
"""The statement that shows them; ``sql/other_probes`` looks for it."""


class ForeignLoadWatch(Struct):
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


class OtherProbes(Struct):
    """The transactions of other pgdynos' probes since they were first seen."""

    clock: Callable[[], float] = time.monotonic
    total: int = 0
    _known: dict[tuple[int, float], tuple[int, float]] = field(default_factory=dict)
    """Session, by process ID and start → the number shown last, and when it was read."""

    def add(self, rows: Sequence[Row]) -> int:
        """Return the total after another look."""
        now_s = self.clock()
        seen = {}
        for row in rows:
            session, shown = (row["pid"], row["started_unix_s"]), int(row["shown"])
            before, at_s = self._known.get(session, (shown, now_s))
            most = round(RATE_MAX * (now_s - at_s))
            self.total += min(max(0, shown - before), most)
            seen[session] = (shown, now_s)
        self._known = seen
        return self.total
