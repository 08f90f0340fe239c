"""Settings that a trial can set in the load's own sessions, without changing the server.

These are settings that users or superusers may SET and that affect only the session. Settings that
other server processes use too (autovacuum, the checkpointer, WAL senders), or that are read only
when a session starts, are excluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError, UsageError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.settings._alter_system import set_session
from pgdyno.server.settings.setting_values import refuse_reserved
from pgdyno.server.sql_files import query

if TYPE_CHECKING:
    import psycopg

_USED_BY_OTHER_PROCESSES = (
    "autovacuum",
    "debug_io_direct",
    "log_autovacuum",
    "logical_decoding_work_mem",
    "maintenance_io_concurrency",
    "maintenance_work_mem",
    "track_",
    "vacuum_",
    "wal_init_zero",
    "wal_recycle",
    "wal_sender_timeout",
)
"""Names, or prefixes of names."""
_OF_ROLE_OR_DATABASE = ("database", "user", "database user", "global")
"""Values of pg_settings.source."""
_READ_AT_SESSION_START = ("local_preload_libraries", "session_preload_libraries", "role", "client_")


class SessionSettings:
    """The settings that the load's own sessions can set on a server."""

    def __init__(self, conninfo: ConnInfo, *, outweighed_only: bool = False) -> None:
        """With ``outweighed_only``, they set no others than those of which a role or the database
        has a value of its own, so that ALTER SYSTEM has no effect on it."""
        self._conninfo = conninfo
        self._outweighed_only = outweighed_only
        self._settable: dict[str, bool] = {}
        self._set_before: set[str] = set()

    def is_settable(self, name: str) -> bool:
        """True if a session can set this setting for itself and the role may do so."""
        lowered = name.lower()
        if lowered not in self._settable:
            with connect(self._conninfo) as conn:
                self._settable[lowered] = _session_may_set(
                    conn, lowered, outweighed_only=self._outweighed_only
                )
        return self._settable[lowered]

    def check(self, settings: Mapping[str, str]) -> None:
        """Set them in a session; UsageError if the server rejects a value."""
        import psycopg

        settable = {name: value for name, value in settings.items() if self.is_settable(name)}
        if not settable:
            return
        with connect(self._conninfo) as conn:
            for name, value in settable.items():
                refuse_reserved(name)
                try:
                    conn.execute(set_session(name, value).encode())
                except psycopg.Error as error:
                    raise UsageError(
                        f"{name}: {error.diag.message_primary or error}",
                        code="setting-value",
                        hint=error.diag.message_hint,
                    ) from None

    def statement(self, settings: Mapping[str, str]) -> str | None:
        """Return the statement that sets these and resets all that were set before.

        ``None`` if there is nothing to do.
        """
        wanted = {name.lower(): value for name, value in settings.items()}
        self._set_before |= {*wanted}
        if not self._set_before:
            return None
        values = {**dict.fromkeys(sorted(self._set_before)), **wanted}
        return "; ".join(set_session(name, value) for name, value in values.items())


def apply_missing(names: Iterable[str]) -> UsageError:
    """Return the error for changing settings of a user's server without ``--apply``."""
    return UsageError(
        f"{', '.join(names)}: settings of your server change only with --apply",
        code="apply-missing",
        hint="with --apply, their values are restored at the end, also after a crash",
    )


def _session_may_set(conn: psycopg.Connection, name: str, *, outweighed_only: bool) -> bool:
    if name.startswith((*_USED_BY_OTHER_PROCESSES, *_READ_AT_SESSION_START)):
        return False
    row = conn.execute(query("server", "session_may_set"), {"name": name}).fetchone()
    if row is None and "." in name:
        return not outweighed_only  # Nothing has defined it yet; any session may.
    if row is None:
        raise SetupError(f"{name}: no such setting", code="setting-unknown")
    context, superuser, major, source = row
    if outweighed_only and source not in _OF_ROLE_OR_DATABASE:
        return False
    if context == "superuser" and not superuser:
        return major >= 15 and _granted(conn, name)
    return context in ("user", "superuser")


def _granted(conn: psycopg.Connection, name: str) -> bool:
    granted = b"select has_parameter_privilege(%(name)s, 'set')"
    return bool((conn.execute(granted, {"name": name}).fetchone() or (False,))[0])
