"""Roll-up of rows in a long run: a run of several days remains a file of megabytes.

All but the last minutes of a run are merged into buckets whose length depends on the duration of
the run. A chart thus has one resolution throughout, and at most some thousand points. A bucket
never extends over the edge of a slice. Counts per interval are summed and their histograms merged;
of cumulative counters and gauges the last sample of a bucket is kept, and the first of a slice,
from which differences are taken. Histograms are large and counts are small: the histograms of
several rows may be merged into the first of these rows, and the other rows then have empty blobs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from pgdyno.json_types import Row
from pgdyno.record import fileformat

"""Column → value of one row, as SQLite returns it."""
Key = tuple[Any, ...]
"""Values of the columns that rows to merge have in common."""


class RollupStage(NamedTuple):
    """Bucket length ``bucket_ms`` of a run that has lasted at least ``run_ms``."""

    run_ms: int
    bucket_ms: int


MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

FINE = (
    RollupStage(HOUR_MS, 5_000),
    RollupStage(6 * HOUR_MS, 20_000),
    RollupStage(24 * HOUR_MS, 60_000),
)
"""Stages for counts and for tables of one row per second: 720 to 5,760 points up to four days."""

COARSE = (
    RollupStage(HOUR_MS, 20_000),
    RollupStage(6 * HOUR_MS, 60_000),
    RollupStage(24 * HOUR_MS, 300_000),
)
"""Stages for histograms and for tables of many rows per second: 180 to 1,440 points up to four
days."""

FINE_TABLES = frozenset(
    {
        *(
            "interval",
            "group_interval",
            "error",
            "metric_database",
            "metric_checkpointer",
            "metric_bgwriter",
        ),
        *("metric_wal", "metric_age", "metric_lock", "metric_host", "metric_space"),
    }
)
COARSE_HISTOGRAMS = "interval"
"""The table whose histograms are merged into longer buckets than its counts."""

FRESH_MS = 10 * MINUTE_MS
"""Age below which rows are not rolled up."""


class Merge(Struct, frozen=True):
    """Rule to merge rows of a table that agree in ``keys``; other columns keep their last value."""

    keys: tuple[str, ...]
    sums: tuple[str, ...]
    maxima: tuple[str, ...] = ()
    histograms: tuple[str, ...] = ()


MERGES = {
    "interval": Merge(
        keys=("client_group", "script"),
        sums=(
            *("duration_ms", "intended", "sent", "done", "failed", "skipped", "cancelled"),
            *("retried", "expected_errors", "late"),
        ),
        histograms=(
            *("response_hist", "wait_hist", "client_lag_hist", "pool_wait_hist", "connect_hist"),
            "service_hist",
        ),
    ),
    "group_interval": Merge(
        keys=("client_group",),
        sums=("duration_ms", "connects", "reconnects", "connect_failures"),
        histograms=(
            *("tcp_hist", "tls_hist", "auth_hist", "ready_hist", "total_hist", "silence_hist"),
        ),
    ),
    "statement_interval": Merge(
        keys=("client_group", "script", "position", "statement"),
        sums=("duration_ms", "done", "failed", "untouched"),
        histograms=("service_hist",),
    ),
    "http_interval": Merge(
        keys=("client_group",),
        sums=(
            *("duration_ms", "requests", "reused", "redirected", "status_1xx", "status_2xx"),
            *("status_3xx", "status_4xx", "status_5xx", "closed_by_server", "sent_bytes"),
            "received_bytes",
        ),
    ),
    "request_interval": Merge(
        keys=("client_group", "script", "position", "statement"),
        sums=("duration_ms",),
        histograms=("first_byte_hist",),
    ),
    "metric_generator": Merge(
        keys=("thread",),
        sums=("duration_ms", "cpu_user_us", "cpu_system_us", "run_queue_delay_us", "passes"),
        maxima=("loop_stall_us_max",),
        histograms=("send_late_hist",),
    ),
    "lock_queue": Merge(
        keys=(
            *("lock_type", "mode", "relation", "blocker_state", "blocker_type", "blocker_mode"),
            *("blocker_pid", "blocker_statement_id", "link_id", "waiting_statement_id"),
            "waiting_mode",
        ),
        sums=(
            *("looks", "seen", "waiting", "first", "places", "behind_request"),
            *("blocker_transaction_ms", "blocker_state_ms"),
        ),
        maxima=("wait_ms_max", "blocker_transaction_ms_max"),
    ),
    "statement_count": Merge(
        keys=("statement_id",),
        sums=(
            *("calls", "exec_ms", "rows", "wal_bytes", "blocks_read", "temp_blocks"),
            *("duration_ms", "plan_ms", "wal_records", "wal_fpi", "wal_buffers_full"),
            *("blocks_dirtied", "blocks_written", "local_blocks_dirtied", "read_ms", "write_ms"),
            "jit_ms",
        ),
    ),
    "error": Merge(
        keys=("client_group", "script", "statement", "sqlstate", "expected", "retried"),
        sums=("count",),
    ),
}


class RollUp:
    """Progress of the roll-up of each table, which advances in steps of bounded size."""

    def __init__(self) -> None:
        self._done: dict[str, tuple[int, int]] = {}

    def catch_up(self, db: sqlite3.Connection, now_ms: int) -> bool:
        """Roll up at most one step of one table, so that no writer waits for long.

        Return False if there was nothing to do.
        """
        coarse_ms = _bucket(COARSE, now_ms)
        if not coarse_ms:
            return False
        step_ms = max(coarse_ms, MINUTE_MS)
        for table in tables():
            done_coarse_ms, done_ms = self._done.get(table, (0, 0))
            if done_coarse_ms != coarse_ms:
                done_ms = 0  # the run has reached another stage: roll it up again from the start
            if done_ms + step_ms <= now_ms - FRESH_MS:
                roll_up(db, table, done_ms, done_ms + step_ms, now_ms)
                self._done[table] = (coarse_ms, done_ms + step_ms)
                return True
        return False


def tables() -> list[str]:
    """Return the tables that are rolled up: all that grow with time, except events."""
    return [name for name in fileformat.columns() if name in MERGES or _is_sampled(name)]


def bucket(table: str, run_ms: int) -> int:
    """Return the bucket length of ``table`` in a run of ``run_ms``; 0 before the first stage."""
    return _bucket(FINE if table in FINE_TABLES else COARSE, run_ms)


def roll_up(db: sqlite3.Connection, table: str, since_ms: int, until_ms: int, run_ms: int) -> None:
    """Merge the rows of ``table`` with since_ms ≤ at_ms < until_ms, for a run of ``run_ms``.

    Both limits are multiples of the bucket length. Repeating it changes nothing. ``db`` must be in
    autocommit mode without an open transaction; one is begun and committed.
    """
    window = (since_ms, until_ms, bucket(table, run_ms))
    if not window[-1]:
        return
    db.execute("begin")
    try:
        if table == "wait_sample":
            _sum_waits(db, *window)
        elif table in MERGES:
            _merge(db, table, *window)
        else:
            _thin(db, table, *window)
        if table == COARSE_HISTOGRAMS:
            _merge_histograms(db, since_ms, until_ms, _bucket(COARSE, run_ms))
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise


def _bucket(stages: Sequence[RollupStage], run_ms: int) -> int:
    return max((stage.bucket_ms for stage in stages if stage.run_ms <= run_ms), default=0)


def _is_sampled(table: str) -> bool:
    """True for tables of samples; metric_server has a row only where the server has changed."""
    return table == "wait_sample" or (table.startswith("metric_") and table != "metric_server")


def _thin(db: sqlite3.Connection, table: str, since: int, until: int, bucket: int) -> None:
    """Keep the last row of each bucket, slice and key, and the first of each slice and key."""
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
    """Sum counts by key, and ticks over all samplings of the bucket."""
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
    """Replace the rows of a time range by one for each bucket, slice and key."""
    columns = list(fileformat.columns()[table])
    merge = MERGES[table]
    window = "where at_ms >= ? and at_ms < ?"
    cursor = db.execute(
        f"select {', '.join(columns)} from {table} {window} order by at_ms, rowid", (since, until)
    )
    same_key: dict[Key, list[Row]] = {}
    began_ms: dict[Key, int] = {}
    for values in cursor:
        row = dict(zip(columns, values, strict=True))
        span = (row["at_ms"] // bucket, row["slice_id"])
        began_ms.setdefault(span, row["at_ms"])
        same_key.setdefault((span, *(row[name] for name in merge.keys)), []).append(row)
    merged = [_merged(merge, rows) | {"at_ms": began_ms[key[0]]} for key, rows in same_key.items()]
    db.execute(f"delete from {table} {window}", (since, until))
    db.executemany(
        f"insert into {table} values ({', '.join('?' * len(columns))})",
        [[row[name] for name in columns] for row in merged],
    )


def _merge_histograms(db: sqlite3.Connection, since: int, until: int, bucket: int) -> None:
    """Merge the histograms of each bucket, slice and key into its first row."""
    merge = MERGES[COARSE_HISTOGRAMS]
    names = merge.histograms
    cursor = db.execute(
        f"select rowid, at_ms / ?, slice_id, {', '.join((*merge.keys, *names))}"
        f" from {COARSE_HISTOGRAMS} where at_ms >= ? and at_ms < ? order by at_ms, rowid",
        (bucket, since, until),
    )
    same_key: dict[Key, list[tuple[Any, ...]]] = {}
    for row in cursor:
        same_key.setdefault(row[1 : -len(names)], []).append((row[0], *row[-len(names) :]))
    sets = ", ".join(f"{name} = ?" for name in names)
    for rows in same_key.values():
        rowids, *columns = zip(*rows, strict=True)
        merged = [_merged_histogram(column) for column in columns]
        changed = [(*merged, rowids[0]), *((*(b"" for _ in names), each) for each in rowids[1:])]
        db.executemany(f"update {COARSE_HISTOGRAMS} set {sets} where rowid = ?", changed)


def _merged(merge: Merge, rows: list[Row]) -> Row:
    last = dict(rows[-1])
    if len(rows) > 1:
        for name in merge.sums:
            known = [row[name] for row in rows if row[name] is not None]
            last[name] = sum(known) if known else None
        for name in merge.maxima:
            last[name] = max(row[name] for row in rows)
        for name in merge.histograms:
            last[name] = _merged_histogram([row[name] for row in rows])
    return last


def _merged_histogram(encoded: Sequence[bytes]) -> bytes:
    from pgdyno._engine import Histogram

    filled = list(filter(None, encoded))
    if len(filled) < 2:
        return filled[0] if filled else b""
    total = Histogram()
    for blob in filled:
        total.add_encoded(blob)
    return total.encode()
