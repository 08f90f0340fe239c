"""Restoring what an undo record has: settings, except those that others have changed since, and the
user's SQL, which is undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from pgdyno.errors import SetupError
from pgdyno.escaping import visible_line
from pgdyno.server.settings._alter_system import alter_system
from pgdyno.server.settings._persistent_session import PersistentSession
from pgdyno.server.settings._undo import MARK, RecordedSql, UndoRecord
from pgdyno.server.settings._undoing_sql import undo_sql
from pgdyno.server.settings.reloading import unloaded
from pgdyno.spec.sql_text import on_one_line, relation


class RestoreResult(Struct):
    """The state of each setting after restoring, as read from the server."""

    restored: list[str] = field(default_factory=list)
    """Settings that have their former value again."""
    unchanged: list[str] = field(default_factory=list)
    """Those of ``restored`` that had their former value already."""
    kept: dict[str, str | None] = field(default_factory=dict)
    """Settings that another session has changed meanwhile, with that value."""
    unknown: list[str] = field(default_factory=list)
    """Settings that still have pgdyno's value, because the former value is not known here."""
    undone: str = ""
    """SQL of the user's, in one line, that is not in force any more; '' if there was none."""
    also_loaded: list[str] = field(default_factory=list)
    """Changes of others in the files that pgdyno's reload has applied."""

    def sentences(self) -> list[str]:
        """Return the result in sentences."""
        sentences = []
        if self.restored:
            sentences.append(f"your server's settings are restored: {', '.join(self.restored)}")
        if self.undone:
            sentences.append(f"undone on your server: {self.undone}")
        for name, value in self.kept.items():
            now = "was reset" if value is None else f"was set to {value}"
            sentences.append(f"{name} {now} by another session meanwhile; that is kept")
        if self.also_loaded:
            sentences.append(
                f"the reload also applied changes that had not been loaded before:"
                f" {', '.join(self.also_loaded)}"
            )
        return sentences


def restore_settings(
    session: PersistentSession, record: UndoRecord, names: Iterable[str]
) -> RestoreResult:
    """Restore the former values of ``names`` where pgdyno's value is in place; keep others.

    Returns when the server has reloaded its files and the values have been read again.
    """
    result = RestoreResult()
    wanted = list(names)
    for name, held in session.altered(wanted).items():
        changed = record.settings[name]
        if held == changed.before and changed.before_known:
            result.restored.append(name)
            result.unchanged.append(name)
        elif not changed.owns(held):
            result.kept[name] = held
        elif changed.before_known:
            session.alter(name, changed.before)
            result.restored.append(name)
        else:
            result.unknown.append(name)
    result.also_loaded = unloaded_by_others(session, record)
    try:
        session.reload()
    except SetupError as problem:
        raise _not_loaded(problem, result) from None
    _verify(session, record, result.restored)
    return result


def _not_loaded(problem: SetupError, result: RestoreResult) -> SetupError:
    if not result.restored:
        return problem
    return SetupError(
        f"written back by ALTER SYSTEM, but not yet loaded: {problem.message}",
        code=problem.code,
        hint=problem.hint,
    )


def unloaded_by_others(session: PersistentSession, record: UndoRecord) -> list[str]:
    """Return other settings that the next reload changes; none if the role may not see them."""
    import psycopg

    try:
        return unloaded(session.rows, ours=record.settings) if session.sees_file else []
    except psycopg.Error:
        return []  # A failure here must not prevent restoring.


def restore(
    session: PersistentSession, record: UndoRecord, write: Callable[[UndoRecord], None]
) -> RestoreResult:
    """Restore all settings, undo the SQL, and remove the mark; SetupError if that fails, or if what
    is needed is not known. ``write`` keeps the record when it has come further."""
    if record.has_other_sql:
        raise _not_known(["a change by SQL"], "the statements that undo it are", record)
    problem, undone = None, ""
    try:
        undone = _undo_sql(session, record, write)
    except SetupError as error:
        problem = error  # It does not keep the settings from being restored.
    result = RestoreResult()
    if record.settings:
        result = restore_settings(session, record, record.settings)
    result.undone = undone
    if result.unknown:
        raise _not_known(result.unknown, "the former value is", record)
    if problem is not None:
        raise problem
    if record.marked:
        session.alter(MARK, None)
        result.also_loaded += unloaded_by_others(session, record)
        session.reload()
    return result


def _undo_sql(
    session: PersistentSession, record: UndoRecord, write: Callable[[UndoRecord], None]
) -> str:
    """Undo the SQL of the record, as far as it is in force; return it in one line, '' for none."""
    if record.sql is None:
        return ""

    def note(now: RecordedSql) -> None:
        record.sql = now
        write(record)

    undo_sql(session, record.run, record.sql, note)
    return record.sql.title


def _not_known(names: Iterable[str], what: str, record: UndoRecord) -> SetupError:
    ways = "; or " + "; ".join(manual_statements(record)) if record.settings else ""
    return SetupError(
        f"{', '.join(names)}: still as a killed pgdyno set it; {what} only in the undo record on"
        " the machine where that ran",
        code="undo-unknown",
        hint=f"run pgdyno server sweep there{ways}",
    )


def manual_statements(record: UndoRecord) -> list[str]:
    """Return the statements that restore the settings."""
    lines = []
    for name, changed in record.settings.items():
        if changed.before_known:
            lines.append(f"{on_one_line(alter_system(name, changed.before))};")
        else:
            lines.append(f"ALTER SYSTEM SET {relation(name)} = '…';")
    if record.marked:
        lines.append(f"{alter_system(MARK, None)};")
    return [*lines, "SELECT pg_reload_conf();"] if lines else []


def manually(record: UndoRecord) -> str:
    """Return how a user restores everything without pgdyno."""
    ways = []
    if record.sql is not None and record.sql.state != "undone":
        undo = " ".join(f"{on_one_line(each.strip()).rstrip(';')};" for each in record.sql.undo)
        ways.append(f"in the database {visible_line(record.sql.database)}: {undo}")
    if statements := manual_statements(record):
        ways.append(f"as a superuser of that server: {' '.join(statements)}")
    return " and ".join(ways)


def ways_to_restore(record: UndoRecord, conninfo: str = "CONNINFO") -> str:
    """Return how a user restores everything.

    A hint of an error has no ``conninfo``: it is withheld if it repeats a URI that was typed.
    """
    return f"run pgdyno server sweep {conninfo}; or {manually(record)}"


def _verify(session: PersistentSession, record: UndoRecord, names: list[str]) -> None:
    """Read the restored values again; SetupError if another session changed one meanwhile."""
    for name, held in session.altered(names).items():
        changed = record.settings[name]
        # A value in force may be shown in another spelling than it was written.
        if held != changed.before and (session.sees_file or changed.owns(held)):
            raise SetupError(
                f"{name} is {held} after it was restored: another session is changing it",
                code="settings-contested",
            )
