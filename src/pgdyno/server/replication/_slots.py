"""Replication: slots on a server of pgdyno's own, and how far those who use them have come."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pgdyno.errors import SetupError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.local.cluster import Cluster
from pgdyno.server.queries import query

WAIT_S_MAX = 120.0
_POLL_S = 0.02


@dataclass(frozen=True)
class Lag:
    """How far a receiver of WAL is behind, as its primary sees it."""

    state: str
    """startup, catchup, streaming or backup."""
    sync_state: str
    """async, potential, sync or quorum."""
    flush_bytes: int | None
    """WAL that the primary has written and the receiver has not flushed."""
    replay_bytes: int | None
    """Likewise, not replayed; ``None`` where nothing replays."""
    flush_ms: float | None
    """How long flushing took of late; ``None`` while nothing is written."""
    replay_ms: float | None
    flush_lsn: str | None
    replay_lsn: str | None


def lag_of(primary: Cluster, name: str) -> Lag | None:
    """How far the receiver ``name`` is behind; ``None`` while it is not connected."""
    with connect(primary.conninfo) as conn:
        row = conn.execute(query("replication_lag"), {"name": name}).fetchone()
    return None if row is None else Lag(*row)


def wait_reached(
    primary: Cluster, name: str, *, replayed: bool, alive: Callable[[], str | None]
) -> None:
    """Wait until the receiver ``name`` streams and has flushed all that is written by now.

    ``replayed``: and replayed it. ``alive`` returns why there is no use in waiting, or ``None``.
    Raises SetupError when the receiver ends or does not get there.
    """
    deadline_s = time.monotonic() + WAIT_S_MAX
    with connect(primary.conninfo) as conn:
        row = conn.execute("select pg_current_wal_flush_lsn()::text").fetchone()
        wanted = {"name": name, "replayed": replayed, "target": row[0] if row else None}
        while conn.execute(query("has_reached"), wanted).fetchone() != (True,):
            trouble = alive()
            if trouble is None and time.monotonic() > deadline_s:
                trouble = f"it is still behind after {WAIT_S_MAX:.0f} s"
            if trouble is not None:
                raise SetupError(f"{name} does not keep up: {trouble}", code="standby-behind")
            time.sleep(_POLL_S)


def make_slot(primary: Cluster, name: str) -> None:
    """A physical slot that keeps WAL back from now on, unless there is one of that name."""
    with connect(primary.conninfo) as conn:
        conn.execute(query("make_slot"), {"name": name})


def drop_slot(primary: Cluster, name: str) -> None:
    """Drop the slot, and end who uses it; nothing while the primary takes no connections."""
    import psycopg

    if not primary.running:
        return
    try:
        conn = connect(primary.conninfo)
    except SetupError:
        return  # It is in recovery, perhaps for ever, its disk being lost.
    deadline_s = time.monotonic() + WAIT_S_MAX
    with conn:
        while time.monotonic() < deadline_s:
            try:
                if conn.execute(query("drop_slot"), {"name": name}).fetchone() is None:
                    return
            except psycopg.errors.ObjectInUse:
                pass
            time.sleep(_POLL_S)
    raise SetupError(f"the replication slot {name} cannot be dropped", code="slot-in-use")
