"""Rolls old rows up, so that a run of days stays a file of megabytes.

Rows older than a tier's age are merged into that tier's buckets, never across a slice's edge. What
counts per interval is summed, its histograms merged; of cumulative counters and gauges the last
sample of a bucket is kept, and the first of a slice, from which differences are taken.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pgdyno.record import fileformat


class Tier(NamedTuple):
    """Rows older than ``age_ms`` are merged into buckets of ``bucket_ms``."""

    age_ms: int
    bucket_ms: int


MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

TIERS = (Tier(HOUR_MS, 10_000), Tier(24 * HOUR_MS, 60_000))
"""For tables with one row, or a few, per second."""

WIDE_TIERS = (Tier(HOUR_MS, 30_000), Tier(6 * HOUR_MS, 60_000), Tier(24 * HOUR_MS, 300_000))
"""For tables with many rows per second (one per statement, relation, I/O context, wait event)."""

WIDE = ("statement_interval", "wait_sample", "metric_io", "metric_table")
STEP_MS = 10 * MINUTE_MS
"""How much is rolled up at a time; a multiple of every bucket."""


@dataclass(frozen=True)
class Merge:
    """How rows of one table that agree in ``keys`` become one; other columns keep the last."""

    keys: tuple[str, ...]
    sums: tuple[str, ...]
    maxima: tuple[str, ...] = ()
    histograms: tuple[str, ...] = ()


MERGES = {
    "interval": Merge(
        keys=("client_group", "script"),
        sums=(
            *("duration_ms", "intended", "sent", "done", "failed", "skipped", "cancelled"),
            *("retried", "expected_errors", "connects", "reconnects"),
        ),
        histograms=("response_hist", "wait_hist", "pool_wait_hist", "service_hist"),
    ),
    "statement_interval": Merge(
        keys=("client_group", "script", "position", "statement"),
        sums=("duration_ms", "done", "failed"),
        histograms=("service_hist",),
    ),
    "metric_generator": Merge(
        keys=("thread",),
        sums=("duration_ms", "cpu_user_us", "cpu_system_us", "run_queue_delay_us"),
        maxima=("loop_stall_us_max",),
        histograms=("send_late_hist",),
    ),
    "error": Merge(
        keys=("client_group", "script", "statement", "sqlstate", "expected", "retried"),
        sums=("count",),
    ),
}


class RollUp:
    """Remembers how far each table is rolled up, and catches up a bounded step at a time."""

    def __init__(self) -> None:
        self._done_ms: dict[tuple[str, Tier], int] = {}

    def catch_up(self, db: sqlite3.Connection, now_ms: int) -> None:
        """Rolls up at most one step of one table, so that a writer never waits for long."""
        for table in tables():
            for tier in tiers(table):
                since = self._done_ms.get((table, tier), 0)
                if since + STEP_MS <= now_ms - tier.age_ms:
                    roll_up(db, table, since, since + STEP_MS, tier.bucket_ms)
                    self._done_ms[table, tier] = since + STEP_MS
                    return


def tables() -> list[str]:
    """The tables that are rolled up: all that grow with time, except events."""
    return [name for name in fileformat.columns() if name in MERGES or _is_sampled(name)]


def tiers(table: str) -> Sequence[Tier]:
    """The tiers of ``table``, youngest first."""
    return WIDE_TIERS if table in WIDE else TIERS


def roll_up(
    db: sqlite3.Connection, table: str, since_ms: int, until_ms: int, bucket_ms: int
) -> None:
    """Merges the rows of ``table`` with since_ms ≤ at_ms < until_ms into buckets.

    Both ends are multiples of ``bucket_ms``. Doing it twice changes nothing more. ``db`` must be
    in autocommit mode with no transaction open; one is made and committed.
    """
    db.execute("begin")
    try:
        if table == "wait_sample":
            _sum_waits(db, since_ms, until_ms, bucket_ms)
        elif table in MERGES:
            _merge(db, table, since_ms, until_ms, bucket_ms)
        else:
            _thin(db, table, since_ms, until_ms, bucket_ms)
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise


def _is_sampled(table: str) -> bool:
    return table == "wait_sample" or table.startswith("metric_")


def _thin(db: sqlite3.Connection, table: str, since: int, until: int, bucket: int) -> None:
    """Keeps the last row of each bucket, slice and key, and the first of each slice and key."""
    keys = ", ".join(("slice_id", *fileformat.KEY_COLUMNS.get(table, ())))
    db.execute(
        f"""
        delete from {table} where rowid in (
            select rowid from (
                select rowid,
                    row_number() over (
                        partition by at_ms / :bucket, {keys} order by at_ms desc, rowid desc
                    ) as from_last,
                    row_number() over (partition by {keys} order by at_ms, rowid) as from_first,
                    slice_id
                from {table} where at_ms >= :since and at_ms < :until
            ) as r
            where from_last > 1 and not (
                from_first = 1
                and :since <= (select started_ms from slice where slice.id = r.slice_id)
            )
        )
        """,
        {"bucket": bucket, "since": since, "until": until},
    )


def _sum_waits(db: sqlite3.Connection, since: int, until: int, bucket: int) -> None:
    """Sums counts per key, and ticks over the samplings of the whole bucket."""
    names = "backend_type, state, wait_event_type, wait_event, statement_id"
    window = {"bucket": bucket, "since": since, "until": until}
    rows = db.execute(
        f"""
        with seen as (select * from wait_sample where at_ms >= :since and at_ms < :until),
        span as (
            select at_ms / :bucket as bucket, slice_id, max(at_ms) as at_ms, sum(ticks) as ticks
            from (select at_ms, slice_id, max(ticks) as ticks from seen group by at_ms, slice_id)
            group by at_ms / :bucket, slice_id
        )
        select span.at_ms, seen.slice_id, span.ticks, {names}, sum(count)
        from seen
        join span on span.bucket = seen.at_ms / :bucket and span.slice_id is seen.slice_id
        group by span.at_ms, seen.slice_id, {names}
        order by span.at_ms
        """,
        window,
    ).fetchall()
    db.execute("delete from wait_sample where at_ms >= :since and at_ms < :until", window)
    db.executemany(f"insert into wait_sample values ({', '.join('?' * 9)})", rows)


def _merge(db: sqlite3.Connection, table: str, since: int, until: int, bucket: int) -> None:
    """Replaces the window's rows by one per bucket, slice and key."""
    columns = list(fileformat.columns()[table])
    merge = MERGES[table]
    window = "where at_ms >= ? and at_ms < ?"
    cursor = db.execute(
        f"select {', '.join(columns)} from {table} {window} order by at_ms, rowid", (since, until)
    )
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    began_ms: dict[tuple[Any, ...], int] = {}
    for values in cursor:
        row = dict(zip(columns, values, strict=True))
        span = (row["at_ms"] // bucket, row["slice_id"])
        began_ms.setdefault(span, row["at_ms"])
        alike.setdefault((span, *(row[name] for name in merge.keys)), []).append(row)
    merged = [_merged(merge, rows) | {"at_ms": began_ms[key[0]]} for key, rows in alike.items()]
    db.execute(f"delete from {table} {window}", (since, until))
    db.executemany(
        f"insert into {table} values ({', '.join('?' * len(columns))})",
        [[row[name] for name in columns] for row in merged],
    )


def _merged(merge: Merge, rows: list[dict[str, Any]]) -> dict[str, Any]:
    last = dict(rows[-1])
    if len(rows) > 1:
        for name in merge.sums:
            last[name] = sum(row[name] for row in rows)
        for name in merge.maxima:
            last[name] = max(row[name] for row in rows)
        for name in merge.histograms:
            last[name] = _merged_histogram([row[name] for row in rows])
    return last


def _merged_histogram(encoded: Sequence[bytes]) -> bytes:
    from pgdyno._engine import Histogram

    total = Histogram()
    for one in filter(None, encoded):  # an empty blob is an empty histogram
        total.add_encoded(one)
    merged: bytes = total.encode()
    return merged
