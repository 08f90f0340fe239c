"""The undo record: what to put back on a server that is not ours, written before the first change.

It says which server it is (never a password), and for every setting that pgdyno touches what ALTER
SYSTEM held before (a value, or null for nothing) and which values pgdyno has put there. So a value
that somebody else has set meanwhile is told from ours.

There are two copies. The file below pgdyno's state directory is on the disk before the server is
changed, and goes only when everything is back. A lock beside it is held by the pgdyno that uses it
and by its guardian: a record whose lock is free belongs to a run that was killed. The mark is the
parameter ``pgdyno.undo`` in the server's own postgresql.auto.conf: every pgdyno that connects sees
it, whoever runs it and wherever. It needs a right that not every role has, so it may be missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgdyno.errors import SetupError
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.connecting.identity import Identity
from pgdyno.server.directories import undo_dir
from pgdyno.server.locks import try_lock
from pgdyno.server.settings.setting_values import unquoted_list

_FORMAT = 2
MARK = "pgdyno.undo"
"""The parameter that marks a server whose settings pgdyno has changed."""


@dataclass
class ChangedSetting:
    """One setting that pgdyno has changed, or is about to."""

    before: str | None
    """What ALTER SYSTEM held; ``None`` for nothing."""
    ours: set[str] = field(default_factory=set)
    """Values that pgdyno has put there."""
    before_known: bool = True
    """False where only a mark was found, which does not hold texts: they may be secrets."""

    def owns(self, held: str | None) -> bool:
        """True if what ALTER SYSTEM holds now was put there by pgdyno."""
        if held is None:
            return False
        return any(unquoted_list(held) == unquoted_list(each) for each in self.ours)


@dataclass
class UndoRecord:
    """What one run of pgdyno has changed on one server."""

    run: str
    server: Identity | None
    """``None`` until the server has been asked."""
    conninfo: ConnInfo
    settings: dict[str, ChangedSetting] = field(default_factory=dict)
    marked: bool = False
    """True if the server bears the mark."""
    pid: int | None = None
    """The pgdyno that changes them."""

    @classmethod
    def new(cls, conninfo: ConnInfo) -> UndoRecord:
        """An empty one, for a run that is about to change something."""
        return cls(secrets.token_hex(4), None, conninfo, pid=os.getpid())

    def add(self, before: Mapping[str, str | None], wanted: Mapping[str, str]) -> bool:
        """Note what is about to be set; whether that is anything new."""
        new = False
        for name, value in wanted.items():
            changed = self.settings.setdefault(name, ChangedSetting(before[name]))
            new |= value not in changed.ours
            changed.ours.add(value)
        return new

    def to_json(self) -> dict[str, Any]:
        """For the file and for the guardian; without a password."""
        return {
            "format": _FORMAT,
            "run": self.run,
            "server": self.server.to_json() if self.server else None,
            "conninfo": {
                "host": self.conninfo.host,
                "hostaddr": self.conninfo.hostaddr,
                "port": self.conninfo.port,
                "user": self.conninfo.user,
                "database": self.conninfo.database,
                "options": _harmless(self.conninfo),
            },
            "marked": self.marked,
            "pid": self.pid,
            "settings": {
                name: {"before": changed.before, "ours": sorted(changed.ours)}
                for name, changed in self.settings.items()
            },
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> UndoRecord:
        """From the file. Raises KeyError, TypeError or ValueError for anything else."""
        if fields["format"] != _FORMAT:
            raise ValueError
        return cls(
            run=str(fields["run"]),
            server=Identity.from_json(fields["server"]),
            conninfo=ConnInfo(password=None, **fields["conninfo"]),
            settings={
                str(name): ChangedSetting(each["before"], set(each["ours"]))
                for name, each in fields["settings"].items()
            },
            marked=bool(fields["marked"]),
            pid=fields["pid"],
        )

    def mark(self, texts: Iterable[str]) -> str:
        """What the server is marked with; of the settings in ``texts`` no value is shown."""
        hidden = {*texts}
        shown = {
            name: _marked_text(changed) if name in hidden else [changed.before, *changed.ours]
            for name, changed in self.settings.items()
        }
        return json.dumps({"run": self.run, "settings": shown})

    @classmethod
    def from_mark(cls, mark: str, server: Identity, conninfo: ConnInfo) -> UndoRecord:
        """From a mark found on a server. Raises SetupError for one that nobody of ours wrote."""
        try:
            fields = json.loads(mark)
            settings = {
                str(name): _changed_from_mark(values) for name, values in fields["settings"].items()
            }
            return cls(str(fields["run"]), server, conninfo, settings, marked=True)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError):
            raise SetupError(
                f"the server's parameter {MARK} cannot be read: {mark[:80]}",
                code="undo-mark",
                hint=f"check what ALTER SYSTEM has set there, then ALTER SYSTEM RESET {MARK}",
            ) from None


def _marked_text(changed: ChangedSetting) -> dict[str, Any]:
    digests = [_digest(value) for value in changed.ours]
    return {"nothing_before": changed.before is None, "ours": digests}


def _changed_from_mark(values: Any) -> ChangedSetting:
    if isinstance(values, list):
        return ChangedSetting(values[0], set(values[1:]))
    digests = frozenset(values["ours"])
    return _ChangedText(None, set(), bool(values["nothing_before"]), digests)


@dataclass
class _ChangedText(ChangedSetting):
    """A text, of whose values only digests are known."""

    digests: frozenset[str] = frozenset()

    def owns(self, held: str | None) -> bool:
        return held is not None and _digest(held) in self.digests


def _digest(value: str) -> str:
    return hashlib.sha256(unquoted_list(value).encode()).hexdigest()[:16]


class UndoFile:
    """The file of a record, and the lock that tells that somebody sees to it."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.lock = lock
        """Descriptor; a guardian inherits it, so that the lock is held as long as either lives."""

    @classmethod
    def of(cls, record: UndoRecord) -> UndoFile:
        """The file for a new record, which nobody else knows of; nothing is written yet."""
        assert record.server is not None
        path = undo_dir() / f"{record.server.system_identifier}-{record.run}.json"
        file = cls.try_take(path)
        assert file is not None
        return file

    @classmethod
    def try_take(cls, path: Path) -> UndoFile | None:
        """The file of a run that was killed; ``None`` when somebody sees to it."""
        lock = try_lock(path.with_suffix(".lock"))
        return None if lock is None else cls(path, lock)

    def write(self, record: UndoRecord) -> None:
        """Have the record on the disk. Raises SetupError when that cannot be."""
        try:
            _write_durably(self.path, json.dumps(record.to_json(), indent=1))
        except OSError as error:
            raise _not_writable(self.path, error) from None

    def remove(self) -> None:
        """Everything is back. A record that cannot be removed tells of nothing that is still ours,
        and is found so the next time."""
        for suffix in (".json", ".part", ".lock"):
            with suppress(OSError):
                self.path.with_suffix(suffix).unlink()

    def close(self) -> None:
        """Give the lock up; the file stays if it was not removed."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1
        if not self.path.exists():
            with suppress(OSError):
                self.path.with_suffix(".lock").unlink()


def undo_files() -> Iterator[Path]:
    """The files of all records, of living runs and of killed ones."""
    return iter(sorted(undo_dir().glob("*.json")))


def read_undo(path: Path) -> UndoRecord:
    """The record in a file; SetupError when it is damaged."""
    try:
        return UndoRecord.from_json(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise SetupError(
            f"the undo record {path} cannot be read",
            code="undo-file",
            hint="check what ALTER SYSTEM has set on that server, then delete the file",
        ) from None


def _harmless(conninfo: ConnInfo) -> dict[str, str]:
    return {name: value for name, value in conninfo.options.items() if "password" not in name}


def _not_writable(path: Path, error: OSError) -> SetupError:
    return SetupError(
        f"the undo record {path} cannot be written: {error.strerror}",
        code="undo-file",
        hint="no setting is changed without it; set PGDYNO_HOME to another directory",
    )


def _write_durably(path: Path, text: str) -> None:
    """Replace the file so that after a crash either the old or the new one is there, whole."""
    partial = path.with_suffix(".part")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
