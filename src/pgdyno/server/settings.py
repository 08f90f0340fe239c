"""Changing the settings of a running server by ALTER SYSTEM, and putting them back.

Former values are kept (in an undo file for a server that is not ours) before the first change, see
undo.py. A change counts as made when a fresh connection has it: the postmaster has reread its
files, so every later connection starts with the new value, and older ones take it up at their next
command.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pgdyno.errors import PgdynoError, SetupError, UsageError
from pgdyno.server.connecting import connect
from pgdyno.server.conninfo import ConnInfo
from pgdyno.server.queries import query
from pgdyno.server.reloading import reload
from pgdyno.server.setting_values import Setting, check_value, same_value, unknown_setting
from pgdyno.server.undo import UndoLog, undo_path_for

if TYPE_CHECKING:
    import psycopg

_LISTS = frozenset(  # Settings whose elements ALTER SYSTEM wants quoted one by one.
    (
        "local_preload_libraries",
        "search_path",
        "session_preload_libraries",
        "shared_preload_libraries",
        "temp_tablespaces",
        "unix_socket_directories",
    )
)
_STRONGER = {  # pg_settings.source → what outweighs ALTER SYSTEM in a session
    "command line": "the server's command line",
    "environment variable": "the server's environment",
    "global": "ALTER ROLE ALL",
    "database": "ALTER DATABASE",
    "user": "ALTER ROLE",
    "database user": "ALTER ROLE IN DATABASE",
    "client": "the connection's options",
}


class Settings:
    """The settings of one server. ``may_apply`` False: looking is allowed, changing is not."""

    def __init__(self, conninfo: ConnInfo, *, undo_path: Path | None, may_apply: bool) -> None:
        self._conninfo = conninfo
        self._undo_path = undo_path
        self._may_apply = may_apply
        self._undo: UndoLog | None = None

    @classmethod
    def with_undo_file(cls, conninfo: ConnInfo, *, may_apply: bool) -> Self:
        """For a server that pgdyno did not start: with the undo file of that server."""
        return cls(conninfo, undo_path=undo_path_for(conninfo), may_apply=may_apply)

    def describe(self, names: Iterable[str]) -> dict[str, Setting]:
        """The named settings as a fresh connection sees them; UsageError for an unknown one."""
        wanted = [name.lower() for name in names]
        with connect(self._conninfo) as conn:
            rows = conn.execute(query("describe_settings"), {"names": _spellings(conn, wanted)})
            found = {row[0].lower(): Setting.from_row(row) for row in rows}
            for name in wanted:
                if name not in found:
                    known = [row[0] for row in conn.execute(query("setting_names"))]
                    raise unknown_setting(name, known, _major(conn))
        return {found[name].name: found[name] for name in wanted}

    def check(self, settings: Mapping[str, str]) -> dict[str, str]:
        """The settings in the server's spelling of their names; UsageError for one that is wrong.

        Strings (paths, lists, names) are not judged here but by the server when they are applied.
        """
        described = self.describe(settings)
        with connect(self._conninfo) as conn:
            major = _major(conn)
        for setting, value in zip(described.values(), settings.values(), strict=True):
            check_value(setting, value, major)
        return dict(zip(described, settings.values(), strict=True))

    def differing(self, settings: Mapping[str, str]) -> set[str]:
        """Those whose value is another than the one in force; all are valid by :meth:`check`."""
        described = self.describe(settings)
        pairs = zip(described.values(), settings.values(), strict=True)
        return {setting.name for setting, value in pairs if not same_value(setting, value)}

    def needs_restart(self, settings: Iterable[str]) -> set[str]:
        """Those that take effect only after a restart."""
        names = list(settings)
        described = self.describe(names).values() if names else ()
        return {setting.name for setting in described if setting.context == "postmaster"}

    def apply(self, settings: Mapping[str, str]) -> None:
        """ALTER SYSTEM, reload, and wait until in force; restart-only ones are left pending.

        Raises UsageError for a wrong value or when changes are not allowed, SetupError when the
        role may not, or when something outweighs ALTER SYSTEM.
        """
        if not settings:
            return
        if not self._may_apply:
            raise UsageError(
                f"{', '.join(settings)}: this server's settings are left alone without --apply",
                code="apply-not-allowed",
                hint="add --apply; every setting goes back to what it was when the run ends",
            )
        settings = self.check(settings)
        with connect(self._conninfo) as conn:
            log = self._undo_log(conn)
            log.remember(_altered_before(conn, list(settings)))
            for name, value in settings.items():
                self._alter(conn, name, value)
            reload(self._conninfo, conn)
        self._check_in_force(settings)

    def reset(self, names: Iterable[str]) -> None:
        """Back to what they were before pgdyno touched them; others are left alone."""
        if self._undo is not None:
            self._restore({name.lower() for name in names})

    def restore_all(self) -> None:
        """Everything back, the undo file removed and its lock given up."""
        if self._undo is not None:
            self._restore(set(self._undo.before))
            self._undo.close()
            self._undo = None

    def take_over(self) -> bool:
        """Read in what a crashed run left in the undo file, so that ``restore_all`` undoes it.

        ``False`` when there is nothing, or it is about another server than the one that answers.
        """
        with connect(self._conninfo) as conn:
            return bool(self._undo_log(conn).before)

    def _restore(self, names: set[str]) -> None:
        assert self._undo is not None
        back = {name: old for name, old in self._undo.before.items() if name.lower() in names}
        if not back:
            return
        with connect(self._conninfo) as conn:
            for name, old in back.items():
                self._alter(conn, name, old)
            reload(self._conninfo, conn)
        self._undo.forget(set(back))

    def _undo_log(self, conn: psycopg.Connection) -> UndoLog:
        if self._undo is None:
            row = conn.execute("select system_identifier::text from pg_control_system()").fetchone()
            assert row is not None
            self._undo = UndoLog.open(self._conninfo, self._undo_path, row[0])
        return self._undo

    def _alter(self, conn: psycopg.Connection, name: str, value: str | None) -> None:
        import psycopg
        from psycopg import sql

        target = sql.SQL(".").join(sql.Identifier(part) for part in name.split("."))
        statement = sql.SQL("alter system reset {}").format(target)
        if value is not None:
            literals = sql.SQL(", ").join(_literals(name, value))
            statement = sql.SQL("alter system set {} = {}").format(target, literals)
        try:
            conn.execute(statement)
        except psycopg.Error as error:
            raise _alter_error(name, error, conn) from None

    def _check_in_force(self, settings: Mapping[str, str]) -> None:
        for setting in self.describe(settings).values():
            if not setting.pending_restart and setting.source in _STRONGER:
                raise SetupError(
                    f"{setting.name}: {_STRONGER[setting.source]} sets it to {setting.value},"
                    " which outweighs ALTER SYSTEM",
                    code="setting-outweighed",
                    hint="take that away, or connect in a way that does not meet it",
                )


def _spellings(conn: psycopg.Connection, names: list[str]) -> list[str]:
    """pg_settings knows some names with capitals (DateStyle, TimeZone)."""
    mixed = {"datestyle": "DateStyle", "timezone": "TimeZone", "intervalstyle": "IntervalStyle"}
    return [mixed.get(name, name) for name in names]


def _major(conn: psycopg.Connection) -> str:
    return str(conn.info.server_version // 10000)


def _literals(name: str, value: str) -> list[psycopg.sql.Composable]:
    from psycopg import sql

    if name not in _LISTS:
        return [sql.Literal(value)]
    elements = [element.strip().strip('"') for element in value.split(",")]
    return [sql.Literal(element) for element in elements]


def _altered_before(conn: psycopg.Connection, names: list[str]) -> dict[str, str | None]:
    """What ALTER SYSTEM held for each name, ``None`` for nothing; SetupError if that is hidden."""
    import psycopg

    for source in ("altered_from_file", "altered_in_force"):
        if source == "altered_in_force" and not _sees_sources(conn):
            break
        try:
            rows: dict[str, str] = dict(conn.execute(query(source), {"names": names}).fetchall())
        except psycopg.errors.InsufficientPrivilege:
            continue
        return {name: rows.get(name) for name in names}
    raise SetupError(
        f"{', '.join(names)}: cannot see what is set now, so it could not be put back",
        code="settings-hidden",
        hint=f"as a superuser: GRANT pg_read_all_settings TO {conn.info.user}",
    )


def _sees_sources(conn: psycopg.Connection) -> bool:
    row = conn.execute("select pg_has_role(current_user, 'pg_read_all_settings', 'usage')")
    return bool((row.fetchone() or (False,))[0])


def _alter_error(name: str, error: psycopg.Error, conn: psycopg.Connection) -> PgdynoError:
    message = error.diag.message_primary or str(error)
    if error.sqlstate == "42501":
        fifteen = conn.info.server_version >= 150000
        grant = f"GRANT ALTER SYSTEM, SET ON PARAMETER {name} TO {conn.info.user}"
        return SetupError(
            f"{name}: the role {conn.info.user} may not change it",
            code="no-permission",
            hint=f"as a superuser: {grant}" if fifteen else "only a superuser may, before 15",
        )
    if error.sqlstate in ("22023", "42704", "22P02"):
        return UsageError(f"{name}: {message}", code="setting-value", hint=error.diag.message_hint)
    return SetupError(f"{name}: {message}", code="alter-failed", hint=error.diag.message_hint)
