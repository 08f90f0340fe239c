"""Settings that a session can be given by itself, so that a trial changes nothing on the server.

Those that users or superusers may SET, and that take effect in the session alone. A setting that
other processes of the server follow too (autovacuum, the checkpointer, WAL senders), or that counts
only while a session begins, is not among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError, UsageError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.queries import query
from pgdyno.server.settings._statements import set_session
from pgdyno.server.settings.setting_values import refuse_reserved

if TYPE_CHECKING:
    import psycopg

_FOLLOWED_BY_OTHERS = (
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
"""Names, or how they begin."""
_AT_THE_BEGINNING = ("local_preload_libraries", "session_preload_libraries", "role", "client_")


class SessionSettings:
    """Which settings the load's own sessions can be given on a server, and how."""

    def __init__(self, conninfo: ConnInfo) -> None:
        self._conninfo = conninfo
        self._takes: dict[str, bool] = {}
        self._given: set[str] = set()

    def takes(self, name: str) -> bool:
        """True if a session's own is enough for this setting, and the role may set it."""
        lowered = name.lower()
        if lowered not in self._takes:
            with connect(self._conninfo) as conn:
                self._takes[lowered] = _session_may(conn, lowered)
        return self._takes[lowered]

    def check(self, settings: Mapping[str, str]) -> None:
        """Have a session take them; UsageError when the server refuses a value."""
        import psycopg

        mine = {name: value for name, value in settings.items() if self.takes(name)}
        if not mine:
            return
        with connect(self._conninfo) as conn:
            for name, value in mine.items():
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
        """What a session executes to have these and none of those that were given before;
        ``None`` when there is nothing to do."""
        wanted = {name.lower(): value for name, value in settings.items()}
        self._given |= {*wanted}
        if not self._given:
            return None
        values = {**dict.fromkeys(sorted(self._given)), **wanted}
        return "; ".join(set_session(name, value) for name, value in values.items())


def apply_missing(names: Iterable[str]) -> UsageError:
    """The error for settings of a user's server that nobody has allowed to change."""
    return UsageError(
        f"{', '.join(names)}: settings of your server change only with --apply",
        code="apply-missing",
        hint="with --apply, their values are restored at the end, also after a crash",
    )


def _session_may(conn: psycopg.Connection, name: str) -> bool:
    if name.startswith((*_FOLLOWED_BY_OTHERS, *_AT_THE_BEGINNING)):
        return False
    row = conn.execute(query("session_may_set"), {"name": name}).fetchone()
    if row is None:
        raise SetupError(f"{name}: no such setting", code="setting-unknown")
    context, superuser, major = row
    if context == "superuser" and not superuser:
        return major >= 15 and _granted(conn, name)
    return context in ("user", "superuser")


def _granted(conn: psycopg.Connection, name: str) -> bool:
    asked = b"select has_parameter_privilege(%(name)s, 'set')"
    return bool((conn.execute(asked, {"name": name}).fetchone() or (False,))[0])
