"""WAL that a version writes: of a vacuum, and of a transaction without the images of whole pages.

A vacuum is that of the same table, with the same rows deleted, by each version. Its WAL is the same
each time; the time is that of one vacuum.

The first change of a page after a checkpoint writes the whole page (full_page_writes), and a
restart begins with a checkpoint. So the WAL of a transaction in a short slice depends on how many
came before it: a server that does more of them writes less for each. Without images it is nearly
the same each time, and shows what the versions themselves write. It is counted under a load
of its own, while full_page_writes is off.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import psycopg
from msgspec import Struct
from msgspec.structs import replace

from pgdyno.conduct import Session
from pgdyno.facts.slices import Facts
from pgdyno.record import SliceKind
from pgdyno.record.events import OWN
from pgdyno.server.sql_files import query
from pgdyno.spec import Change

ROWS = 600_000
"""Of the table that is vacuumed."""
SECONDS = 2.5
_SETTLE_SECONDS = 1.5
_OFF = {"full_page_writes": "off"}
_POSITION = "select pg_current_wal_insert_lsn() - '0/0'"
Sides = tuple[Change, Change]


class Vacuumed(Struct, frozen=True):
    """Cost of a vacuum."""

    wal_bytes: int
    ms: float


def _vacuum_work(session: Session, change: Change) -> Vacuumed:
    """Vacuum the table on the server of ``change``; no load runs."""
    session.prepare(change)
    script = query("compare", "vacuum_table").decode() % {"rows": ROWS}
    with session.connect() as conn:
        for statement in script.strip().split(";\n"):
            conn.execute(statement.encode())
        before = _wal_position(conn)
        began_ns = time.monotonic_ns()
        conn.execute("vacuum public.pgdyno_vacuum")
        ms = (time.monotonic_ns() - began_ns) / 1e6
        wal_bytes = _wal_position(conn) - before
        conn.execute("drop table public.pgdyno_vacuum")
    detail = {"rows": ROWS, "wal_bytes": wal_bytes, "change": change.to_json()}
    session.recorder.add_event(
        OWN, "vacuum of a table made for it", detail, ns=began_ns, duration_ms=ms
    )
    return Vacuumed(wal_bytes, round(ms, 3))


def _wal_position(conn: psycopg.Connection) -> int:
    """Return the position in the WAL, in bytes."""
    row = conn.execute(_POSITION).fetchone()
    assert row is not None
    return int(row[0])


def wal_per_transaction(facts: Facts) -> float | None:
    """Return the bytes of WAL per transaction, by the position in the WAL, which is exact: backends
    report their own counts about once a second. None if it was not recorded."""
    written = facts.run.delta("metric_wal", "insert_lsn_bytes", facts.slice_ids)
    return written and written / (facts.throughput_tps * facts.seconds)


def _wal_without_images(session: Session, change: Change) -> float | None:
    """Return the bytes of WAL per transaction on the server of ``change``, under load and with
    full_page_writes off; None if nothing was done or written.

    They are those of the whole load, from its start to its end, so that no edge of a slice, at
    which counts are read one after the other, makes a difference.
    """
    session.prepare(change)
    with session.connect() as conn:
        session.prepare(replace(change, settings=_OFF))
        # The first updates of rows find full pages, and later ones what a vacuum has made free.
        _count(session, conn, _SETTLE_SECONDS)
        found = _count(session, conn, SECONDS)
    session.prepare(change)
    return found


def _count(session: Session, conn: psycopg.Connection, seconds: float) -> float | None:
    # With data checksums, the first reader of a row that was not vacuumed writes an image, too.
    conn.execute("vacuum")
    written, done = _wal_position(conn), session.reader().ledger().done
    session.start_load()
    session.wait_connected()
    session.slice(seconds, kind=SliceKind.WAL)
    session.interrupt_load()
    written, done = _wal_position(conn) - written, session.reader().ledger().done - done
    return written / done if written and done else None


class Written(Struct, frozen=True):
    """WAL that a server writes, counted once before the pairs, while all tables are as loaded."""

    vacuumed: Vacuumed
    wal_without_images: float | None
    """Bytes per transaction."""


def all_written(session: Session, trials: Sequence[Sides]) -> Sequence[Sequence[Written]]:
    """Return the WAL that each side of each trial writes. The first server runs at the end."""
    session.watcher.phase("counting the WAL of a vacuum and of transactions")
    found = [
        [Written(_vacuum_work(session, side), _wal_without_images(session, side)) for side in sides]
        for sides in trials
    ]
    session.prepare(Change())
    return found
