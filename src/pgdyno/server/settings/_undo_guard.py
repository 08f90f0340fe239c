"""The guardian of a server's settings (undo_guardian.py) as pgdyno starts and talks to it."""

from __future__ import annotations

import json
import os
import select
import stat
import subprocess
import sys
from contextlib import suppress
from typing import Any

from pgdyno.errors import SetupError
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.settings._undo import UndoFile, UndoRecord

_ANSWER_S_MAX = 30.0
_left: list[subprocess.Popen[bytes]] = []
"""Guardians that may outlive pgdyno: nobody waits for them."""


class UndoGuard:
    """One guardian, from its start to its end."""

    def __init__(self, conninfo: ConnInfo, record: UndoRecord, file: UndoFile) -> None:
        """Start it and wait until it has its session. Raises SetupError when it cannot."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pgdyno.server.settings.undo_guardian"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=2 if _lasts(2) else subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
            pass_fds=(file.lock,),
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
            self._say(first)
        except BaseException:
            self.leave()
            raise

    def tell(self, record: UndoRecord) -> None:
        """What is about to be changed. Raises SetupError when nobody is there to know."""
        self._say({"record": record.to_json()})

    def dismiss(self) -> None:
        """All is back: it has nothing to do, and ends."""
        with suppress(OSError):
            self._write({"done": True})
        self.leave()
        self._process.wait()

    def leave(self) -> None:
        """Let go: if there is something to put back, it goes on with that by itself."""
        _left.append(self._process)
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                end.close()

    def _say(self, order: dict[str, Any]) -> None:
        said = ""
        with suppress(OSError):
            self._write(order)
            said = self._answer()
        if said != "ready":
            raise SetupError(
                "the process that restores settings if pgdyno is killed"
                f" {f'failed: {said}' if said else 'has ended'}",
                code="no-guardian",
                hint="no setting is changed without it",
            )

    def _write(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")

    def _answer(self) -> str:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], _ANSWER_S_MAX)
        return self._process.stdout.readline().decode().strip() if readable else "no answer"


def _lasts(descriptor: int) -> bool:
    """True if it is a terminal or a file: a pipe would be held open for whoever reads it."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return os.isatty(descriptor) or stat.S_ISREG(mode)
