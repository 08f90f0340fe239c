"""What a reload would change that is not ours: edits of the files that nobody has loaded yet.

Each reload puts in force all that the files hold. A user who has edited postgresql.conf, or has
written something by ALTER SYSTEM, and waits with the reload, is not to have it done by pgdyno.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from pgdyno.errors import PgdynoError, SetupError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.queries import query
from pgdyno.server.settings._undo import MARK
from pgdyno.server.settings.setting_values import Setting, same_value

_UNDER_WAY_S = 1.0
_POLL_S = 0.1
Ask = Callable[..., list[Any]]
"""Executes a statement, with parameters if it has any; the rows of its answer."""


def require_loaded(conninfo: ConnInfo, ours: Collection[str] = ()) -> bool:
    """Raise SetupError when a reload would change anything besides ``ours``, or would not load the
    files.

    False when the role may not look.
    """
    deadline = time.monotonic() + _UNDER_WAY_S
    while True:
        try:
            return _look(conninfo, ours)
        except SetupError as problem:
            # A reload that was asked for a moment ago may still be under way.
            if problem.code != "settings-not-loaded" or time.monotonic() > deadline:
                raise
        time.sleep(_POLL_S)


def _look(conninfo: ConnInfo, ours: Collection[str]) -> bool:
    import psycopg

    with connect(conninfo) as conn:

        def ask(statement: bytes, params: dict[str, Any] | None = None) -> list[Any]:
            return conn.execute(statement, params).fetchall()

        try:
            return _require_loaded(ask, ours)
        except psycopg.errors.QueryCanceled:
            # A time limit that is too short to look at it: it is lifted, and seen no more.
            conn.execute("set statement_timeout = 0")
            return _require_loaded(ask, ours)


def _require_loaded(ask: Ask, ours: Collection[str]) -> bool:
    if not ask(query("may_read_files"))[0][0]:
        return False
    _refuse_errors(ask)
    if names := unloaded(ask, ours):
        raise _not_loaded(names)
    return True


def unloaded(ask: Ask, ours: Collection[str] = ()) -> list[str]:
    """Settings, other than ``ours``, that a reload would change; ``ask`` may read the files."""
    import psycopg

    found = [row[0] for row in ask(query("file_differs")) if _differs(ask, row)]
    with suppress(psycopg.errors.InsufficientPrivilege):  # Some only superusers may see.
        found += [row[0] for row in ask(query("file_placeholders"))]
    left_out = {MARK, *(name.lower() for name in ours)}
    return [name for name in found if name.lower() not in left_out]


def _differs(ask: Ask, row: tuple[Any, ...]) -> bool:
    """True if the file's value is another one, and not only written in other words."""
    import psycopg

    setting, filed = Setting.from_row(row[:-1]), str(row[-1])
    if setting.vartype != "string":
        try:
            return not same_value(setting, filed)
        except PgdynoError:
            return True
    try:
        asked = b"select set_config(%(name)s, %(value)s, true)"
        (shown,) = ask(asked, {"name": setting.name, "value": filed})[0]
    except psycopg.Error:
        # No session may set it: log_timezone is one that knows a value in other letters.
        return setting.value.casefold() != filed.casefold()
    return bool(shown != setting.value)


def _refuse_errors(ask: Ask) -> None:
    for where, error in ask(query("file_errors")):
        raise SetupError(
            f"the server would not load its configuration files: {where}: {error}",
            code="configuration-error",
            hint="correct it, then SELECT pg_reload_conf()",
        )


def _not_loaded(names: list[str]) -> SetupError:
    return SetupError(
        f"{', '.join(names)}: changed in the configuration files or by ALTER SYSTEM, but not yet"
        " loaded; a reload by pgdyno would apply that",
        code="settings-not-loaded",
        hint="load it first: SELECT pg_reload_conf(); or revert the change",
    )
