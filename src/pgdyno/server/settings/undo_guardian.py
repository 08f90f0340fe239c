"""The settings guardian: a process that restores a server's settings when pgdyno is killed.

``_undo_guard.py`` runs it with ``python -P -m`` in its own process session, unaffected by Ctrl-C in
the terminal and by signals to pgdyno's process group. pgdyno sends it lines of JSON on standard
input: first the connection values (the password stays in memory), then each change before it is
made. The guardian answers each line.

Standard input closes when pgdyno ends. Unless pgdyno has reported before that everything is
restored, the guardian ends pgdyno's sessions on the server and restores what is still changed.
While the server is away it retries for 10 minutes; then the undo record remains for the next
pgdyno. The guardian holds the record's lock until it ends.
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
    """Serve one pgdyno until it ends."""
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
    """Yield pgdyno's lines until it has ended, even if a child of it keeps the pipe open."""
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
            result = restore(session, record)
        except ElsewhereError:
            return
        except Exception as error:
            if time.monotonic() > deadline or _is_permanent(error):
                _report(f"settings are not restored: {error}")
                return
        else:
            file.remove()
            _report("pgdyno was killed; " + "; ".join(result.sentences()))
            return
        time.sleep(_PAUSE_S)


def _is_permanent(error: Exception) -> bool:
    """True if a retry cannot succeed."""
    return isinstance(error, PgdynoError) and error.code in ("no-permission", "undo-unknown")


def _answer(text: str) -> None:
    os.write(1, f"{' '.join(text.split())}\n".encode())


def _report(text: str) -> None:
    """Write to standard error, which is a terminal, a file or /dev/null."""
    with suppress(OSError):
        os.write(2, f"{text}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
