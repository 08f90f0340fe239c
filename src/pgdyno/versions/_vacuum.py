"""The work of a vacuum: the same table, with the same rows deleted, vacuumed by each version.

What counts is the WAL, which is the same each time; the time is that of one vacuum.
"""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
from msgspec import Struct

from pgdyno.conduct import Session
from pgdyno.record.own import OWN
from pgdyno.spec import Change

ROWS = 600_000
_SQL = Path(__file__).with_name("sql")
_POSITION = "select pg_current_wal_insert_lsn() - '0/0'"


class Vacuumed(Struct, frozen=True):
    """Cost of a vacuum."""

    wal_bytes: int
    ms: float


def vacuum_work(session: Session, change: Change) -> Vacuumed:
    """Vacuum the table on the server of ``change``; no load runs."""
    session.prepare(change)
    script = _SQL.joinpath("vacuum_table.sql").read_text() % {"rows": ROWS}
    with session.connect() as conn:
        for statement in script.strip().split(";\n"):
            conn.execute(statement.encode())
        before = wal_position(conn)
        began_ns = time.monotonic_ns()
        conn.execute("vacuum public.pgdyno_vacuum")
        ms = (time.monotonic_ns() - began_ns) / 1e6
        wal_bytes = wal_position(conn) - before
        conn.execute("drop table public.pgdyno_vacuum")
    detail = {"rows": ROWS, "wal_bytes": wal_bytes, "change": change.to_json()}
    session.recorder.add_event(
        OWN, "vacuum of a table made for it", detail, ns=began_ns, duration_ms=ms
    )
    return Vacuumed(wal_bytes, round(ms, 3))


def wal_position(conn: psycopg.Connection) -> int:
    """Return the position in the WAL, in bytes."""
    row = conn.execute(_POSITION).fetchone()
    assert row is not None
    return int(row[0])
