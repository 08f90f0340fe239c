"""Changing the settings of a running server by ALTER SYSTEM, and putting them back.

On a server that pgdyno did not start, former values are written to an undo record (_undo.py) and a
guardian process runs (undo_guardian.py) before the first change. All changes go through one
persistent session (_persistent_session.py). A change is complete when a fresh connection, made as
the clients make theirs, shows it; else it is reverted at once. A value that another session has set
meanwhile is never overwritten.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from pgdyno.errors import PgdynoError, RunError, SetupError, UsageError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.queries import query
from pgdyno.server.settings._persistent_session import (
    PINNED,
    PersistentSession,
    without_time_limits,
)
from pgdyno.server.settings._restoring import (
    Restored,
    manual_statements,
    put_back,
    restore,
    unloaded_by_others,
)
from pgdyno.server.settings._undo import MARK, UndoFile, UndoRecord
from pgdyno.server.settings._undo_guard import UndoGuard
from pgdyno.server.settings._unloaded import require_loaded
from pgdyno.server.settings.setting_values import (
    Setting,
    as_shown,
    check_value,
    same_value,
    unknown_setting,
)

if TYPE_CHECKING:
    import psycopg

_STRONGER = {  # pg_settings.source → what outweighs ALTER SYSTEM in a session
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
_EXCLUSION_TRIES = 5


class Settings:
    """The settings of one server. ``may_apply`` False: looking is allowed, changing is not."""

    def __init__(self, conninfo: ConnInfo, *, theirs: bool = False, may_apply: bool = True) -> None:
        """``theirs`` for a server that pgdyno did not start: with undo record and guardian.

        ``conninfo`` reaches the server itself, as a client of the user's would.
        """
        self._conninfo = conninfo
        self._theirs = theirs
        self._may_apply = may_apply
        self._session: PersistentSession | None = None
        self._record: UndoRecord | None = None
        self._file: UndoFile | None = None
        self._guard: UndoGuard | None = None
        self._ours: set[str] = set()
        """Settings that have a value of ours now."""
        self._texts: set[str] = set()
        """Settings whose values are text, which may hold secrets."""
        self._loaded: list[str] = []
        """What others had written to the files, and a reload of ours has put in force."""

    @classmethod
    def of_user(cls, conninfo: ConnInfo, *, may_apply: bool) -> Self:
        """For a server that pgdyno did not start."""
        return cls(conninfo, theirs=True, may_apply=may_apply)

    def describe(self, names: Iterable[str]) -> dict[str, Setting]:
        """The named settings as a fresh connection sees them; UsageError for an unknown one."""
        wanted = [name.lower() for name in names]
        with connect(self._conninfo) as conn:
            found = {each.name.lower(): each for each in _described(conn, wanted)}
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
        """ALTER SYSTEM, reload, and a fresh connection; restart-only ones are left pending.

        Raises UsageError for a wrong value or when changes are not allowed, SetupError when the
        role may not, when something outweighs ALTER SYSTEM, when the reload would load what others
        have changed in the files, or when the server cannot be connected to with the change, which
        has then been taken back; RunError when somebody else has changed
        one of the settings meanwhile.
        """
        if not settings:
            return
        if not self._may_apply:
            raise UsageError(
                f"{', '.join(settings)}: settings of this server are changed only with --apply",
                code="apply-not-allowed",
                hint="add --apply; every setting is restored when the run ends",
            )
        settings = self.check(settings)
        described = self.describe(settings)
        _refuse_outweighed(described.values())
        first = not self._changed_names()
        if self._theirs and first:
            require_loaded(self._conninfo)
        session = self._opened_session()
        try:
            self._record_before_change(session, settings, described)
            if self._theirs and not first:
                require_loaded(self._conninfo, self._changed_names())
            self._change(session, settings)
        finally:
            self._close_own_session()

    def reset(self, names: Iterable[str]) -> None:
        """Back to what they were before pgdyno changed them; others are left alone.

        Raises RunError when somebody else has changed one of them meanwhile.
        """
        wanted = {name.lower() for name in names}
        back = [
            name for name in self._changed_names() if name.lower() in wanted and name in self._ours
        ]
        if back:
            session = self._opened_session()
            try:
                done = put_back(session, self._present_record(), back)
                self._ours -= {*back}
                self._loaded += done.loaded
            finally:
                self._close_own_session()
            for name, value in done.theirs.items():
                raise _changed_by_others(name, value)

    def restore_all(self) -> Restored:
        """Everything back, the undo record removed and the guardian dismissed.

        Raises RunError when that is not possible now: the record stays, and the guardian tries on.
        """
        if self._record is None:
            return Restored()
        record = self._record
        try:
            session = self._opened_session()
            done = restore(session, record) if record.settings else Restored()
            done.loaded = sorted({*done.loaded, *self._loaded})
        except PgdynoError as problem:
            if self._guard is not None:
                self._guard.leave()
            self._clear()
            raise _not_restored(record, problem) from None
        if self._file is not None:
            self._file.remove()
        if self._guard is not None:
            self._guard.dismiss()
        self._clear()
        return done

    def _changed_names(self) -> list[str]:
        return list(self._record.settings) if self._record else []

    def _present_record(self) -> UndoRecord:
        assert self._record is not None
        return self._record

    def _opened_session(self) -> PersistentSession:
        """The kept session; before the first change of a user's server all that undoes it too."""
        if self._session is not None:
            return self._session
        record = self._record
        if record is None:
            record = UndoRecord.new(self._conninfo)
        name = f"pgdyno undo {record.run}"
        session = (
            _exclusive_session(self._conninfo, name)
            if self._theirs
            else PersistentSession(self._conninfo, name)
        )
        record.server = session.identity
        self._session, self._record = session, record
        return session

    def _close_own_session(self) -> None:
        """A server of ours is stopped and started at will: no session is kept there."""
        if not self._theirs and self._session is not None:
            self._session.close()
            self._session = None

    def _clear(self) -> None:
        if self._session is not None:
            self._session.close()
        if self._file is not None:
            self._file.close()
        self._session = self._record = self._file = self._guard = None
        self._ours = set()
        self._loaded = []

    def _record_before_change(
        self,
        session: PersistentSession,
        settings: Mapping[str, str],
        described: Mapping[str, Setting],
    ) -> None:
        """Have it known, wherever it must be, what is about to be changed."""
        record = self._present_record()
        session.require_reload()
        held = session.altered(settings)
        for name, value in held.items():
            changed = record.settings.get(name)
            if changed and value != changed.before and not changed.owns(value):
                raise _changed_by_others(name, value)
        new = record.add(held, settings)
        for name, setting in described.items():
            record.settings[name].ours.add(as_shown(setting, settings[name]))
        if new and self._theirs:
            self._write_record(session, record, described)

    def _write_record(
        self, session: PersistentSession, record: UndoRecord, described: Mapping[str, Setting]
    ) -> None:
        """The record on the disk, with the guardian, and on the server itself."""
        if self._file is None:
            self._file = UndoFile.of(record)
        record.marked = record.marked or _may_mark(session)
        self._file.write(record)
        if self._guard is None:
            self._guard = UndoGuard(self._conninfo, record, self._file)
        self._guard.tell(record)
        self._texts |= {name for name, each in described.items() if each.vartype == "string"}
        if record.marked:
            session.alter(MARK, record.mark(self._texts))

    def _change(self, session: PersistentSession, settings: Mapping[str, str]) -> None:
        """Carry the change out, or nothing of it."""
        try:
            for name, value in settings.items():
                self._ours.add(name)
                session.alter(name, value)
            if self._theirs:
                self._loaded += unloaded_by_others(session, self._present_record())
            session.reload()
            self._prove(session, settings)
        except PgdynoError:
            put_back(session, self._present_record(), settings)
            self._ours -= {*settings}
            raise

    def _prove(self, session: PersistentSession, settings: Mapping[str, str]) -> None:
        """Connect as the clients do, and look that what was changed is in force there."""
        change = ", ".join(f"{name} = {value}" for name, value in settings.items())
        timely = {**self._conninfo.options, "connect_timeout": str(_PROOF_S)}
        try:
            connect(replace(self._conninfo, options=timely)).close()
        except PgdynoError as problem:
            if session.is_lost():
                raise  # The server went away: that is not the change's doing, as far as we know.
            raise SetupError(
                f"with {change}, new connections fail: {problem.message}",
                code="locked-out",
                hint="it was reverted at once",
            ) from None
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
        """Settings that a new connection has otherwise, and not for want of a restart."""
        with connect(without_time_limits(session.conninfo)) as conn:
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


def _exclusive_session(conninfo: ConnInfo, name: str) -> PersistentSession:
    """A kept session while no other pgdyno has one on this server; SetupError when one has.

    Each is on the server before it looks. Two that begin at the same moment both see the other,
    and try again.
    """
    run = name.split()[-1]
    for attempt in range(_EXCLUSION_TRIES):
        session = PersistentSession(conninfo, name)
        others = [
            row[1] for row in session.rows(query("undo_sessions")) if not row[1].endswith(run)
        ]
        if not others:
            return session
        session.close()
        if attempt < _EXCLUSION_TRIES - 1:
            time.sleep(random.uniform(0.05, 0.5))
    raise in_use()


def in_use() -> SetupError:
    """The error for a server that another pgdyno is at."""
    return SetupError(
        "another pgdyno is changing the settings of this server",
        code="settings-in-use",
        hint="wait until it ends",
    )


def _may_mark(session: PersistentSession) -> bool:
    if session.rows(query("may_mark"))[0][0]:
        return True
    if session.version < 150000:
        return False
    asked = b"select has_parameter_privilege('pgdyno.undo', 'alter system')"
    return bool(session.rows(asked)[0][0])


def _described(conn: psycopg.Connection, names: list[str]) -> list[Setting]:
    import psycopg

    wanted = {"names": _spellings(names)}
    try:
        rows = conn.execute(query("describe_settings"), wanted).fetchall()
    except psycopg.errors.QueryCanceled:
        # A time limit that is too short to look at it: it is lifted, and seen no more.
        conn.execute("set statement_timeout = 0")
        rows = conn.execute(query("describe_settings"), wanted).fetchall()
    return [Setting.from_row(row) for row in rows]


def _spellings(names: list[str]) -> list[str]:
    """pg_settings knows some names with capitals (DateStyle, TimeZone)."""
    mixed = {"datestyle": "DateStyle", "timezone": "TimeZone", "intervalstyle": "IntervalStyle"}
    return [mixed.get(name, name) for name in names]


def _major(conn: psycopg.Connection) -> str:
    return str(conn.info.server_version // 10000)


def _refuse_outweighed(described: Iterable[Setting]) -> None:
    for setting in described:
        if setting.source in _STRONGER:
            raise SetupError(
                f"{setting.name}: {_STRONGER[setting.source]} sets it to {setting.value},"
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
        f"{', '.join(record.settings)}: still changed on your server: {problem.message}",
        code="settings-not-restored",
        hint="pgdyno keeps trying for 10 minutes; after that, run pgdyno server sweep, or restore"
        f" them manually: {' '.join(manual_statements(record))}",
    )
