"""Changing the settings of a running server by ALTER SYSTEM, and restoring them.

On a server that pgdyno did not start, the former values are written to an undo record (_undo.py)
and a guardian process is started (undo_guardian.py) before the first change. All changes go through
one persistent session (_persistent_session.py). A change is complete when a new connection, made
like those of the clients, shows it; otherwise it is reverted immediately. A value that another
session has set meanwhile is never overwritten.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from pgdyno.errors import PgdynoError, RunError, SetupError, UsageError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.settings._keeping import Keeping
from pgdyno.server.settings._persistent_session import (
    PINNED,
    PersistentSession,
    without_time_limits,
)
from pgdyno.server.settings._restoring import (
    RestoreResult,
    restore,
    restore_settings,
    unloaded_by_others,
    ways_to_restore,
)
from pgdyno.server.settings._sql_changes import SqlChanges
from pgdyno.server.settings._undo import UndoRecord
from pgdyno.server.settings.reloading import require_loaded
from pgdyno.server.settings.setting_values import (
    Setting,
    as_shown,
    check_value,
    placeholder,
    same_value,
    unknown_setting,
)
from pgdyno.server.sql_files import query

if TYPE_CHECKING:
    import psycopg

_OVERRIDING = {  # pg_settings.source → its name, for sources that override ALTER SYSTEM
    "command line": "the server's command line",
    "environment variable": "the server's environment",
    "global": "ALTER ROLE ALL",
    "database": "ALTER DATABASE",
    "user": "ALTER ROLE",
    "database user": "ALTER ROLE IN DATABASE",
    "client": "the connection's options",
}
_PROOF_S = 5
_IN_FORCE_S_MAX = 5.0
_POLL_S = 0.02


class Settings:
    """The settings of one server. With ``may_apply`` False they can be read but not changed."""

    def __init__(
        self,
        conninfo: ConnInfo,
        *,
        with_undo: bool = False,
        may_apply: bool = True,
        passed_on: Collection[str] = (),
    ) -> None:
        """Use ``with_undo`` for a server that pgdyno did not start: undo record and guardian.
        ``passed_on`` are settings for whose values on the command line those of ALTER SYSTEM are
        taken when the server is started again.

        ``conninfo`` connects to the server directly, otherwise like the user's clients.
        """
        self._conninfo = conninfo
        self._with_undo = with_undo
        self._may_apply = may_apply
        self._passed_on = passed_on
        self._keeping = Keeping(conninfo, with_undo=with_undo)
        self.sql = SqlChanges(self._keeping, may_apply=may_apply)
        """Changes of the same server by SQL, undone together with its settings."""
        self._applied: set[str] = set()
        """Settings that have a value of pgdyno now."""
        self._altered: set[str] = set()
        """Settings that pgdyno has changed at some time, now restored or not."""
        self._also_loaded: list[str] = []
        """Changes of others in the files that pgdyno's reloads have applied."""

    @classmethod
    def of_user(cls, conninfo: ConnInfo, *, may_apply: bool) -> Self:
        """Return the settings of a server that pgdyno did not start."""
        return cls(conninfo, with_undo=True, may_apply=may_apply)

    def describe(self, names: Iterable[str]) -> dict[str, Setting]:
        """Return the named settings as a new connection has them; UsageError for an unknown one.

        One of an application, or of a library that is not loaded, is a text without a value.
        """
        wanted = [name.lower() for name in names]
        with connect(self._conninfo) as conn:
            found = {each.name.lower(): each for each in _described(conn, wanted)}
            if missing := [name for name in wanted if name not in found]:
                found |= _placeholders(conn, missing)
        return {found[name].name: found[name] for name in wanted}

    def check(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the settings with the server's spelling of their names; UsageError if invalid.

        Strings (paths, lists, names) are not checked here; the server checks them when applied.
        """
        described = self.describe(settings)
        with connect(self._conninfo) as conn:
            major = _major(conn)
        for setting, value in zip(described.values(), settings.values(), strict=True):
            check_value(setting, value, major)
        return dict(zip(described, settings.values(), strict=True))

    def find(self, names: Iterable[str]) -> dict[str, Setting]:
        """Return those of the named settings that the server has, by name in lower case."""
        with connect(self._conninfo) as conn:
            return {each.name.lower(): each for each in _described(conn, [*names])}

    def rejections(self, settings: Mapping[str, str]) -> dict[str, UsageError]:
        """Return by name why the server would reject it, for all that it would reject; strings that
        a session may set are tried in a transaction that is rolled back."""
        lower = {name.lower(): value for name, value in settings.items()}
        rejected: dict[str, UsageError] = {}
        with connect(self._conninfo) as conn:
            found = {each.name.lower(): each for each in _described(conn, [*lower])}
            for name, value in lower.items():
                try:
                    if name not in found:
                        found |= _placeholders(conn, [name])
                    check_value(found[name], value, _major(conn))
                    if found[name].vartype == "string":
                        _try_string(conn, found[name], value)
                except UsageError as error:
                    rejected[name] = error
        return rejected

    def differing(self, settings: Mapping[str, str]) -> set[str]:
        """Return the names of those whose value is not in force; all must pass :meth:`check`."""
        described = self.describe(settings)
        pairs = zip(described.values(), settings.values(), strict=True)
        return {setting.name for setting, value in pairs if not same_value(setting, value)}

    def needs_restart(self, settings: Iterable[str]) -> set[str]:
        """Return the names of those that take effect only after a restart."""
        names = list(settings)
        described = self.describe(names).values() if names else ()
        return {setting.name for setting in described if setting.context == "postmaster"}

    def outweighed(self, names: Iterable[str]) -> dict[str, str]:
        """Return those of ``names`` for which ALTER SYSTEM has no effect, each with the command or
        place that overrides it, such as ALTER DATABASE."""
        described = self.describe(names).values()
        return {
            each.name: _OVERRIDING[each.source]
            for each in described
            if each.source in _OVERRIDING and not self._is_passed_on(each)
        }

    def require_apply(self, names: Iterable[str]) -> None:
        """Raise UsageError if changes of the server, or of its machine, are not allowed."""
        if not self._may_apply:
            raise UsageError(
                f"{', '.join(names)}: settings of this server are changed only with --apply",
                code="apply-not-allowed",
                hint="add --apply; every setting is restored when the run ends",
            )

    def apply(self, settings: Mapping[str, str]) -> None:
        """Apply by ALTER SYSTEM and reload, and check with a new connection.

        Settings that need a restart are left pending. Raises UsageError for an invalid value or if
        changes are not allowed; SetupError if the role may not change one, if something overrides
        ALTER SYSTEM, if the reload would apply other changes in the files, or if new connections
        fail with the change, which is then reverted; RunError if another session has changed one of
        the settings meanwhile.
        """
        if not settings:
            return
        self.require_apply(settings)
        settings = self.check(settings)
        described = self.describe(settings)
        _refuse_overridden(each for each in described.values() if not self._is_passed_on(each))
        first = not self._changed_names()
        if self._with_undo and first:
            require_loaded(self._conninfo)
        session = self._keeping.opened()
        try:
            self._record_before_change(session, settings, described)
            if self._with_undo and not first:
                require_loaded(self._conninfo, self._changed_names())
            self._change(session, settings)
        finally:
            self._keeping.close_own()

    def reset(self, names: Iterable[str]) -> None:
        """Restore those of ``names`` that pgdyno has changed.

        Raises RunError if another session has changed one of them meanwhile.
        """
        wanted = {name.lower() for name in names}
        changed = [
            name
            for name in self._changed_names()
            if name.lower() in wanted and name in self._applied
        ]
        if changed:
            session = self._keeping.opened()
            try:
                result = restore_settings(session, self._keeping.present_record(), changed)
                self._applied -= {*changed}
                self._also_loaded += result.also_loaded
            finally:
                self._keeping.close_own()
            for name, value in result.kept.items():
                raise _changed_by_others(name, value)

    def restore_all(self) -> RestoreResult:
        """Restore all settings, undo the SQL, remove the undo record and dismiss the guardian.

        Raises RunError if that fails: the record stays, and the guardian keeps trying.
        """
        if (record := self._keeping.record) is None:
            return RestoreResult()
        try:
            session = self._keeping.opened()
            result = restore(session, record, self._keeping.note)
            never_changed = {*result.unchanged} - self._altered
            result.restored = [name for name in result.restored if name not in never_changed]
            result.also_loaded = sorted({*result.also_loaded, *self._also_loaded})
        except PgdynoError as problem:
            self._keeping.hand_over(problem.message)
            self._forget()
            raise _not_restored(record, problem) from None
        self._keeping.end()
        self._forget()
        return result

    def _forget(self) -> None:
        self._applied, self._altered = set(), set()
        self._also_loaded = []

    def _is_passed_on(self, setting: Setting) -> bool:
        return setting.source == "command line" and setting.name in self._passed_on

    def _changed_names(self) -> list[str]:
        record = self._keeping.record
        return list(record.settings) if record else []

    def _record_before_change(
        self,
        session: PersistentSession,
        settings: Mapping[str, str],
        described: Mapping[str, Setting],
    ) -> None:
        """Record the coming change: in the undo record, with the guardian, on the server."""
        record = deepcopy(self._keeping.present_record())
        session.require_reload()
        held = session.altered(settings)
        for name, value in held.items():
            changed = record.settings.get(name)
            if changed and value != changed.before and not changed.owns(value):
                raise _changed_by_others(name, value)
        new = record.add(held, settings)
        for name, setting in described.items():
            record.settings[name].ours.add(as_shown(setting, settings[name]))
        if new and self._with_undo:
            texts = [name for name, each in described.items() if each.vartype == "string"]
            self._keeping.write(record, texts)
        self._keeping.record = record

    def _change(self, session: PersistentSession, settings: Mapping[str, str]) -> None:
        """Apply all of ``settings``, or none if one fails."""
        try:
            for name, value in settings.items():
                self._applied.add(name)
                session.alter(name, value)
                self._altered.add(name)
            others = (
                unloaded_by_others(session, self._keeping.present_record())
                if self._with_undo
                else []
            )
            session.reload()
            self._also_loaded += others
            self._prove(session, settings)
        except PgdynoError:
            restore_settings(session, self._keeping.present_record(), settings)
            self._applied -= {*settings}
            raise

    def _prove(self, session: PersistentSession, settings: Mapping[str, str]) -> None:
        """Connect as the clients do, and check that the change is in force."""
        timely = {**self._conninfo.options, "connect_timeout": str(_PROOF_S)}
        _connect_after(settings, replace(self._conninfo, options=timely), session).close()
        deadline = time.monotonic() + _IN_FORCE_S_MAX
        while missing := self._not_in_force(session, settings):
            if time.monotonic() > deadline:
                raise SetupError(
                    f"the server did not apply {', '.join(missing)}",
                    code="not-in-force",
                    hint="its log says why; it was reverted",
                )
            time.sleep(_POLL_S)

    def _not_in_force(self, session: PersistentSession, settings: Mapping[str, str]) -> list[str]:
        """Return settings that differ in a new connection, except those that await a restart."""
        # Also limits that are off here may end a connection: they hold until its options are read.
        with _connect_after(settings, without_time_limits(session.conninfo), session) as conn:
            found = _described(conn, [name.lower() for name in settings])
        return [
            each.name
            for each in found
            if each.name not in PINNED
            and each.vartype != "string"
            and not each.pending_restart
            and each.context != "postmaster"
            and not same_value(each, settings[each.name])
        ]


def _connect_after(
    settings: Mapping[str, str], conninfo: ConnInfo, session: PersistentSession
) -> psycopg.Connection:
    """Connect with changed settings in force; SetupError if they are the reason for a failure."""
    try:
        return connect(conninfo)
    except PgdynoError as problem:
        if session.is_lost():
            raise  # The server is away, which need not be a consequence of the change.
        change = ", ".join(f"{name} = {value}" for name, value in settings.items())
        raise SetupError(
            f"with {change}, new connections fail: {problem.message}",
            code="locked-out",
            hint="it was reverted at once",
        ) from None


def _described(conn: psycopg.Connection, names: list[str]) -> list[Setting]:
    import psycopg

    wanted = {"names": _spellings(names)}
    try:
        rows = conn.execute(query("server", "describe_settings"), wanted).fetchall()
    except psycopg.errors.QueryCanceled:
        # The time limit is too short for this query. Once lifted, its value is no longer visible.
        conn.execute("set statement_timeout = 0")
        rows = conn.execute(query("server", "describe_settings"), wanted).fetchall()
    return [Setting.from_row(row) for row in rows]


def _placeholders(conn: psycopg.Connection, names: Iterable[str]) -> dict[str, Setting]:
    """Return settings that nothing has defined yet. Raises UsageError for a name that is none."""
    known = [row[0] for row in conn.execute(query("server", "setting_names"))]
    version = _major(conn)
    found = {}
    for name in names:
        if (setting := placeholder(name, known, version)) is None:
            raise unknown_setting(name, known, version)
        found[name] = setting
    return found


def _try_string(conn: psycopg.Connection, setting: Setting, value: str) -> None:
    """Raise UsageError if this session may set a string, and the server rejects its value."""
    import psycopg

    if setting.context not in ("user", "superuser"):
        return
    try:
        with conn.transaction(force_rollback=True):
            conn.execute(query("server", "try_setting"), {"name": setting.name, "value": value})
    except psycopg.errors.InsufficientPrivilege:
        return  # Not known before it is applied.
    except psycopg.Error as problem:
        said = problem.diag.message_primary or str(problem)
        raise UsageError(
            f"{setting.name}: {said}", code="setting-refused", hint=problem.diag.message_detail
        ) from None


def _spellings(names: list[str]) -> list[str]:
    """Return names in pg_settings' spelling: some have capitals (DateStyle, TimeZone)."""
    mixed = {"datestyle": "DateStyle", "timezone": "TimeZone", "intervalstyle": "IntervalStyle"}
    return [mixed.get(name, name) for name in names]


def _major(conn: psycopg.Connection) -> str:
    return str(conn.info.server_version // 10000)


def _refuse_overridden(described: Iterable[Setting]) -> None:
    for setting in described:
        if setting.source in _OVERRIDING:
            raise SetupError(
                f"{setting.name}: {_OVERRIDING[setting.source]} sets it to {setting.value},"
                " which overrides ALTER SYSTEM",
                code="setting-outweighed",
                hint="remove that, or connect in a way that it does not affect",
            )


def _changed_by_others(name: str, value: str | None) -> RunError:
    now = "reset it" if value is None else f"set it to {value}"
    return RunError(
        f"{name}: another session {now} by ALTER SYSTEM while pgdyno was changing it",
        code="settings-contested",
        hint="that value is kept; run again when nothing else changes it",
    )


def _not_restored(record: UndoRecord, problem: PgdynoError) -> RunError:
    return RunError(
        f"{', '.join(record.names)}: still changed on your server: {problem.message}",
        code="settings-not-restored",
        hint=f"pgdyno keeps trying for 10 minutes; otherwise {ways_to_restore(record)}",
    )
