"""Reloading the configuration of a running server, unless that would apply changes by others.

A reload applies everything in the files. If a user has edited postgresql.conf, or executed ALTER
SYSTEM, and not reloaded yet, pgdyno must not do so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pgdyno.errors import PgdynoError, SetupError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.settings._undo import MARK
from pgdyno.server.settings.setting_values import Setting, same_value
from pgdyno.server.sql_files import query

if TYPE_CHECKING:
    import psycopg


_RELOAD_S_MAX = 15.0
_RELOAD_POLL_S = 0.005
_PARSE_CHECK_S = 1.0
"""The time after which a reload has failed if the files cannot be parsed."""
_PENDING_RELOAD_S = 1.0
_POLL_S = 0.1


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
        row = conn.execute(query("server", "file_errors")).fetchone()
    except psycopg.Error:
        return False, ""
    return (row[0], row[1]) if row else (False, "")


Query = Callable[..., list[Any]]
"""Executes a statement, with parameters if it has any, and returns its rows."""


def require_loaded(conninfo: ConnInfo, ours: Collection[str] = ()) -> bool:
    """Raise SetupError if a reload would fail, or change settings other than ``ours``.

    Returns False if the role may not check that.
    """
    deadline = time.monotonic() + _PENDING_RELOAD_S
    while True:
        try:
            return _check(conninfo, ours)
        except SetupError as problem:
            # A reload may be in progress.
            if problem.code != "settings-not-loaded" or time.monotonic() > deadline:
                raise
        time.sleep(_POLL_S)


def _check(conninfo: ConnInfo, ours: Collection[str]) -> bool:
    import psycopg

    with connect(conninfo) as conn:

        def rows(statement: bytes, params: Mapping[str, object] | None = None) -> list[Any]:
            return conn.execute(statement, params).fetchall()

        try:
            return _require_loaded(rows, ours)
        except psycopg.errors.QueryCanceled:
            # The time limit is too short for this query. Once lifted, its value is not visible.
            conn.execute("set statement_timeout = 0")
            return _require_loaded(rows, ours)


def _require_loaded(rows: Query, ours: Collection[str]) -> bool:
    if not rows(query("server", "may_read_files"))[0][0]:
        return False
    _refuse_errors(rows)
    if names := unloaded(rows, ours):
        raise _not_loaded(names)
    return True


def unloaded(rows: Query, ours: Collection[str] = ()) -> list[str]:
    """Return settings other than ``ours`` that a reload would change; needs rights on the files."""
    import psycopg

    found = [row[0] for row in rows(query("server", "file_differs")) if _differs(rows, row)]
    with suppress(psycopg.errors.InsufficientPrivilege):  # Some are visible only to superusers.
        found += [row[0] for row in rows(query("server", "file_placeholders"))]
    excluded = {MARK, *(name.lower() for name in ours)}
    return [name for name in found if name.lower() not in excluded]


def _differs(rows: Query, row: tuple[Any, ...]) -> bool:
    """True if the file's value is different, not only spelled differently."""
    import psycopg

    setting, filed = Setting.from_row(row[:-1]), str(row[-1])
    if setting.vartype != "string":
        try:
            return not same_value(setting, filed)
        except PgdynoError:
            return True
    try:
        statement = b"select set_config(%(name)s, %(value)s, true)"
        (shown,) = rows(statement, {"name": setting.name, "value": filed})[0]
    except psycopg.Error:
        # No session may set it. Some, such as log_timezone, ignore case.
        return setting.value.casefold() != filed.casefold()
    return bool(shown != setting.value)


def _refuse_errors(rows: Query) -> None:
    for _, error in rows(query("server", "file_errors")):
        raise configuration_error(error)


def _not_loaded(names: list[str]) -> SetupError:
    return SetupError(
        f"{', '.join(names)}: changed in the configuration files or by ALTER SYSTEM, but not yet"
        " loaded; a reload by pgdyno would apply that",
        code="settings-not-loaded",
        hint="load it first: SELECT pg_reload_conf(); or revert the change",
    )
