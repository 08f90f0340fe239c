"""Starting a server after a fault: whether it comes up, how long that takes, what it says.

What is told here comes from the control file and from the server's log, and from nothing that
pgdyno did.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgdyno.errors import PgdynoError, RunError
from pgdyno.server import Cluster
from pgdyno.server.local.controldata import ControlData
from pgdyno.server.local.logtext import log_text

if TYPE_CHECKING:
    import psycopg

_POLL_S = 0.02
_RECOVERY_SECONDS_MAX = 600.0
_ENTRY = re.compile(r"\b(PANIC|FATAL|ERROR|WARNING|LOG|DETAIL|HINT|CONTEXT|STATEMENT): +(.*)")
_OF_CLIENTS = re.compile(r"the database system is |terminating (connection|background worker)")
"""What a server tells whoever comes too early: it is not why it refused."""
_REFUSALS_MAX = 5
"""A server that runs and has refused so many connections, none as too early, refuses them all."""
_REFUSALS = ("start-failed", "server-ended", "server-killed", "server-refuses")
"""Codes of errors that are the server's own; others are the machine's, as a port that is taken."""


@dataclass(frozen=True)
class Recovery:
    """How a server came up, or did not."""

    before: ControlData
    """What the control file said before the start."""
    refused: bool
    redo: bool
    """Whether WAL was replayed."""
    seconds: float
    """From the start to the end of recovery, with connections taken; or to the refusal."""
    said: str
    """The decisive words of a server that refused; '' else."""
    log: str
    """All that it logged meanwhile."""
    ran: bool = True
    """Whether it ran in the end; one that refused and ran took no connection."""

    @property
    def crashed(self) -> bool:
        """Whether the cluster had not been shut down."""
        return not self.before.shut_down

    @property
    def sentence(self) -> str:
        """The recovery of a server that came up, in one sentence."""
        how = "with redo" if self.redo else "nothing to redo"
        return f"came up in {self.seconds:.2f} s, {how}"


def recover(cluster: Cluster) -> Recovery:
    """Start a cluster as the fault left it, and wait until recovery is really over.

    Nothing is written into the database beyond what recovery writes. Raises RunError when recovery
    does not end, and SetupError when it was not the server that refused.
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
        said = decisive(log) or problem.message
        ran = problem.code == "server-refuses"
        return Recovery(before, True, "redo starts at" in log, seconds, said, log, ran)
    seconds = time.monotonic() - began
    log = log_since(cluster, log_start)
    return Recovery(before, False, "redo starts at" in log, seconds, "", log)


def _wait_for_end(cluster: Cluster) -> None:
    """A server takes connections before it has caught up if it was a standby.

    It may also run and take none, because it cannot read its catalogs.
    """
    import psycopg

    deadline, refusals = time.monotonic() + _RECOVERY_SECONDS_MAX, 0
    while time.monotonic() < deadline:
        try:
            with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as conn:
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
        hint="a standby has to be promoted before it is verified",
    )


def in_recovery(conn: psycopg.Connection) -> bool:
    """Whether the server still replays WAL."""
    row = conn.execute("select pg_is_in_recovery()").fetchone()
    return row is None or bool(row[0])


def log_size(cluster: Cluster) -> int:
    """Where the server's log ends now."""
    return cluster.log_path.stat().st_size if cluster.log_path.exists() else 0


def log_since(cluster: Cluster, start: int) -> str:
    """What the server has logged since ``start``."""
    return log_text(cluster.log_path, start)


def decisive(log: str) -> str:
    """The line for which a server gave up, with its context; '' when it did not.

    With the last error before it, for the process that gives up is not always the one that knows.
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


def complaints(log: str, *, most: int = 3) -> str:
    """What a server that came up complained of: its first few messages, each once."""
    entries = (match.groups() for match in map(_ENTRY.search, log.splitlines()) if match)
    found = dict.fromkeys(
        f"{level}: {words}"
        for level, words in entries
        if level in ("PANIC", "FATAL", "ERROR", "WARNING") and not _OF_CLIENTS.search(words)
    )
    return "; ".join(list(found)[:most])
