"""Reloading the configuration of a running server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.server.versioned_sql import query

if TYPE_CHECKING:
    import psycopg

_RELOAD_S_MAX = 15.0
_RELOAD_POLL_S = 0.005
_PARSE_CHECK_S = 1.0
"""The time after which a reload has failed if the files cannot be parsed."""


def reload(conn: psycopg.Connection) -> None:
    """Make the server reload its files and wait until it has; SetupError if it does not.

    The postmaster reloads first and then signals its sessions: once this session has reloaded,
    every new connection starts with the new values.
    """
    before = _load_time(conn)
    conn.execute("select pg_reload_conf()")
    begin = time.monotonic()
    check = begin + _PARSE_CHECK_S
    while time.monotonic() < begin + _RELOAD_S_MAX:
        if _load_time(conn) > before:
            return
        if time.monotonic() > check:
            check += _PARSE_CHECK_S
            is_parse_error, error = _file_error(conn)
            if is_parse_error and not _load_time(conn) > before:
                raise configuration_error(error)
            # They may have been corrected after the server had read them.
            conn.execute("select pg_reload_conf()")
        time.sleep(_RELOAD_POLL_S)
    raise SetupError(
        "the server did not reload its configuration",
        code="reload-failed",
        hint=_file_error(conn)[1] or None,
    )


def configuration_error(error: str) -> SetupError:
    """Return the error for files that the server cannot load; ``error`` names file and line."""
    return SetupError(
        f"the server cannot load its configuration files: {error}",
        code="configuration-error",
        hint="correct it, then SELECT pg_reload_conf()",
    )


def _load_time(conn: psycopg.Connection) -> float:
    row = conn.execute("select extract(epoch from pg_conf_load_time())::float8").fetchone()
    assert row is not None
    return float(row[0])


def _file_error(conn: psycopg.Connection) -> tuple[bool, str]:
    """Return an error in the files, and True if they cannot be parsed; "" if none is visible."""
    import psycopg

    try:
        row = conn.execute(query("file_errors")).fetchone()
    except psycopg.Error:
        return False, ""
    return (row[0], row[1]) if row else (False, "")
