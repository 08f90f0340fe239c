"""The settings guardian: a process that restores a server when pgdyno is killed: its settings, and
what SQL of the user's has changed.

``_keeping.py`` runs it (``watchdogs.Guardian``). pgdyno sends it lines of JSON: first the
connection values (the password stays in memory), then each change before it is made. The guardian
answers each line.

Standard input closes when pgdyno ends. Unless pgdyno has reported before that everything is
restored, the guardian ends pgdyno's sessions on the server and restores what is still changed.
If that fails, for whatever reason, it retries for 10 minutes; then the undo record remains for the
next pgdyno. Between two tries it releases the record's lock, so that another pgdyno can restore.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path

from pgdyno.errors import PgdynoError
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.settings._persistent_session import PersistentSession
from pgdyno.server.settings._restoring import restore, ways_to_restore
from pgdyno.server.settings._undo import UndoFile, UndoRecord
from pgdyno.watchdogs import READY, ignore_stop_signals, lines_until_end, say

RETRY_S_MAX = 600.0
_PAUSE_S = 1.0


def main() -> int:
    """Serve one pgdyno until it ends."""
    ignore_stop_signals()
    orders = map(json.loads, lines_until_end(os.getppid()))
    first = next(orders, None)
    if first is None:
        return 0
    conninfo = ConnInfo(**first["conninfo"])
    try:
        session = PersistentSession(conninfo, f"pgdyno guardian {first['run']}", patience_s=5.0)
    except PgdynoError as error:
        say(error.message)
        return 1
    say(READY)
    record, reported = None, None
    for order in orders:
        if order.get("done"):
            return 0
        if "reported" in order:
            reported = str(order["reported"])
            continue
        # The record has no password; the session has one.
        record = UndoRecord.from_json(order["record"])
        say(READY)
    if record is not None:
        _Restoring(record, reported).run(session, UndoFile(Path(first["path"]), first["lock"]))
    return 0


class _Restoring:
    """The attempts to restore one record, and the reports about them."""

    def __init__(self, record: UndoRecord, reported: str | None) -> None:
        """Use for ``reported`` the reason that pgdyno has reported; ``None`` if it was killed."""
        self._record = record
        self._killed = "pgdyno was killed; " if reported is None else ""
        self._reported = reported
        self._names = ", ".join(record.names)

    def run(self, session: PersistentSession, file: UndoFile) -> None:
        """Try for ``RETRY_S_MAX`` seconds."""
        deadline = time.monotonic() + RETRY_S_MAX
        while True:
            try:
                session.end_others(f"pgdyno undo {self._record.run}")
                result = restore(session, self._record, file.write)
            except Exception as error:
                reason = str(error).strip().partition("\n")[0]
            else:
                file.remove()
                _report(self._killed + "; ".join(result.sentences()))
                return
            if time.monotonic() > deadline:
                minutes = f"{RETRY_S_MAX / 60:.0f} minutes"
                _report(f"{self._names}: not restored within {minutes}: {reason}\n{self._hint()}")
                return
            self._report_retry(reason)
            if not file.lend(_PAUSE_S):
                return

    def _report_retry(self, reason: str) -> None:
        """Report each new reason, and with the first one how to restore manually."""
        if reason == self._reported:
            return
        sentence = f"{self._names}: not yet restored: {reason}"
        if self._reported is None:
            retrying = f"retrying for {RETRY_S_MAX / 60:.0f} minutes"
            sentence = f"{self._killed}{sentence}; {retrying}\n{self._hint()}"
        _report(sentence)
        self._reported = reason

    def _hint(self) -> str:
        uri = shlex.quote(self._record.conninfo.uri_without_password)
        return f"hint: {ways_to_restore(self._record, uri)}"


def _report(text: str) -> None:
    """Write to standard error, which is a terminal, a file or /dev/null."""
    with suppress(OSError):
        os.write(2, f"{text}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
