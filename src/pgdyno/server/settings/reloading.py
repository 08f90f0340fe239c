"""Reloading the configuration of a running server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.server.queries import query

if TYPE_CHECKING:
    import psycopg

_RELOAD_S_MAX = 15.0
_RELOAD_POLL_S = 0.005


def reload(conn: psycopg.Connection) -> None:
    """Make the server reload its files and wait until it has; SetupError if it does not.

    The postmaster reloads first and then signals its sessions: once this session has reloaded,
    every new connection starts with the new values.
    """
    before = _load_time(conn)
    conn.execute("select pg_reload_conf()")
    deadline = time.monotonic() + _RELOAD_S_MAX
    while time.monotonic() < deadline:
        if _load_time(conn) > before:
            return
        time.sleep(_RELOAD_POLL_S)
    raise SetupError(
        "the server did not reload its configuration",
        code="reload-failed",
        hint=_file_error(conn),
    )


def _load_time(conn: psycopg.Connection) -> float:
    row = conn.execute("select extract(epoch from pg_conf_load_time())::float8").fetchone()
    assert row is not None
    return float(row[0])


def _file_error(conn: psycopg.Connection) -> str | None:
    import psycopg

    try:
        row = conn.execute(query("file_errors")).fetchone()
    except psycopg.Error:
        return None
    return f"{row[0]}: {row[1]}" if row else None
