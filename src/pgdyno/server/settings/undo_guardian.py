"""Puts a server's settings back when pgdyno is killed: a process beside it, with its own session.

Run by ``undo_guard.py`` with ``python -P -m``, in a session of its own,
out of reach of the terminal's Ctrl-C and of what kills pgdyno's process group. pgdyno tells it by
lines of JSON on standard input how to reach the server (the password stays in memory), and what it
is about to change, before it does. It answers each line.

Standard input ends with pgdyno. If pgdyno has not said before that all is put back, the guardian
ends what pgdyno had under way on the server, and puts back what is still ours. While the server is
away it tries again for 10 minutes; then the undo record stays for the next pgdyno to find. It holds
the record's lock as long as it lives.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pgdyno.errors import PgdynoError
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.settings._persistent_session import ElsewhereError, PersistentSession
from pgdyno.server.settings._restoring import restore
from pgdyno.server.settings._undo import UndoFile, UndoRecord

RETRY_S_MAX = 600.0
_PAUSE_S = 1.0
_LOOK_S = 1.0


def main() -> int:
    """Serve one pgdyno to its end."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    orders = _orders(os.getppid())
    first = next(orders, None)
    if first is None:
        return 0
    conninfo = ConnInfo(**first["conninfo"])
    try:
        session = PersistentSession(conninfo, f"pgdyno guardian {first['run']}", patience_s=5.0)
    except PgdynoError as error:
        _answer(error.message)
        return 1
    _answer("ready")
    record = None
    for order in orders:
        if order.get("done"):
            return 0
        # The record has no password; the session has one.
        record = UndoRecord.from_json(order["record"])
        _answer("ready")
    if record is not None:
        _restore_with_retries(session, record, UndoFile(Path(first["path"]), first["lock"]))
    return 0


def _orders(parent: int) -> Iterator[dict[str, Any]]:
    """What pgdyno says, line by line, until it is gone; some child of its may hold the pipe."""
    rest = b""
    while True:
        readable, _, _ = select.select([0], [], [], _LOOK_S)
        if not readable:
            if os.getppid() != parent:
                return
            continue
        if not (chunk := os.read(0, 65536)):
            return
        *lines, rest = (rest + chunk).split(b"\n")
        yield from map(json.loads, lines)


def _restore_with_retries(session: PersistentSession, record: UndoRecord, file: UndoFile) -> None:
    deadline = time.monotonic() + RETRY_S_MAX
    while True:
        try:
            session.end_others(f"pgdyno undo {record.run}")
            done = restore(session, record)
        except ElsewhereError:
            return
        except Exception as error:
            if time.monotonic() > deadline or _is_permanent(error):
                _tell(f"settings are not restored: {error}")
                return
        else:
            file.remove()
            _tell("pgdyno was killed; " + "; ".join(done.sentences()))
            return
        time.sleep(_PAUSE_S)


def _is_permanent(error: Exception) -> bool:
    """True if another try will not help."""
    return isinstance(error, PgdynoError) and error.code in ("no-permission", "undo-unknown")


def _answer(text: str) -> None:
    os.write(1, f"{' '.join(text.split())}\n".encode())


def _tell(text: str) -> None:
    """To a terminal or a file; a pipe that somebody reads to its end would be held open."""
    with suppress(OSError):
        os.write(2, f"{text}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
