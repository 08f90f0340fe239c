"""Checkpoint, vacuum and flush at the end of each slice, so that it pays for its own work; and
buffers filled before it.

A slice that is shorter than the cycle of what it changes would otherwise count the gain and leave
the cost to the next slice: dirty buffers and WAL since the last checkpoint's redo record, WAL that
is not flushed yet, dead rows that no vacuum has removed. Both sides of a trial settle the same
debts within the time of the slice, so that each slice pays for its own.

After a restart, a load that reads at random takes long to fill shared_buffers: 8 clients took 20 s
for 60 MB in reads of 3.6 ms, while slices last some seconds. pg_prewarm reads the tables and
indexes, but only if they fit: otherwise the load decides what stays in memory, and is soon as warm
as it will be. The extension is created in a transaction that is rolled back, so that nothing is
left in the database.

Each is an event of the kind ``own``: an intervention of pgdyno, which no finding may be about.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from msgspec import Struct
from psycopg.rows import dict_row

from pgdyno.record import Recorder
from pgdyno.record.own import OWN
from pgdyno.server.extensions import extension_in, within
from pgdyno.spec.debt import Debt

_PREWARM = "pg_prewarm"
PREWARM_SECONDS_MAX = 5.0
"""Beyond it, a trial would spend more time on restarts than on slices."""
_REFUSED = (
    psycopg.errors.QueryCanceled,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedFile,
)
_SQL = Path(__file__).with_name("sql")


class _Settlement(Struct, frozen=True):
    """The way to measure a debt and to settle it."""

    label: str
    unit: str
    owed: Callable[[psycopg.Connection], int | None]
    """Returns the amount; None if the role may not read it."""
    settle: bytes


def settle(debt: Debt, connection: psycopg.Connection, recorder: Recorder) -> None:
    """Do the work of ``debt`` now, and record its amount and its time as an event."""
    settlement = _SETTLEMENTS[debt]
    owed = settlement.owed(connection)
    began_ns = time.monotonic_ns()
    connection.execute(settlement.settle)
    took_ms = (time.monotonic_ns() - began_ns) / 1e6
    detail = {"debt": debt, "amount": owed, "unit": settlement.unit, "ms": round(took_ms, 3)}
    recorder.add_event(OWN, settlement.label, detail, ns=began_ns, duration_ms=took_ms)


def _sql(name: str) -> bytes:
    return _SQL.joinpath(f"{name}.sql").read_bytes()


def _row(connection: psycopg.Connection, name: str) -> tuple[Any, ...] | None:
    """Return the only row of a query; None if the role may not execute it."""
    try:
        return connection.execute(_sql(name)).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return None


def _first(connection: psycopg.Connection, name: str) -> int | None:
    row = _row(connection, name)
    return None if row is None else int(row[0])


def _unflushed(connection: psycopg.Connection) -> int | None:
    row = _row(connection, "wal_written")
    return None if row is None else max(0, int(row[0]) - int(row[1]))


_SETTLEMENTS: dict[Debt, _Settlement] = {
    "WAL flush": _Settlement(
        "WAL flush by pgdyno", "bytes of WAL not flushed", _unflushed, _sql("flush_wal")
    ),
    "vacuum": _Settlement(
        "vacuum by pgdyno",
        "dead rows",
        lambda connection: _first(connection, "dead_rows"),
        b"vacuum",
    ),
    "checkpoint": _Settlement(
        "checkpoint by pgdyno",
        "bytes of WAL since the last checkpoint",
        lambda connection: _first(connection, "wal_since_redo"),
        b"checkpoint",
    ),
}


def prewarm(connection: psycopg.Connection, recorder: Recorder) -> bool:
    """Read the data into shared_buffers if they fit; return False if that takes too long."""
    row = connection.execute(_sql("unread_bytes")).fetchone()
    data_bytes, buffers_bytes, is_installed = row or (0, 0, False)
    if not is_installed or not 0 < data_bytes <= buffers_bytes:
        return True
    began_ns = time.monotonic_ns()
    pages = _read_all(connection)
    took_ms = (time.monotonic_ns() - began_ns) / 1e6
    detail = {"bytes": data_bytes, "pages": pages, "ms": round(took_ms, 3)}
    label = "data read into shared_buffers by pgdyno"
    recorder.add_event(OWN, label, detail, ns=began_ns, duration_ms=took_ms)
    return pages is not None


def _read_all(connection: psycopg.Connection) -> int | None:
    """Return the pages read; None if that took too long, the role may not, or a file is missing."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(f"set local statement_timeout = {PREWARM_SECONDS_MAX * 1000:.0f}")
            connection.execute(f"create extension if not exists {_PREWARM} schema public".encode())
            extension = extension_in(connection.cursor(row_factory=dict_row), _PREWARM)
            assert extension is not None
            query = within(extension.schema, _sql("prewarm").decode())
            row = connection.execute(query.encode(), {}).fetchone()
            return 0 if row is None else int(row[0])
    except _REFUSED:
        return None
