"""WAL that a transaction writes, without the images of whole pages.

The first change of a page after a checkpoint writes the whole page (full_page_writes), and a
restart begins with a checkpoint. So the WAL of a transaction in a short slice depends on how many
came before it: a server that does more of them writes less for each. Without images it is nearly
the same each time, and shows what the versions themselves write. It is counted under a load
of its own, while full_page_writes is off.
"""

from __future__ import annotations

import psycopg
from msgspec.structs import replace

from pgdyno.conduct import Session
from pgdyno.facts.slices import Facts
from pgdyno.record import SliceKind
from pgdyno.spec import Change
from pgdyno.versions._vacuum import wal_position

SECONDS = 2.5
_SETTLE_SECONDS = 1.5
_OFF = {"full_page_writes": "off"}


def wal_per_transaction(facts: Facts) -> float | None:
    """Return the bytes of WAL per transaction, by the position in the WAL, which is exact: backends
    report their own counts about once a second. None if it was not recorded."""
    written = facts.run.delta("metric_wal", "insert_lsn_bytes", facts.slice_ids)
    return written and written / (facts.throughput_tps * facts.seconds)


def wal_without_images(session: Session, change: Change) -> float | None:
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
    written, done = wal_position(conn), session.reader().ledger().done
    session.start_load()
    session.wait_connected()
    session.slice(seconds, kind=SliceKind.WAL)
    session.interrupt_load()
    written, done = wal_position(conn) - written, session.reader().ledger().done - done
    return written / done if written and done else None
