"""Tables and indexes read into shared_buffers after a restart, by pg_prewarm.

A load that reads at random takes long to fill them: 8 clients took 20 s for 60 MB in reads of 3.6
ms, while slices last some seconds. Such slices would compare cold buffers. This is only for data
that fit: otherwise the load decides what stays in memory, and is soon as warm as it will be. The
extension is created in a transaction that is rolled back, so that nothing is left in the database.
"""

from __future__ import annotations

import time
from pathlib import Path

import psycopg

from pgdyno.record import Recorder
from pgdyno.record.own import OWN

SECONDS_MAX = 5.0
"""Beyond it, a trial would spend more time on restarts than on slices."""
_REFUSED = (
    psycopg.errors.QueryCanceled,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedFile,
)
_SQL = Path(__file__).with_name("sql")


def prewarm(connection: psycopg.Connection, recorder: Recorder) -> bool:
    """Read the data into shared_buffers if they fit; return False if that takes too long."""
    row = connection.execute(_SQL.joinpath("unread_bytes.sql").read_bytes()).fetchone()
    data_bytes, buffers_bytes, is_installed = row or (0, 0, False)
    if not is_installed or not 0 < data_bytes <= buffers_bytes:
        return True
    began_ns = time.monotonic_ns()
    pages = _read(connection)
    took_ms = (time.monotonic_ns() - began_ns) / 1e6
    detail = {"bytes": data_bytes, "pages": pages, "ms": round(took_ms, 3)}
    label = "data read into shared_buffers by pgdyno"
    recorder.add_event(OWN, label, detail, ns=began_ns, duration_ms=took_ms)
    return pages is not None


def _read(connection: psycopg.Connection) -> int | None:
    """Return the pages read; None if that took too long, the role may not, or a file is missing."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(f"set local statement_timeout = {SECONDS_MAX * 1000:.0f}")
            connection.execute("create extension if not exists pg_prewarm")
            row = connection.execute(_SQL.joinpath("prewarm.sql").read_bytes()).fetchone()
            return 0 if row is None else int(row[0])
    except _REFUSED:
        return None
