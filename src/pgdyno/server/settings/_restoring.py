"""Putting back what an undo record tells of, as far as it is still ours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pgdyno.errors import SetupError
from pgdyno.server.settings._persistent_session import PersistentSession
from pgdyno.server.settings._statements import alter_system
from pgdyno.server.settings._undo import MARK, UndoRecord
from pgdyno.server.settings._unloaded import unloaded


@dataclass
class Restored:
    """How each setting was left, as it was read afterwards."""

    back: list[str] = field(default_factory=list)
    """As they were before pgdyno."""
    theirs: dict[str, str | None] = field(default_factory=dict)
    """What somebody else has set meanwhile, and was left so."""
    unknown: list[str] = field(default_factory=list)
    """Still ours, for nobody here knows what was there before."""
    loaded: list[str] = field(default_factory=list)
    """What others had written to the files, which our reload has put in force."""

    def sentences(self) -> list[str]:
        """What there is to tell of it."""
        told = []
        if self.back:
            told.append(f"your server's settings are restored: {', '.join(self.back)}")
        for name, value in self.theirs.items():
            now = "was reset" if value is None else f"was set to {value}"
            told.append(f"{name} {now} by another session meanwhile, and is kept so")
        if self.loaded:
            told.append(
                f"the reload also applied changes that had not been loaded before:"
                f" {', '.join(self.loaded)}"
            )
        return told


def put_back(session: PersistentSession, record: UndoRecord, names: Iterable[str]) -> Restored:
    """Give these settings the value from before, where the value now is ours; others are left.

    Returns when the server has reread its files and they read as they should.
    """
    done = Restored()
    wanted = list(names)
    done.loaded = unloaded_by_others(session, record)
    for name, held in session.altered(wanted).items():
        changed = record.settings[name]
        if held == changed.before and changed.before_known:
            done.back.append(name)
        elif not changed.owns(held):
            done.theirs[name] = held
        elif changed.before_known:
            session.alter(name, changed.before)
            done.back.append(name)
        else:
            done.unknown.append(name)
    session.reload()
    _verify(session, record, done.back)
    return done


def unloaded_by_others(session: PersistentSession, record: UndoRecord) -> list[str]:
    """What the next reload changes besides; nothing where that cannot be seen."""
    import psycopg

    try:
        return unloaded(session.rows, ours=record.settings) if session.sees_file else []
    except psycopg.Error:
        return []  # It must not keep anything from being put back.


def restore(session: PersistentSession, record: UndoRecord) -> Restored:
    """Put everything back, and take the mark away unless something is left to be done."""
    done = put_back(session, record, record.settings)
    if done.unknown:
        raise SetupError(
            f"{', '.join(done.unknown)}: still as a killed pgdyno set it; the value before is only"
            " in the undo record on the machine where that ran",
            code="undo-unknown",
            hint="run pgdyno server sweep there; or " + "; ".join(manual_statements(record)),
        )
    if record.marked:
        session.alter(MARK, None)
        session.reload()
    return done


def manual_statements(record: UndoRecord) -> list[str]:
    """The statements that put everything back."""
    lines = []
    for name, changed in record.settings.items():
        if changed.before_known:
            lines.append(f"{alter_system(name, changed.before)};")
        else:
            lines.append(f"ALTER SYSTEM SET {name} = '…';")
    if record.marked:
        lines.append(f"{alter_system(MARK, None)};")
    return [*lines, "SELECT pg_reload_conf();"]


def _verify(session: PersistentSession, record: UndoRecord, names: list[str]) -> None:
    """Read again what was put back. One that differs was changed while it was put back."""
    for name, held in session.altered(names).items():
        changed = record.settings[name]
        # What is in force may be shown in other words than it was written in.
        if held != changed.before and (session.sees_file or changed.owns(held)):
            raise SetupError(
                f"{name} is {held} after it was restored: another session is changing it",
                code="settings-contested",
            )
