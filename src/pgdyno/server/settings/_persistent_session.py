"""A persistent session in which a server's settings are changed and restored.

It is opened before the first change and kept open, so that a change that prevents new connections
can still be reverted. When it connects, it sets parameters that could end or mislead it: no time
limits, no libraries, no read-only transactions. If it is lost, another one is opened in the same
way, if necessary in another database, and only if the same server answers.

Its name shows other sessions that a run is changing settings: ``pgdyno undo RUN``, or
``pgdyno guardian RUN``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pgdyno.errors import PgdynoError, SetupError, UsageError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.connecting.identity import Identity, identity_of
from pgdyno.server.settings._alter_system import alter_system, parse_auto_conf
from pgdyno.server.settings.reloading import configuration_error, reload
from pgdyno.server.sql_files import query
from pgdyno.spec.sql_text import quoted, relation

if TYPE_CHECKING:
    import psycopg

TIME_LIMITS = (
    "statement_timeout",
    "lock_timeout",
    "idle_session_timeout",
    "idle_in_transaction_session_timeout",
)
"""Settings that end statements and sessions; from 17 on, also transaction_timeout."""
_TRANSACTIONS_LIMITED_FROM = 170000
_PINS = {
    **dict.fromkeys(TIME_LIMITS, "0"),
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "local_preload_libraries": "",
}
_SUPERUSER_PINS = {"session_preload_libraries": ""}
PINNED = frozenset((*_PINS, *_SUPERUSER_PINS, "transaction_timeout", "search_path", "row_security"))
"""Settings of which a persistent session has its own values, and does not see the server's."""
_OTHER_DATABASES = ("postgres", "template1")
_CONNECT_S = 4
_PIN_REFUSED = ("permission denied to set", "unrecognized configuration parameter")
_PAUSE_S = 0.2
_ENDING_POLL_S = 0.02


class ElsewhereError(SetupError):
    """The error for an answer from a server other than the one whose settings were changed."""


def without_time_limits(conninfo: ConnInfo, **pins: str) -> ConnInfo:
    """Return connection values for sessions without time limits; not for poolers."""
    values = {**dict.fromkeys(TIME_LIMITS, "0"), **pins}
    if (conninfo.version or 0) >= _TRANSACTIONS_LIMITED_FROM:
        values["transaction_timeout"] = "0"
    listed = " ".join(f"-c {name}={value}" for name, value in values.items())
    options = f"{conninfo.options.get('options', '')} {listed}".strip()
    return replace(conninfo, options={**conninfo.options, "options": options})


class PersistentSession:
    """A session, which reconnects when it is lost. Not thread-safe."""

    def __init__(self, conninfo: ConnInfo, name: str, *, patience_s: float = 10.0) -> None:
        self._conninfo = conninfo
        self._name = name
        self._patience_s = patience_s
        self._conn = self._open()
        self._conninfo = replace(conninfo, version=self._conn.info.server_version)
        self.identity: Identity = identity_of(self._conn)

    @property
    def sees_file(self) -> bool:
        """True if it may read the files that ALTER SYSTEM writes, not only values in force."""
        return bool(self.rows(query("server", "may_read_files"))[0][0])

    @property
    def role(self) -> str:
        """The session's role."""
        return self._conn.info.user

    @property
    def database(self) -> str:
        """The session's database, in which privileges on functions are granted."""
        return self._conn.info.dbname

    @property
    def conninfo(self) -> ConnInfo:
        """The connection values of the server, with its version."""
        return self._conninfo

    @property
    def version(self) -> int:
        """The server's version: 180006 for 18.6."""
        return self._conn.info.server_version

    def close(self) -> None:
        """End the session."""
        self._conn.close()

    def is_lost(self) -> bool:
        """True if the session has ended since its last statement."""
        import psycopg

        try:
            self._conn.execute("select 1")
        except psycopg.Error:
            return self._conn.closed
        return False

    def rows(self, statement: bytes, params: Mapping[str, object] | None = None) -> list[Any]:
        """Execute a statement and return its rows; it is repeated if the session is lost."""
        import psycopg

        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                self._close_if_interrupted()
                cursor = self._conn.execute(statement, params)
                return cursor.fetchall() if cursor.description else []
            except psycopg.Error as error:
                if not self._conn.closed:
                    raise
                self._reopen(deadline, error)

    def altered(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return ALTER SYSTEM's value of each name, ``None`` if unset; SetupError if hidden."""
        import psycopg

        wanted = list(names)
        try:
            found = self._altered_from_file(wanted) if self.sees_file else self._active(wanted)
        except psycopg.errors.InsufficientPrivilege as error:
            raise self._hidden(wanted, f": {error.diag.message_primary}") from None
        except psycopg.Error as error:
            raise self._refused(", ".join(wanted), error) from None
        return {name: found.get(name.lower()) for name in wanted}

    def _altered_from_file(self, names: list[str]) -> Mapping[str, str | None]:
        rows = self.rows(
            query("server", "altered_from_file"), {"names": [name.lower() for name in names]}
        )
        if rows and rows[0][0] is None:
            return self._altered_from_text(rows[0][1])
        return dict(rows)

    def _altered_from_text(self, parse_error: str) -> Mapping[str, str]:
        """Read ALTER SYSTEM's file while the server cannot parse the others.

        Raises SetupError with ``parse_error`` if the role may not read it, or if it is damaged.
        """
        import psycopg

        try:
            text = self.rows(b"select pg_read_file('postgresql.auto.conf')")[0][0]
        except psycopg.Error:
            raise configuration_error(parse_error) from None
        if (found := parse_auto_conf(text)) is None:
            raise configuration_error(parse_error)
        return found

    def _active(self, names: list[str]) -> Mapping[str, str | None]:
        self._require_visible(names)
        self.reload()  # A value that is written but not loaded would be missed.
        return dict(
            self.rows(
                query("server", "altered_active"), {"names": [name.lower() for name in names]}
            )
        )

    def alter(self, name: str, value: str | None) -> None:
        """Execute ALTER SYSTEM SET, or RESET for ``None``, without a reload."""
        import psycopg

        try:
            if "." in name:
                # Some versions alter only a custom parameter that is set in the session.
                self.rows(
                    b"select set_config(%(name)s, '', false)"
                    b" where current_setting(%(name)s, true) is null",
                    {"name": name},
                )
            self.rows(alter_system(name, value).encode())
        except psycopg.Error as error:
            raise self._refused(name, error) from None

    def reload(self) -> None:
        """Make the server reload its files, and wait until it has."""
        import psycopg

        for attempt in (1, 2):
            try:
                self._close_if_interrupted()
                reload(self._conn)
                break
            except psycopg.Error as error:
                if attempt == 2 or not self._conn.closed:
                    raise self._refused("reload", error) from None
                self._reopen(time.monotonic() + self._patience_s, error)

    def require_reload(self) -> None:
        """Raise SetupError if the role may not reload; called before the first change."""
        if not self.rows(b"select has_function_privilege('pg_reload_conf()', 'execute')")[0][0]:
            raise self._not_allowed("reload")

    def end_others(self, name: str) -> None:
        """End sessions named ``name``, so that none of their statements runs after this."""
        while self.rows(query("server", "end_undo_session"), {"name": name})[0][0]:
            time.sleep(_ENDING_POLL_S)

    def _close_if_interrupted(self) -> None:
        """Close the connection if a signal interrupted a statement, whose answer is unread."""
        from psycopg import OperationalError
        from psycopg.pq import TransactionStatus

        if self._conn.info.transaction_status == TransactionStatus.ACTIVE:
            self._conn.close()
            raise OperationalError("a statement was broken off")

    def _require_visible(self, names: list[str]) -> None:
        row = self.rows(b"select pg_has_role(current_user, 'pg_read_all_settings', 'usage')")
        shadowed = [name for name in names if name in PINNED]
        if not row[0][0] or shadowed:
            raise self._hidden(shadowed or names)

    def _hidden(self, names: list[str], reason: str = "") -> SetupError:
        shadowed = [name for name in names if name in PINNED]
        role = quoted(self.role)
        grant = f"GRANT pg_read_all_settings TO {role}"
        if shadowed:
            grant = (
                f"GRANT SELECT ON pg_file_settings TO {role}; GRANT EXECUTE ON FUNCTION"
                f" pg_show_all_file_settings() TO {role}; in database {self.database}"
            )
        return SetupError(
            f"{', '.join(names)}: the present value is not visible to the role {self.role},"
            f" so it could not be restored{reason}",
            code="settings-hidden",
            hint=f"as a superuser: {grant}",
        )

    def _open(self) -> psycopg.Connection:
        """Connect with all pins that the role may set, in the first database that accepts it."""
        problems = []
        for database in dict.fromkeys((self._conninfo.database, *_OTHER_DATABASES)):
            for pins, version in self._pin_choices():
                try:
                    return self._connect(database, pins, version)
                except PgdynoError as error:
                    problem = error
                    if not any(refusal in error.message for refusal in _PIN_REFUSED):
                        break
            problems.append(problem)
            if problem.code in ("no-server", "no-host", "wrong-password"):
                break
        raise problems[0]

    def _pin_choices(self) -> Iterator[tuple[dict[str, str], int]]:
        """Yield the pins to try, most first, each with the server version that they suit."""
        known = self._conninfo.version
        for version in (_TRANSACTIONS_LIMITED_FROM, 0) if known is None else (known,):
            yield {**_PINS, **_SUPERUSER_PINS}, version
            yield _PINS, version

    def _connect(self, database: str, pins: dict[str, str], version: int) -> psycopg.Connection:
        target = replace(self._conninfo, database=database, version=version)
        unlimited = without_time_limits(target, **pins)
        own = {
            "application_name": self._name,
            "connect_timeout": str(_CONNECT_S),
            "keepalives_idle": "30",
        }
        return connect(replace(unlimited, options={**unlimited.options, **own}))

    def _reopen(self, deadline: float, lost: Exception) -> None:
        """Reconnect to the same server; SetupError with the cause ``lost`` after ``deadline``."""
        import psycopg

        while True:
            try:
                self._conn = self._reopened()
                return self.end_others(self._name)
            except ElsewhereError:
                raise
            except (PgdynoError, psycopg.Error):
                if time.monotonic() > deadline:
                    break
            time.sleep(_PAUSE_S)
        raise SetupError(
            f"the server at {self._conninfo.uri_without_password} is not available:"
            f" {str(lost).strip().splitlines()[0]}",
            code="no-server",
        ) from None

    def _reopened(self) -> psycopg.Connection:
        conn = self._open()
        if not identity_of(conn).is_same(self.identity):
            conn.close()
            raise ElsewhereError(
                f"another server answers now at {self._conninfo.uri_without_password}",
                code="server-elsewhere",
            )
        return conn

    def _refused(self, name: str, error: psycopg.Error) -> PgdynoError:
        message = error.diag.message_primary or str(error).strip()
        if error.sqlstate == "42501" and not self._is_privileged(name):
            return self._not_allowed(name, f": {message}")
        if error.sqlstate in ("22023", "42704", "22P02"):
            return UsageError(
                f"{name}: {message}", code="setting-value", hint=error.diag.message_hint
            )
        return SetupError(f"{name}: {message}", code="alter-failed", hint=error.diag.message_hint)

    def _is_privileged(self, name: str) -> bool:
        """True if the role may alter ``name``: a file that the server may not write is an error of
        the same class (42501) as a missing privilege."""
        import psycopg

        superuser = b"select rolsuper from pg_roles where rolname = current_user"
        granted = b"select has_parameter_privilege(%(name)s, 'alter system')"
        try:
            if self.version >= 150000 and name != "reload":
                return bool(self.rows(granted, {"name": name})[0][0])
            return bool(self.rows(superuser)[0][0])
        except (psycopg.Error, PgdynoError, IndexError):
            return False

    def _not_allowed(self, name: str, reason: str = "") -> SetupError:
        if name == "reload":
            return SetupError(
                f"the role {self.role} may not reload the server's configuration{reason}",
                code="no-permission",
                hint=f"as a superuser, in database {self.database}:"
                f" GRANT EXECUTE ON FUNCTION pg_reload_conf() TO {quoted(self.role)}",
            )
        grant = f"GRANT ALTER SYSTEM ON PARAMETER {relation(name)} TO {quoted(self.role)}"
        return SetupError(
            f"{name}: the role {self.role} may not change it{reason}",
            code="no-permission",
            hint=f"as a superuser: {grant}"
            if self.version >= 150000
            else "before PostgreSQL 15, only a superuser may",
        )
