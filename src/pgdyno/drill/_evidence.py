"""Evidence of a fault (processes, the server's log), and of outside interference with a server: by
an operator, or by the kernel's OOM killer.

A fault is proved by the state of the machine afterwards, not by the order that was given.

The losses of a server that was interfered with prove nothing about the fault of a drill. A server
that ends itself does so with SIGABRT (a PANIC), or crashes with SIGSEGV and the like; the signals
here, and requests to shut down, come from outside.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from signal import Signals

from msgspec import Struct

from pgdyno.drill._recovery import log_since, log_size
from pgdyno.errors import TrustError
from pgdyno.server import Cluster
from pgdyno.server.local.leftovers import server_processes

KILLING = (Signals.SIGKILL, Signals.SIGTERM, Signals.SIGINT, Signals.SIGQUIT, Signals.SIGHUP)
_QUIT = "because of unexpected SIGQUIT"


class ProcessState(Struct, frozen=True):
    """A process of a server."""

    pid: int
    state: str
    """As in proc(5): R running, S sleeping, D waiting for a disk, T stopped, …"""


def processes(cluster: Cluster) -> list[ProcessState]:
    """Return the server's present processes, without zombies."""
    found = []
    for pid in server_processes(cluster.data_dir):
        state = _state(pid)
        if state not in "XZ":
            found.append(ProcessState(pid, state))
    return found


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def remaining_processes(cluster: Cluster, pids: Collection[int]) -> list[int]:
    """Return those of ``pids`` that are still processes of the server."""
    return [process.pid for process in processes(cluster) if process.pid in pids]


def ended_in_words(before: Collection[int], left: Collection[int]) -> str:
    """Return in words how many of the processes ``before`` a fault are ``left`` after it."""
    if left:
        return f"{len(left)} of {len(before)} server processes still run"
    return f"all {len(before)} server processes are gone"


class NewLog:
    """The part of a server's log that is written from now on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._start = log_size(cluster)

    def text(self) -> str:
        """Return all of it."""
        return log_since(self._cluster, self._start)

    def line_with(self, words: str) -> str:
        """Return the message of the first line that contains ``words``; '' if none does."""
        for line in self.text().splitlines():
            if words in line:
                return line.partition(":  ")[2] or line
        return ""


_ENDED = re.compile(r"LOG:  +(.+?) was terminated by signal (\d+)\b")
_REQUESTED = re.compile(r"LOG:  +received (?:fast|smart|immediate) shutdown request")


def interference(cluster: Cluster, log: str) -> str:
    """Return the outside interference with the server while it logged ``log``; '' if none.

    pgdyno itself must not have stopped the server meanwhile.
    """
    if requested := _REQUESTED.search(log):
        return f"it {requested[0].split('LOG:', 1)[1].strip()}"
    return outside_kill(cluster, log)


def outside_kill(cluster: Cluster, log: str) -> str:
    """As :func:`interference`, but without shutdown requests, which may be pgdyno's own."""
    if cluster.ended_by in KILLING:
        return f"its postmaster was ended by {cluster.ended_by.name}"
    for found in _ENDED.finditer(log):
        if int(found[2]) in KILLING:
            return f"its {found[1]} was ended by {Signals(int(found[2])).name}"
    return "one of its processes received SIGQUIT" if _QUIT in log else ""


def disturbed_from_outside(disturbed: str, scope: str = "this drill") -> TrustError:
    """Return the error for ``scope``, a drill or some of its cuts, after outside interference."""
    return TrustError(
        f"nothing is known of {scope}, because the server was interfered with from outside:"
        f" {disturbed}",
        code="server-disturbed",
        hint="the kernel's log shows processes that were killed for lack of memory",
    )
