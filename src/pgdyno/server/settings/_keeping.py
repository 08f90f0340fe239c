"""The changes of a user's server under way, kept so that they are undone whatever happens.

A :class:`Keeping` has the undo record of a run (_undo.py), its file, the guardian that has a copy
of it (undo_guardian.py), the mark on the server, and the persistent session. Settings (_change.py)
and SQL (_sql_changes.py) are changed after they are in it.
"""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import time
from collections.abc import Collection
from contextlib import suppress

from pgdyno.errors import SetupError
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.settings._persistent_session import PersistentSession
from pgdyno.server.settings._undo import MARK, UndoFile, UndoRecord
from pgdyno.server.sql_files import query
from pgdyno.watchdogs import READY, Guardian

_EXCLUSION_TRIES = 5


class Keeping:
    """The record of the changes of one run on one server, and all that undoes them."""

    def __init__(self, conninfo: ConnInfo, *, with_undo: bool) -> None:
        """Use ``with_undo`` for a server that pgdyno did not start; without it, only the record is
        kept, in memory."""
        self.conninfo = conninfo
        self.with_undo = with_undo
        self.record: UndoRecord | None = None
        """None until the first change, and after everything is undone."""
        self.texts: set[str] = set()
        """Settings with text values, which may contain secrets."""
        self._session: PersistentSession | None = None
        self._file: UndoFile | None = None
        self._guard: UndoGuard | None = None
        self._marked_as = ""

    def opened(self) -> PersistentSession:
        """Return the persistent session; opened, with a new record, before the first change.

        Raises SetupError if another pgdyno changes this server.
        """
        if self._session is not None:
            return self._session
        record = self.record
        if record is None:
            record = UndoRecord.new(self.conninfo)
        name = f"pgdyno undo {record.run}"
        session = (
            _exclusive_session(self.conninfo, name)
            if self.with_undo
            else PersistentSession(self.conninfo, name)
        )
        record.server = session.identity
        self._session, self.record = session, record
        return session

    def present_record(self) -> UndoRecord:
        """Return the record, which there is once the session was opened."""
        assert self.record is not None
        return self.record

    def close_own(self) -> None:
        """Close the session on a server of pgdyno, which may be stopped at any time."""
        if not self.with_undo and self._session is not None:
            self._session.close()
            self._session = None

    def write(self, record: UndoRecord, texts: Collection[str] = ()) -> bool:
        """Write the record to disk, pass it to the guardian, and mark the server, before a change;
        values of the settings in ``texts`` are not shown in the mark. True if the mark is another
        one now, and so the server must reload. Raises SetupError."""
        session = self.opened()
        if self._file is None:
            self._file = UndoFile.of(record)
        record.marked = record.marked or _may_mark(session)
        self._file.write(record)
        if self._guard is None:
            self._guard = UndoGuard(self.conninfo, record, self._file)
        self._guard.announce(record)
        self.texts |= {*texts}
        self.record = record  # From here on there is something to restore.
        mark = record.mark(self.texts)
        if not record.marked or mark == self._marked_as:
            return False
        session.alter(MARK, mark)
        self._marked_as = mark
        return True

    def note(self, record: UndoRecord) -> None:
        """Write how far the undoing has come, to disk and to the guardian, where they are."""
        if self._file is not None:
            self._file.write(record)
        if self._guard is not None:
            self._guard.announce(record)

    def end(self) -> None:
        """Remove the record after everything is undone, and dismiss the guardian."""
        if self._file is not None:
            self._file.remove()
        if self._guard is not None:
            self._guard.dismiss()
        self._clear()

    def hand_over(self, reason: str) -> None:
        """Leave the record to the guardian, which tries again; ``reason`` was reported."""
        if self._guard is not None:
            self._guard.hand_over(reason)
        self._clear()

    def _clear(self) -> None:
        if self._session is not None:
            self._session.close()
        if self._file is not None:
            self._file.close()
        self._session = self.record = self._file = self._guard = None
        self._marked_as = ""


def _exclusive_session(conninfo: ConnInfo, name: str) -> PersistentSession:
    """Open a persistent session; SetupError if another pgdyno has one on this server.

    Each run connects before it checks. Two that start at the same moment see each other, and both
    try again.
    """
    run = name.split()[-1]
    for attempt in range(_EXCLUSION_TRIES):
        session = PersistentSession(conninfo, name)
        others = [
            row[1]
            for row in session.rows(query("server", "undo_sessions"))
            if not row[1].endswith(run)
        ]
        if not others:
            return session
        session.close()
        if attempt < _EXCLUSION_TRIES - 1:
            time.sleep(random.uniform(0.05, 0.5))
    raise in_use_error()


def in_use_error() -> SetupError:
    """Return the error for a server whose settings another pgdyno is changing."""
    return SetupError(
        "another pgdyno is changing the settings of this server",
        code="settings-in-use",
        hint="wait until it ends",
    )


def _may_mark(session: PersistentSession) -> bool:
    if session.rows(query("server", "may_mark"))[0][0]:
        return True
    if session.version < 150000:
        return False
    granted = b"select has_parameter_privilege('pgdyno.undo', 'alter system')"
    return bool(session.rows(granted)[0][0])


_detached: list[Guardian] = []
"""Guardians that may outlive pgdyno, which does not wait for them."""


class UndoGuard:
    """A guardian, from its start to its end."""

    def __init__(self, conninfo: ConnInfo, record: UndoRecord, file: UndoFile) -> None:
        """Start it and wait until it has its session; SetupError if that fails."""
        self._process = Guardian(
            "pgdyno.server.settings.undo_guardian",
            keeps=(file.lock,),
            stderr=2 if _is_terminal_or_file(2) else subprocess.DEVNULL,
        )
        values = {
            "host": conninfo.host,
            "hostaddr": conninfo.hostaddr,
            "port": conninfo.port,
            "user": conninfo.user,
            "password": conninfo.password,
            "database": conninfo.database,
            "options": dict(conninfo.options),
        }
        first = {"conninfo": values, "run": record.run, "path": str(file.path), "lock": file.lock}
        try:
            self._send(first)
        except BaseException:
            self.detach()
            raise

    def announce(self, record: UndoRecord) -> None:
        """Send the record of a coming change; SetupError if the guardian does not confirm it."""
        self._send({"record": record.to_json()})

    def dismiss(self) -> None:
        """End the guardian after everything is restored."""
        with suppress(OSError):
            self._write({"done": True})
        self.detach()
        self._process.wait()

    def hand_over(self, reason: str) -> None:
        """Leave to the guardian what could not be restored for a ``reason`` that was reported."""
        with suppress(OSError):
            self._write({"reported": reason})
        self.detach()

    def detach(self) -> None:
        """Close the pipes: the guardian restores by itself what is not yet restored."""
        _detached.append(self._process)
        self._process.detach()

    def _send(self, order: dict[str, object]) -> None:
        answer = ""
        with suppress(OSError):
            self._write(order)
            answer = self._process.answer()
        if answer != READY:
            raise SetupError(
                "the process that restores settings if pgdyno is killed"
                f" {f'failed: {answer}' if answer else 'has ended'}",
                code="no-guardian",
                hint="no setting is changed without it",
            )

    def _write(self, order: dict[str, object]) -> None:
        self._process.write(json.dumps(order).encode())


def _is_terminal_or_file(descriptor: int) -> bool:
    """True for a terminal or a file: a guardian would keep a pipe open for its reader."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return os.isatty(descriptor) or stat.S_ISREG(mode)
