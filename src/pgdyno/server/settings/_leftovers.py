"""Settings that killed runs have left changed, and changes by SQL: finding and restoring them.

An undo record is a leftover when its lock is free, because its run has ended. A mark on a server is
one when no session has the name of its run. Nothing is measured on a server that has leftovers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.errors import PgdynoError, SetupError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.connecting.identity import Identity, identity_of
from pgdyno.server.settings._keeping import in_use_error
from pgdyno.server.settings._persistent_session import PersistentSession, without_time_limits
from pgdyno.server.settings._restoring import RestoreResult, manually, restore
from pgdyno.server.settings._undo import MARK, UndoFile, UndoRecord, read_undo, undo_files
from pgdyno.server.sql_files import query

if TYPE_CHECKING:
    import psycopg

_GUARDIAN_S_MAX = 20.0
_POLL_S = 0.1
_QUICK_S = 2


class RecordOutcome(Struct):
    """The outcome of restoring the settings of one undo record."""

    sentences: list[str]
    failed: bool = False
    code: str = ""
    """Code of the error for which the record could not be restored; '' if it was not tried."""
    manually: str = ""
    """The way to restore everything without pgdyno; '' if that is not known."""
    path: Path | None = None
    """The record, if it was not removed."""

    @property
    def still_applies(self) -> bool:
        """False if the record has been removed since, by a run with other credentials."""
        return self.path is None or self.path.exists()


def restore_leftovers(conninfo: ConnInfo) -> list[str]:
    """Restore settings that killed runs left changed on this server; return a sentence for each.

    Uses the credentials of ``conninfo``, which connects to the server directly. Raises SetupError
    if another pgdyno is changing its settings, or if they cannot be restored.
    """
    with connect(without_time_limits(conninfo)) as conn:
        identity = identity_of(conn)
        mark = _mark(conn)
    sentences = []
    for path, record in _records_of(identity, mark):
        file = _wait_for_lock(path)
        if file is None:
            continue
        try:
            sentences += _restore_record(conninfo, record, file)
        except PgdynoError as problem:
            raise _not_restorable(record, problem, path) from None
        finally:
            file.close()
    return sentences + _restore_marked(conninfo, identity)


def check_restored(outcomes: Iterable[RecordOutcome]) -> None:
    """Raise SetupError, with every way to restore the settings, if some were not restored."""
    failed = [each for each in outcomes if each.failed]
    ways = [
        f"{each.manually} Then, or if that server no longer exists: rm {each.path}"
        for each in failed
        if each.manually
    ]
    if failed:
        first = "pgdyno server sweep CONNINFO connects in another way, or as another role"
        raise SetupError(
            f"{len(failed)} undo record{'s' if len(failed) > 1 else ''} left",
            code="undo-pending",
            hint="\n  ".join((first, *ways)),
        )


def leftover_settings(conninfo: ConnInfo) -> list[str]:
    """Return the names of the settings, and the SQL, that :func:`restore_leftovers` would
    restore."""
    with connect(without_time_limits(conninfo)) as conn:
        identity, mark = identity_of(conn), _mark(conn)
    records = [record for _, record in _records_of(identity, mark)]
    if mark is not None:
        records.append(UndoRecord.from_mark(mark, identity, conninfo))
    return sorted({name for record in records for name in record.names})


def restore_all_leftovers(*, quick: bool) -> list[RecordOutcome]:
    """Try to restore the settings of every undo record whose run has ended.

    Connects with the recorded connection values; ``quick`` shortens the connection timeout. Raises
    nothing: a failure here must not stop a run on another server.
    """
    try:
        return list(_restore_each(quick=quick))
    except (PgdynoError, OSError) as problem:
        return [RecordOutcome([str(problem)], failed=True)]


def _restore_each(*, quick: bool) -> Iterator[RecordOutcome]:
    for path in undo_files():
        try:
            file = UndoFile.try_take(path)
            if file is None:
                yield from _left_to_guardian(path)
                continue
        except PgdynoError as problem:
            yield RecordOutcome([problem.message], failed=True)
            continue
        try:
            if path.exists():
                yield _restore_from_file(path, file, quick=quick)
        finally:
            file.close()


def _left_to_guardian(path: Path) -> Iterator[RecordOutcome]:
    """Yield a record that a guardian has not yet restored after its pgdyno has ended."""
    with suppress(PgdynoError):
        record = read_undo(path)
        if not Path(f"/proc/{record.pid}").exists():
            yield _failure(path, record, "not yet restored; a guardian is still trying")


def _restore_from_file(path: Path, file: UndoFile, *, quick: bool) -> RecordOutcome:
    try:
        record = read_undo(path)
    except PgdynoError as problem:
        return RecordOutcome([f"{problem.message}: {problem.hint}"], failed=True, path=path)
    conninfo = record.conninfo
    if quick:
        options = {**conninfo.options, "connect_timeout": str(_QUICK_S)}
        conninfo = replace(conninfo, options=options)
    try:
        return RecordOutcome(_restore_record(conninfo, record, file))
    except PgdynoError as problem:
        reason = f"not yet restored after a killed pgdyno: {problem.message}"
        return _failure(path, record, reason, problem.code)


def _failure(path: Path, record: UndoRecord, reason: str, code: str = "") -> RecordOutcome:
    """Return the outcome for a record that is not restored, with statements to do it manually."""
    sentence = f"{', '.join(record.names)} at {record.conninfo.uri_without_password}: {reason}"
    by_hand = manually(record)
    return RecordOutcome([sentence], failed=True, code=code, manually=by_hand, path=path)


def _restore_record(conninfo: ConnInfo, record: UndoRecord, file: UndoFile) -> list[str]:
    """Restore in a session of ``conninfo`` and remove the record; SetupError if that fails."""
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
            assert record.server is not None
            # A copy that was made of the server while it was changed has its mark too.
            original = record.server.is_same(session.identity)
            result = restore(session, record, file.write if original else lambda _: None)
        finally:
            session.close()
    except psycopg.Error as error:
        raise SetupError(str(error).strip(), code="undo-failed") from None
    if original:
        file.remove()
    return _sentences(conninfo, result)


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
    """Return the records about this server, with their paths; unreadable ones are skipped."""
    found = []
    for path in undo_files():
        try:
            record = read_undo(path)
        except PgdynoError:
            continue
        assert record.server is not None
        is_marked = mark is not None and record.run == _run_of(mark)
        if is_marked or record.server.is_same(identity):
            found.append((path, record))
    return found


def _wait_for_lock(path: Path) -> UndoFile | None:
    """Lock a record's file; ``None`` if its run or its guardian has removed it meanwhile.

    Waits, because a guardian needs some time after a kill. Raises SetupError if the run is alive.
    """
    deadline = time.monotonic() + _GUARDIAN_S_MAX
    while path.exists():
        if (file := UndoFile.try_take(path)) is not None:
            return file
        if time.monotonic() > deadline:
            raise in_use_error()
        time.sleep(_POLL_S)
    return None


def _mark(conn: psycopg.Connection) -> str | None:
    """Return the server's mark, if only ALTER SYSTEM can have set it."""
    row = conn.execute(query("server", "undo_mark")).fetchone()
    assert row is not None
    mark, doubtful = row
    return None if doubtful else mark


def _restore_marked(conninfo: ConnInfo, identity: Identity) -> list[str]:
    """Restore from the server's mark, for a run of another user or on another machine."""
    deadline = time.monotonic() + _GUARDIAN_S_MAX
    while True:
        with connect(without_time_limits(conninfo)) as conn:
            mark = _mark(conn)
            names = [row[1] for row in conn.execute(query("server", "undo_sessions"))]
        if mark is None:
            return []
        record = UndoRecord.from_mark(mark, identity, conninfo)
        if not any(name.endswith(f" {record.run}") for name in names):
            break
        if time.monotonic() > deadline:
            raise in_use_error()
        time.sleep(_POLL_S)
    try:
        return _restore_trusted(conninfo, record)
    except PgdynoError as problem:
        raise _not_restorable(record, problem, None) from None


def _restore_trusted(conninfo: ConnInfo, record: UndoRecord) -> list[str]:
    """Restore from a mark, unless roles other than superusers may set it (SetupError)."""
    session = PersistentSession(conninfo, f"pgdyno undo {record.run}")
    try:
        if session.version >= 150000 and session.rows(query("server", "mark_granted"))[0][0]:
            # A role that may set the mark could otherwise make pgdyno change settings for it.
            raise SetupError(
                f"roles other than superusers may set {MARK}, so it is not trusted",
                code="undo-mark",
                hint="run pgdyno server sweep where it was killed",
            )
        result = restore(session, record, lambda _: None)
    finally:
        session.close()
    return _sentences(conninfo, result)


def _sentences(conninfo: ConnInfo, result: RestoreResult) -> list[str]:
    where = conninfo.uri_without_password
    return [f"at {where}, after a killed pgdyno, {each}" for each in result.sentences()]


def _run_of(mark: str) -> str | None:
    import json

    try:
        return str(json.loads(mark)["run"])
    except (ValueError, TypeError, KeyError):
        return None


def _not_restorable(record: UndoRecord, problem: PgdynoError, path: Path | None) -> SetupError:
    if problem.code == "settings-in-use":
        return SetupError(problem.message, code=problem.code, hint=problem.hint)
    also = f", then delete {path}" if path else ""
    hint = f"{problem.hint}; or " if problem.hint else ""
    return SetupError(
        f"a killed pgdyno has left {', '.join(record.names)} changed on this server, and they"
        f" cannot be restored: {problem.message}",
        code="undo-pending",
        hint=f"{hint}{manually(record)}{also}",
    )
