"""Replication slots on a server that pgdyno started, and the lag of their receivers."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

from pgdyno.errors import SetupError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.local.cluster import Cluster
from pgdyno.server.sql_files import query

WAIT_S_MAX = 120.0
_POLL_S = 0.02


class Lag(Struct, frozen=True):
    """The lag of a WAL receiver, as pg_stat_replication of its primary shows it."""

    state: str
    """startup, catchup, streaming or backup."""
    sync_state: str
    """async, potential, sync or quorum."""
    flush_bytes: int | None
    """WAL that the primary has written and the receiver has not flushed."""
    replay_bytes: int | None
    """WAL that the receiver has not replayed; ``None`` for pg_receivewal."""
    flush_ms: float | None
    """Recent ``flush_lag``; ``None`` while nothing is written."""
    replay_ms: float | None
    flush_lsn: str | None
    replay_lsn: str | None


def lag_of(primary: Cluster, name: str) -> Lag | None:
    """Return the lag of the receiver ``name``; ``None`` while it is not connected."""
    with connect(primary.conninfo) as conn:
        row = conn.execute(query("server", "replication_lag"), {"name": name}).fetchone()
    return None if row is None else Lag(*row)


def wait_reached(
    primary: Cluster, name: str, *, replayed: bool, failure: Callable[[], str | None]
) -> None:
    """Wait until the receiver ``name`` streams and has flushed all WAL written so far.

    With ``replayed``, also until it has replayed it. ``failure`` returns the reason if the receiver
    has failed, else ``None``. Raises SetupError when the receiver fails or does not catch up.
    """
    deadline_s = time.monotonic() + WAIT_S_MAX
    with connect(primary.conninfo) as conn:
        row = conn.execute("select pg_current_wal_flush_lsn()::text").fetchone()
        wanted = {"name": name, "replayed": replayed, "target": row[0] if row else None}
        while conn.execute(query("server", "has_reached"), wanted).fetchone() != (True,):
            reason = failure()
            if reason is None and time.monotonic() > deadline_s:
                reason = f"it is still behind after {WAIT_S_MAX:.0f} s"
            if reason is not None:
                raise SetupError(f"{name} does not keep up: {reason}", code="standby-behind")
            time.sleep(_POLL_S)


def make_slot(primary: Cluster, name: str) -> None:
    """Create a physical slot that reserves WAL immediately, unless it exists."""
    with connect(primary.conninfo) as conn:
        conn.execute(query("server", "make_slot"), {"name": name})


def drop_slot(primary: Cluster, name: str) -> None:
    """Drop the slot and end its user; do nothing if the primary accepts no connections."""
    import psycopg

    if not primary.running:
        return
    try:
        conn = connect(primary.conninfo)
    except SetupError:
        return  # It is in recovery, perhaps forever, because its disk is lost.
    deadline_s = time.monotonic() + WAIT_S_MAX
    with conn:
        while time.monotonic() < deadline_s:
            try:
                if conn.execute(query("server", "drop_slot"), {"name": name}).fetchone() is None:
                    return
            except psycopg.errors.ObjectInUse:
                pass
            time.sleep(_POLL_S)
    raise SetupError(f"the replication slot {name} cannot be dropped", code="slot-in-use")
