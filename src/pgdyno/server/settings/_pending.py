"""Settings that killed runs have left changed: found, and put back.

A record is pending when its run is dead: its lock is free. On the server a mark is pending when no
session bears the name of its run. Nothing is measured on a server while something is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.errors import PgdynoError, SetupError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.connecting.identity import Identity, identity_of
from pgdyno.server.queries import query
from pgdyno.server.settings._change import in_use
from pgdyno.server.settings._persistent_session import PersistentSession, without_time_limits
from pgdyno.server.settings._restoring import Restored, manual_statements, restore
from pgdyno.server.settings._undo import MARK, UndoFile, UndoRecord, read_undo, undo_files

if TYPE_CHECKING:
    import psycopg

_GUARDIAN_S_MAX = 15.0
_POLL_S = 0.1
_QUICK_S = 2


@dataclass
class Undone:
    """What became of one record."""

    sentences: list[str]
    failed: bool = False
    manual_statements: list[str] = field(default_factory=list)
    """Statements that put everything back."""
    path: Path | None = None
    """The record that is left."""

    @property
    def still_true(self) -> bool:
        """True if the record is still there; who had other credentials may have seen to it."""
        return self.path is None or self.path.exists()


def settle(conninfo: ConnInfo) -> list[str]:
    """Put back what killed runs have left changed on this server; a sentence for each thing done.

    By the credentials of ``conninfo``, which reaches the server itself. Raises SetupError when
    another pgdyno is changing its settings, or when they cannot be put back.
    """
    with connect(without_time_limits(conninfo)) as conn:
        identity = identity_of(conn)
        mark = _mark(conn)
    told = []
    for path, record in _records_of(identity, mark):
        file = _taken(path)
        if file is None:
            continue
        try:
            told += _put_back(conninfo, record, file)
        except PgdynoError as problem:
            raise _pending(record, problem, path) from None
        finally:
            file.close()
    return told + _settle_mark(conninfo, identity)


def settings_left(conninfo: ConnInfo) -> list[str]:
    """Settings of this server that :func:`settle` would put back, by name."""
    with connect(without_time_limits(conninfo)) as conn:
        identity, mark = identity_of(conn), _mark(conn)
    records = [record for _, record in _records_of(identity, mark)]
    if mark is not None:
        records.append(UndoRecord.from_mark(mark, identity, conninfo))
    return sorted({name for record in records for name in record.settings})


def undo_left(*, quick: bool) -> list[Undone]:
    """Try to put back what every record tells of that no living pgdyno sees to.

    By the recorded ways to the servers. ``quick`` waits but a moment for one that does not answer.
    Nothing is raised: what goes wrong here is no concern of a run on another server.
    """
    try:
        return list(_undo_each(quick=quick))
    except (PgdynoError, OSError) as problem:
        return [Undone([str(problem)], failed=True)]


def _undo_each(*, quick: bool) -> Iterator[Undone]:
    for path in undo_files():
        try:
            file = UndoFile.try_take(path)
            if file is None:
                yield from _seen_to(path)
                continue
        except PgdynoError as problem:
            yield Undone([problem.message], failed=True)
            continue
        try:
            if path.exists():
                yield _undo(path, file, quick=quick)
        finally:
            file.close()


def _seen_to(path: Path) -> Iterator[Undone]:
    """What a guardian has not yet put back after its pgdyno; nothing while that lives."""
    with suppress(PgdynoError):
        record = read_undo(path)
        if not Path(f"/proc/{record.pid}").exists():
            where = record.conninfo.uri_without_password
            names = ", ".join(record.settings)
            said = f"{names} at {where}: not yet restored; a guardian is still trying"
            yield Undone(
                [said], failed=True, manual_statements=manual_statements(record), path=path
            )


def _undo(path: Path, file: UndoFile, *, quick: bool) -> Undone:
    try:
        record = read_undo(path)
    except PgdynoError as problem:
        return Undone([f"{problem.message}: {problem.hint}"], failed=True, path=path)
    way = record.conninfo
    if quick:
        way = replace(way, options={**way.options, "connect_timeout": str(_QUICK_S)})
    try:
        return Undone(_put_back(way, record, file))
    except PgdynoError as problem:
        names = ", ".join(record.settings)
        where = record.conninfo.uri_without_password
        said = f"{names} at {where}: not yet restored after a killed pgdyno: {problem.message}"
        return Undone([said], failed=True, manual_statements=manual_statements(record), path=path)


def _put_back(conninfo: ConnInfo, record: UndoRecord, file: UndoFile) -> list[str]:
    """Put it back in a session of ``conninfo``; the record goes. SetupError when it stays."""
    import psycopg

    try:
        session = PersistentSession(conninfo, f"pgdyno undo {record.run}", patience_s=2.0)
        try:
            if not _is_there(session, record):
                raise SetupError(
                    f"another server answers at {conninfo.uri_without_password}",
                    code="server-elsewhere",
                )
            session.end_others(f"pgdyno guardian {record.run}")
            done = restore(session, record)
            assert record.server is not None
            # A copy that was made of the server while it was changed bears its mark too.
            original = record.server.is_same(session.identity)
        finally:
            session.close()
    except psycopg.Error as error:
        raise SetupError(str(error).strip(), code="undo-failed") from None
    if original:
        file.remove()
    return _sentences(conninfo, done)


def _is_there(session: PersistentSession, record: UndoRecord) -> bool:
    """True if the record is about the server that answers."""
    assert record.server is not None
    if record.server.system_identifier != session.identity.system_identifier:
        return False
    if record.marked and session.sees_file:
        held = session.altered([MARK])[MARK]
        if held is not None:
            return _run_of(held) == record.run
    return record.server.is_same(session.identity)


def _records_of(identity: Identity, mark: str | None) -> list[tuple[Path, UndoRecord]]:
    """The records about this server; those that cannot be read are somebody else's concern."""
    found = []
    for path in undo_files():
        try:
            record = read_undo(path)
        except PgdynoError:
            continue
        assert record.server is not None
        bears_its_mark = mark is not None and record.run == _run_of(mark)
        if bears_its_mark or record.server.is_same(identity):
            found.append((path, record))
    return found


def _taken(path: Path) -> UndoFile | None:
    """The file, for us to see to; ``None`` when its run or its guardian has done so meanwhile.

    A guardian needs a moment after a kill. Raises SetupError when the run is alive.
    """
    deadline = time.monotonic() + _GUARDIAN_S_MAX
    while path.exists():
        if (file := UndoFile.try_take(path)) is not None:
            return file
        if time.monotonic() > deadline:
            raise in_use()
        time.sleep(_POLL_S)
    return None


def _mark(conn: psycopg.Connection) -> str | None:
    """The mark that the server bears, if it is sure that ALTER SYSTEM put it there."""
    row = conn.execute(query("undo_mark")).fetchone()
    assert row is not None
    mark, doubtful = row
    return None if doubtful else mark


def _settle_mark(conninfo: ConnInfo, identity: Identity) -> list[str]:
    """Put back what only the server itself tells of: the run was another user's, or elsewhere."""
    deadline = time.monotonic() + _GUARDIAN_S_MAX
    while True:
        with connect(without_time_limits(conninfo)) as conn:
            mark = _mark(conn)
            names = [row[1] for row in conn.execute(query("undo_sessions"))]
        if mark is None:
            return []
        record = UndoRecord.from_mark(mark, identity, conninfo)
        if not any(name.endswith(f" {record.run}") for name in names):
            break
        if time.monotonic() > deadline:
            raise in_use()
        time.sleep(_POLL_S)
    try:
        return _put_back_marked(conninfo, record)
    except PgdynoError as problem:
        raise _pending(record, problem, None) from None


def _put_back_marked(conninfo: ConnInfo, record: UndoRecord) -> list[str]:
    session = PersistentSession(conninfo, f"pgdyno undo {record.run}")
    try:
        if session.version >= 150000 and session.rows(query("mark_granted"))[0][0]:
            # Who may write the mark could otherwise have us set what that role may not.
            raise SetupError(
                f"roles other than superusers may set {MARK}, so it is not trusted",
                code="undo-mark",
                hint="run pgdyno server sweep where it was killed",
            )
        done = restore(session, record)
    finally:
        session.close()
    return _sentences(conninfo, done)


def _sentences(conninfo: ConnInfo, done: Restored) -> list[str]:
    where = conninfo.uri_without_password
    return [f"at {where}, after a killed pgdyno, {each}" for each in done.sentences()]


def _run_of(mark: str) -> str | None:
    import json

    try:
        return str(json.loads(mark)["run"])
    except (ValueError, TypeError, KeyError):
        return None


def _pending(record: UndoRecord, problem: PgdynoError, path: Path | None) -> SetupError:
    if problem.code == "settings-in-use":
        return SetupError(problem.message, code=problem.code, hint=problem.hint)
    also = f", then delete {path}" if path else ""
    hint = f"{problem.hint}; or " if problem.hint else ""
    return SetupError(
        f"a killed pgdyno has left {', '.join(record.settings)} changed on this server, and they"
        f" cannot be restored: {problem.message}",
        code="undo-pending",
        hint=f"{hint}as a superuser: {' '.join(manual_statements(record))}{also}",
    )
