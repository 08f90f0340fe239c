"""Counters of a server, read every so often while its load is watched.

Their increase is summed from reading to reading, so that a reset, an eviction or the end
of the server costs the time since the last reading and no more.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pgdyno.capture._accesses import Accesses
from pgdyno.capture._course import Read
from pgdyno.capture._queries import rows_of
from pgdyno.capture._sampling import SHARE_MAX, Samples
from pgdyno.capture._skew import Updates, exponent_of, next_xid
from pgdyno.clone.capture_file import Table
from pgdyno.conduct import stop_signals
from pgdyno.errors import Interrupted
from pgdyno.probe.statements import (
    Counts,
    Rise,
    StatementSource,
    busiest,
    counted_since,
    evictions,
    read_counts,
    read_texts,
    risen,
)
from pgdyno.server.extensions import STATEMENTS

if TYPE_CHECKING:
    import psycopg

    from pgdyno.json_types import Row

STATEMENTS_MAX = 2000
"""Statements that are captured, those that take the most time."""
EVERY_S = 10.0


class _Counters(Struct, frozen=True):
    """Counters at a moment."""

    counts: Counts
    counted_since: str
    evicted: int
    transactions: float
    since: str
    updates: dict[int, Updates]


class Readings:
    """Increases of counters."""

    def __init__(
        self, connection: psycopg.Connection[Any], source: StatementSource, tables: list[int]
    ) -> None:
        """Take the first reading. ``tables`` are ids. Raises StatementsUnavailable and
        psycopg.Error."""
        self._connection, self._source, self._tables = connection, source, tables
        self._first_xid = next_xid(connection)
        self.server = self._look()
        self.last_at: str = self.server["now"]
        """Time of the last reading as the server's log has it."""
        self.seconds = 0.0
        self.rises: dict[str, Rise] = {}
        self.texts: dict[str, str] = {}
        self.transactions = 0.0
        self.reads: list[Read] = []
        self.updates: dict[int, Updates] = {}
        """By the ids of tables."""
        self.gaps: list[str] = []
        with connection.transaction():  # It counts as one.
            self._last = self._counters()
            self.accesses = Accesses(connection, source.schema, tables)
        self._began_s = time.monotonic()
        self._next_s = self._began_s + EVERY_S

    def watch(self, samples: Samples, seconds: float) -> Interrupted | None:
        """Take samples and readings for so long; return why it was stopped. Raises psycopg.Error
        for a server that ends before the second reading."""
        import psycopg

        try:
            with stop_signals():
                samples.watch(seconds, self._read_if_due)
                self._read()
        except psycopg.OperationalError as problem:
            if not self.rises:
                raise
            self._tell_end(seconds, f"then {str(problem).splitlines()[0]}")
        except Interrupted as stopped:
            try:
                self._read()
            except psycopg.Error:  # It was stopped within a query.
                if not self.rises:
                    raise stopped from None
            self._tell_end(seconds, "then it was interrupted")
            return stopped
        return None

    @property
    def ended(self) -> bool:
        """True if the server does not answer any more."""
        return bool(self._connection.closed)

    def _tell_end(self, seconds: float, why: str) -> None:
        self.gaps.append(f"the load was watched for {self.seconds:.1f} of {seconds:g} s, {why}")

    def _read_if_due(self) -> None:
        if time.monotonic() >= self._next_s:
            self._read()

    def exponents(self, tables: Sequence[Table]) -> dict[int, float | None]:
        """Return the exponents of the updates of the tables, by their ids."""
        return {
            number: exponent_of(self._connection, table, self.updates[number], self._first_xid)
            for number, table in zip(self._tables, tables, strict=True)
            if number in self.updates
        }

    def _read(self) -> None:
        began_s = time.monotonic()
        with self._connection.transaction():
            self._add(began_s)
        ended_s = time.monotonic()
        self._next_s = ended_s + max(EVERY_S, (ended_s - began_s) / SHARE_MAX)

    def _add(self, began_s: float) -> None:
        before, now = self._last, self._counters()
        self.accesses.read()
        self.seconds = began_s - self._began_s
        for key, rise in risen(before.counts, now.counts).items():
            earlier = self.rises.get(key, {})
            self.rises[key] = {
                name: None if value is None else value + (earlier.get(name) or 0)
                for name, value in rise.items()
            }
        transactions = max(0.0, now.transactions - before.transactions - 1)
        self.transactions += transactions
        last_s = self.reads[-1].ended_s if self.reads else self._began_s
        self.reads.append(Read(last_s, began_s, transactions))
        for table, rows in now.updates.items():
            old, last = self.updates.get(table, Updates()), before.updates.get(table, rows)
            self.updates[table] = old.and_since(last, rows)
        self._tell_lost(before, now)
        self._last = now
        new = [each for each in busiest(self.rises)[:STATEMENTS_MAX] if each not in self.texts]
        self.texts |= read_texts(self._connection, self._source, new)
        self.last_at = self._look()["now"]

    def _tell_lost(self, before: _Counters, now: _Counters) -> None:
        """Add the losses of counters to the gaps."""
        lost = {
            f"{STATEMENTS} evicted statements meanwhile, which are missing: pg_stat_statements.max"
            " is too small for them": now.evicted > before.evicted,
            f"{STATEMENTS} was reset meanwhile: up to {EVERY_S:.0f} s of the statements are"
            " missing": now.counted_since != before.counted_since,
            f"the database's statistics were reset meanwhile: up to {EVERY_S:.0f} s of its"
            " transactions are missing": now.since != before.since,
        }
        self.gaps += [each for each, is_lost in lost.items() if is_lost and each not in self.gaps]

    def _counters(self) -> _Counters:
        connection = self._connection
        (totals,) = rows_of(connection, "totals")
        updates = rows_of(connection, "updates", {"tables": self._tables})
        return _Counters(
            read_counts(connection, self._source),
            counted_since(connection, self._source),
            evictions(connection, self._source),
            float(totals["transactions"]),
            totals["since"],
            {int(row.pop("id")): Updates(**row) for row in updates},
        )

    def _look(self) -> Row:
        (row,) = rows_of(self._connection, "source")
        return row
