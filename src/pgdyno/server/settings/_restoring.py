"""Restoring the settings in an undo record, except those that others have changed since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pgdyno.errors import SetupError
from pgdyno.server.settings._persistent_session import PersistentSession
from pgdyno.server.settings._statements import alter_system
from pgdyno.server.settings._undo import MARK, UndoRecord
from pgdyno.server.settings._unloaded import unloaded
from pgdyno.spec.sql_text import on_one_line, relation


@dataclass
class RestoreResult:
    """The state of each setting after restoring, as read from the server."""

    restored: list[str] = field(default_factory=list)
    """Settings that have their former value again."""
    unchanged: list[str] = field(default_factory=list)
    """Those of ``restored`` that had their former value already."""
    kept: dict[str, str | None] = field(default_factory=dict)
    """Settings that another session has changed meanwhile, with that value."""
    unknown: list[str] = field(default_factory=list)
    """Settings that still have pgdyno's value, because the former value is not known here."""
    also_loaded: list[str] = field(default_factory=list)
    """Changes of others in the files that pgdyno's reload has applied."""

    def sentences(self) -> list[str]:
        """Return the result in sentences."""
        sentences = []
        if self.restored:
            sentences.append(f"your server's settings are restored: {', '.join(self.restored)}")
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


def restore(session: PersistentSession, record: UndoRecord) -> RestoreResult:
    """Restore all settings and remove the mark; SetupError if a former value is not known."""
    result = restore_settings(session, record, record.settings)
    if result.unknown:
        raise SetupError(
            f"{', '.join(result.unknown)}: still as a killed pgdyno set it; the former value is"
            " only in the undo record on the machine where that ran",
            code="undo-unknown",
            hint="run pgdyno server sweep there; or " + "; ".join(manual_statements(record)),
        )
    if record.marked:
        session.alter(MARK, None)
        session.reload()
    return result


def manual_statements(record: UndoRecord) -> list[str]:
    """Return the statements that restore everything."""
    lines = []
    for name, changed in record.settings.items():
        if changed.before_known:
            lines.append(f"{on_one_line(alter_system(name, changed.before))};")
        else:
            lines.append(f"ALTER SYSTEM SET {relation(name)} = '…';")
    if record.marked:
        lines.append(f"{alter_system(MARK, None)};")
    return [*lines, "SELECT pg_reload_conf();"]


def ways_to_restore(record: UndoRecord, conninfo: str = "CONNINFO") -> str:
    """Return how a user restores everything.

    A hint of an error has no ``conninfo``: it is withheld if it repeats a URI that was typed.
    """
    return (
        f"run pgdyno server sweep {conninfo};"
        f" or as a superuser of that server: {' '.join(manual_statements(record))}"
    )


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
