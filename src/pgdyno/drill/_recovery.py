"""The start of a server after a fault: success, duration, and log messages.

All of it is read from the control file and from the server's log.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.errors import PgdynoError, RunError
from pgdyno.server import Cluster
from pgdyno.server.local.controldata import ControlData
from pgdyno.server.local.guarded import log_text

if TYPE_CHECKING:
    import psycopg

_POLL_S = 0.02
_RECOVERY_SECONDS_MAX = 600.0
_ENTRY = re.compile(r"\b(PANIC|FATAL|ERROR|WARNING|LOG|DETAIL|HINT|CONTEXT|STATEMENT): +(.*)")
_OF_CLIENTS = re.compile(r"the database system is |terminating (connection|background worker)")
"""Messages to clients that connect too early; they are not the reason of a refusal."""
_REFUSALS_MAX = 5
"""Number of refusals, none of them as too early, after which a running server is given up."""
_REFUSALS = ("start-failed", "server-ended", "server-killed", "server-refuses")
"""Codes of errors of the server itself; others are of the machine, such as a port in use."""


class Recovery(Struct, frozen=True):
    """The start of a server after a fault, successful or not."""

    control_before: ControlData
    """Control data before the start."""
    refused: bool
    redo: bool
    """True if WAL was replayed."""
    seconds: float
    """From the start to the end of recovery, with connections accepted; or to the refusal."""
    refusal: str
    """Decisive log messages of a server that refused; '' otherwise."""
    log: str
    """The server's log since the start."""
    ran: bool = True
    """True if the server ran; one that ran and refused accepted no connection."""

    @property
    def crashed(self) -> bool:
        """True if the cluster had not been shut down."""
        return not self.control_before.shut_down

    @property
    def sentence(self) -> str:
        """Recovery of a server that came up, in one sentence."""
        how = "with redo" if self.redo else "nothing to redo"
        return f"came up in {self.seconds:.2f} s, {how}"


def recover(cluster: Cluster) -> Recovery:
    """Start a cluster as the fault left it, and wait for the end of recovery.

    Only recovery itself writes to the database. Raises RunError when recovery does not end, and
    SetupError when the machine, not the server, prevented the start.
    """
    before = cluster.control_data()
    log_start = log_size(cluster)
    began = time.monotonic()
    try:
        cluster.start()
        _wait_for_end(cluster)
    except PgdynoError as problem:
        if problem.code not in _REFUSALS:
            raise
        if cluster.running:
            cluster.stop("immediate")
        seconds = time.monotonic() - began
        log = log_since(cluster, log_start)
        refusal = decisive_messages(log) or problem.message
        ran = problem.code == "server-refuses"
        return Recovery(before, True, "redo starts at" in log, seconds, refusal, log, ran)
    seconds = time.monotonic() - began
    log = log_since(cluster, log_start)
    return Recovery(before, False, "redo starts at" in log, seconds, "", log)


def _wait_for_end(cluster: Cluster) -> None:
    """Wait until the server accepts connections and is not in recovery.

    A standby accepts connections before. A server that cannot read its catalogs runs and accepts
    none.
    """
    import psycopg

    from pgdyno.server.connecting.control import open_control

    deadline, refusals = time.monotonic() + _RECOVERY_SECONDS_MAX, 0
    while time.monotonic() < deadline:
        try:
            with open_control(cluster.conninfo.kwargs()) as conn:
                if not in_recovery(conn):
                    return
        except psycopg.Error as error:
            if not cluster.running:
                raise RunError(str(error).strip(), code="server-ended") from None
            refusals += _OF_CLIENTS.search(str(error)) is None
            if refusals == _REFUSALS_MAX:
                raise RunError(str(error).strip(), code="server-refuses") from None
        time.sleep(_POLL_S)
    raise RunError(
        f"the server was still in recovery after {_RECOVERY_SECONDS_MAX:.0f} s",
        code="recovery-endless",
        hint="promote a standby before it is verified",
    )


def in_recovery(conn: psycopg.Connection) -> bool:
    """True if the server still replays WAL."""
    row = conn.execute("select pg_is_in_recovery()").fetchone()
    return row is None or bool(row[0])


def log_size(cluster: Cluster) -> int:
    """Return the present size of the server's log."""
    return cluster.log_path.stat().st_size if cluster.log_path.exists() else 0


def log_since(cluster: Cluster, start: int) -> str:
    """Return the server's log from position ``start``."""
    return log_text(cluster.log_path, start)


def decisive_messages(log: str) -> str:
    """Return the message with which a server gave up, with its context; '' if it did not.

    Includes the last error before it, because another process may have logged the cause.
    """
    found: list[str] = []
    error = ""
    for line in log.splitlines():
        entry = _ENTRY.search(line)
        if entry is None:
            if found and line.startswith("\t"):
                found[-1] += " " + line.strip()
            continue
        level, words = entry.groups()
        if found and level in ("DETAIL", "CONTEXT", "HINT"):
            found.append(f"{level}: {words}")
        elif found:
            break
        elif level == "ERROR":
            error = f"ERROR: {words}"
        elif level in ("PANIC", "FATAL") and not _OF_CLIENTS.search(words):
            found.append(f"{level}: {words}")
    return "; ".join([*found, *([f"after {error}"] if found and error else [])])


def first_problems(log: str, *, count_max: int = 3) -> str:
    """Return the first different warnings and errors of a server that came up."""
    entries = (match.groups() for match in map(_ENTRY.search, log.splitlines()) if match)
    found = dict.fromkeys(
        f"{level}: {words}"
        for level, words in entries
        if level in ("PANIC", "FATAL", "ERROR", "WARNING") and not _OF_CLIENTS.search(words)
    )
    return "; ".join(list(found)[:count_max])
