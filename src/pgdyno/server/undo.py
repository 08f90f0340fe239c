"""What to put back on a server that is not ours: a file written before the first change.

The file names the server (never a password) and, for every setting that pgdyno touches, what ALTER
SYSTEM held before: a value, or null for "nothing, so RESET". It is on the disk before the server is
changed, and goes only when everything is back. A lock beside it is held by the run that uses it, so
a file whose lock is free belongs to a run that crashed.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pgdyno.errors import SetupError
from pgdyno.server.conninfo import ConnInfo
from pgdyno.server.locks import try_lock
from pgdyno.server.places import undo_dir

_FORMAT = 1


def undo_path_for(conninfo: ConnInfo) -> Path:
    """The undo file of the server that ``conninfo`` reaches: one, whatever the database."""
    digest = hashlib.sha256(f"{conninfo.host}\0{conninfo.port}".encode()).hexdigest()
    return undo_dir() / f"{digest[:16]}.json"


@dataclass
class UndoLog:
    """The former values, by setting, and the file that keeps them (``path`` None: memory only)."""

    conninfo: ConnInfo
    path: Path | None
    system_identifier: str
    """Tells whether host and port still lead to the same cluster."""
    before: dict[str, str | None] = field(default_factory=dict)
    _lock: int = -1

    @classmethod
    def open(cls, conninfo: ConnInfo, path: Path | None, system_identifier: str) -> Self:
        """The log to write to; SetupError when another run is changing this server's settings.

        What a crashed run of the same server has left in the file is taken over, so that the
        oldest values win.
        """
        if path is None:
            return cls(conninfo, None, system_identifier)
        lock = try_lock(_lock_path(path))
        if lock is None:
            raise SetupError(
                "another pgdyno is changing the settings of this server",
                code="settings-in-use",
                hint="wait until it ends",
            )
        log = cls(conninfo, path, system_identifier, _lock=lock)
        if path.exists():
            fields = read_undo(path)
            if fields["system_identifier"] == system_identifier:
                log.before = dict(fields["before"])
        return log

    def remember(self, before: dict[str, str | None]) -> None:
        """Add former values of settings not yet known, and have them on the disk."""
        new = {name: value for name, value in before.items() if name not in self.before}
        if new:
            self.before.update(new)
            self._write()

    def forget(self, names: set[str]) -> None:
        """These are back at their former values."""
        for name in names:
            self.before.pop(name, None)
        self._write()

    def close(self) -> None:
        """Give the lock up; the file stays if something is still to be restored."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _write(self) -> None:
        if self.path is None:
            return
        if not self.before:
            self.path.unlink(missing_ok=True)
            return
        fields = {
            "format": _FORMAT,
            "conninfo": {
                "host": self.conninfo.host,
                "port": self.conninfo.port,
                "user": self.conninfo.user,
                "database": self.conninfo.database,
                "options": _harmless(self.conninfo),
            },
            "system_identifier": self.system_identifier,
            "before": self.before,
        }
        _write_durably(self.path, json.dumps(fields, indent=1))


def read_undo(path: Path) -> dict[str, Any]:
    """The content of an undo file; SetupError when it is damaged."""
    try:
        fields = json.loads(path.read_text())
        if fields["format"] == _FORMAT and {"conninfo", "system_identifier", "before"} <= {*fields}:
            return dict(fields)
    except (OSError, ValueError, TypeError, KeyError):
        pass
    raise SetupError(
        f"the undo file {path} cannot be read",
        code="undo-file",
        hint="look at what ALTER SYSTEM has left on that server, then delete the file",
    )


def conninfo_of(fields: dict[str, Any]) -> ConnInfo:
    """The server of an undo file; the password comes from PGPASSWORD or the password file."""
    return ConnInfo(password=None, **fields["conninfo"])


def try_lock_undo(path: Path) -> int | None:
    """The lock of an undo file that no living run uses."""
    return try_lock(_lock_path(path))


def _lock_path(path: Path) -> Path:
    return path.with_suffix(".lock")


def _harmless(conninfo: ConnInfo) -> dict[str, str]:
    return {name: value for name, value in conninfo.options.items() if "password" not in name}


def _write_durably(path: Path, text: str) -> None:
    """Replace the file so that after a crash either the old or the new one is there, whole."""
    partial = path.with_suffix(".part")
    with partial.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
