"""Putting back what an undo record tells of, as far as it is still ours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pgdyno.errors import SetupError
from pgdyno.server.settings._kept import KeptSession
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


def put_back(kept: KeptSession, record: UndoRecord, names: Iterable[str]) -> Restored:
    """Give these settings the value from before, where the value now is ours; others are left.

    Returns when the server has reread its files and they read as they should.
    """
    done = Restored()
    wanted = list(names)
    done.loaded = not_ours(kept, record)
    for name, held in kept.altered(wanted).items():
        touched = record.settings[name]
        if held == touched.before and touched.before_known:
            done.back.append(name)
        elif not touched.owns(held):
            done.theirs[name] = held
        elif touched.before_known:
            kept.alter(name, touched.before)
            done.back.append(name)
        else:
            done.unknown.append(name)
    kept.reload()
    _verify(kept, record, done.back)
    return done


def not_ours(kept: KeptSession, record: UndoRecord) -> list[str]:
    """What the next reload changes besides; nothing where that cannot be seen."""
    import psycopg

    try:
        return unloaded(kept.rows, ours=record.settings) if kept.sees_file else []
    except psycopg.Error:
        return []  # It must not keep anything from being put back.


def restore(kept: KeptSession, record: UndoRecord) -> Restored:
    """Put everything back, and take the mark away unless something is left to be done."""
    done = put_back(kept, record, record.settings)
    if done.unknown:
        raise SetupError(
            f"{', '.join(done.unknown)}: still as a killed pgdyno set it; the value before is only"
            " in the undo record on the machine where that ran",
            code="undo-unknown",
            hint="run pgdyno server sweep there; or " + "; ".join(by_hand(record)),
        )
    if record.marked:
        kept.alter(MARK, None)
        kept.reload()
    return done


def by_hand(record: UndoRecord) -> list[str]:
    """The statements that put everything back."""
    lines = []
    for name, touched in record.settings.items():
        if touched.before_known:
            lines.append(f"{alter_system(name, touched.before)};")
        else:
            lines.append(f"ALTER SYSTEM SET {name} = '…';")
    if record.marked:
        lines.append(f"{alter_system(MARK, None)};")
    return [*lines, "SELECT pg_reload_conf();"]


def _verify(kept: KeptSession, record: UndoRecord, names: list[str]) -> None:
    """Read again what was put back. One that differs was changed while it was put back."""
    for name, held in kept.altered(names).items():
        touched = record.settings[name]
        # What is in force may be shown in other words than it was written in.
        if held != touched.before and (kept.sees_file or touched.owns(held)):
            raise SetupError(
                f"{name} is {held} after it was restored: another session is changing it",
                code="settings-contested",
            )
