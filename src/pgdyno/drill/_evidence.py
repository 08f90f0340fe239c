"""Evidence of a fault: processes, the control file, the server's log.

A fault is proved by the state of the machine afterwards, not by the order that was given.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from pgdyno.drill._recovery import log_since, log_size
from pgdyno.server import Cluster
from pgdyno.server.local.leftovers import server_processes


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
