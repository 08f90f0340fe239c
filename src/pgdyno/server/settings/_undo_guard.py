"""The client side of a settings guardian (undo_guardian.py): starting it and sending it records."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from contextlib import suppress

from pgdyno.errors import SetupError
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.settings._undo import UndoFile, UndoRecord
from pgdyno.watchdogs import READY, Guardian

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
