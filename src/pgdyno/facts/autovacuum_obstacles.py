"""Sessions that keep autovacuum from a table: they hold a lock that excludes its own, or want one.

Autovacuum takes ShareUpdateExclusiveLock, and leaves a table out, until it comes again, where it
does not get that at once. While it works, whoever waits for a lock that it excludes has it
cancelled after deadlock_timeout ("canceling autovacuum task" in the server's log), unless it is to
prevent wraparound. Source: vacuum_open_relation in vacuum.c, DeadLockCheck and ProcSleep in
deadlock.c and proc.c, versions 14 to 19.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from pgdyno.facts.autovacuum import WORKER, Autovacuum, Upkeep
from pgdyno.facts.slices import Facts
from pgdyno.json_types import Row

HELD_SHARE = 0.5
"""Part of the samples of the time for which a table is overdue, in which others have it locked,
from which on autovacuum that never began is kept out by them. At random moments it would else have
got the lock in one of ``NAPTIMES`` attempts."""
STILL_RUNS_MS = 2500.0
"""A vacuum that was seen so short a time before the last sample is taken to go on."""


class Obstacle(Struct, frozen=True):
    """A table that is overdue, and the sessions that keep autovacuum from it."""

    table: Upkeep
    held_share: float
    """Part of the samples in which others had it locked against autovacuum."""
    attempts: int
    """Autovacuums of it that were seen at work."""
    cancelled: int
    """Of these, ended without having been counted."""
    waited_for: int
    """Sessions seen waiting for one of these, over all looks."""
    mode: str
    """The lock, held or wanted, that was in the way most often."""
    statement: str | None
    """Of the session that held or wanted it; None if it was not visible."""

    @property
    def relation(self) -> str:
        """Its name."""
        return self.table.relation

    @property
    def never_began(self) -> bool:
        """True if autovacuum was not seen on the table at all."""
        return self.attempts == 0


def obstacles(s: Facts) -> list[Obstacle]:
    """Return the tables that autovacuum is kept from, that which is due for the longest time first.

    Raises Skip if what autovacuum compares with its thresholds was not recorded.
    """
    found = []
    for table in Autovacuum(s).overdue:
        if table.enabled and not table.vacuums:
            each = _obstacle(s, table)
            if each is not None:
                found.append(each)
    return found


def _obstacle(s: Facts, table: Upkeep) -> Obstacle | None:
    attempts, cancelled = _attempts(s, table.relation)
    wanted = _wanted_of_workers(s, table.relation)
    held, held_share = _held_by_others(s, table)
    keeps_out = attempts == 0 and held_share >= HELD_SHARE
    if not keeps_out and not (cancelled and wanted):
        return None
    ((mode, statement), _) = (held if keeps_out else wanted).most_common(1)[0]
    return Obstacle(
        table, held_share, attempts, cancelled, wanted.total(), mode=mode, statement=statement
    )


def _attempts(s: Facts, relation: str) -> tuple[int, int]:
    """Return the autovacuums of a table that were seen, none of which was counted, and those of
    them that ended."""
    rows = _of_table(s, "metric_vacuum", relation)
    last = {row["pid"]: row["at_ms"] for row in rows if row["automatic"]}
    if not last:
        return 0, 0
    end_ms = max(
        (each.at_ms + each.duration_ms for each in s.run.intervals(s.slice_ids)), default=0
    )
    ended = sum(at_ms < end_ms - STILL_RUNS_MS for at_ms in last.values())
    return len(last), ended


def _wanted_of_workers(s: Facts, relation: str) -> Counter[tuple[str, str | None]]:
    """Return mode and statement of those first in line behind a worker on this table."""
    wanted: Counter[tuple[str, str | None]] = Counter()
    for queue in s.lock_queues:
        if queue.blocker_type == WORKER and queue.relation == relation:
            first = queue.links[0].statement if queue.links else queue.waiting_statement
            wanted[queue.mode, first] += queue.waiting
    return wanted


def _held_by_others(s: Facts, table: Upkeep) -> tuple[Counter[tuple[str, str | None]], float]:
    """Return mode and statement of the sessions that had a table locked against autovacuum while
    it was overdue, and the part of the samples in which one had."""
    sampled = _of_table(s, "metric_table", table.relation)
    since_ms = sampled[-1]["at_ms"] - 1000 * table.overdue_s
    times = {row["at_ms"] for row in sampled if row["at_ms"] >= since_ms}
    rows = [
        row
        for row in _of_table(s, "metric_table_lock", table.relation)
        if row["backend_type"] != WORKER and row["at_ms"] in times
    ]
    texts = s.run.statement_texts({row["statement_id"] for row in rows if row["statement_id"]})
    held: Counter[tuple[str, str | None]] = Counter()
    for row in rows:
        held[row["mode"], _text(row, texts)] += int(row["holders"])
    return held, len({row["at_ms"] for row in rows}) / len(times) if times else 0.0


def _of_table(s: Facts, samples: str, relation: str) -> list[Row]:
    """Return the samples of a table, whose name is compared as it is read: escaped."""
    return [row for row in s.run.samples(samples, s.slice_ids) if row["relation"] == relation]


def _text(row: Row, texts: dict[int, str]) -> str | None:
    return texts.get(int(row["statement_id"])) if row["statement_id"] else None
