"""What shows that a fault happened: processes, the control file, the server's log.

A fault is proved by what the machine says afterwards, not by the order that was given.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from pgdyno.drill._recovery import log_since, log_size
from pgdyno.server import Cluster
from pgdyno.server.local.leftovers import server_processes


@dataclass(frozen=True)
class Process:
    """One process of a server."""

    pid: int
    state: str
    """As in proc(5): R running, S sleeping, D in the disk, T stopped, …"""


def processes(cluster: Cluster) -> list[Process]:
    """The server's processes that are there now; ended ones that nobody has reaped are not."""
    found = []
    for pid in server_processes(cluster.data_dir):
        state = _state(pid)
        if state not in "XZ":
            found.append(Process(pid, state))
    return found


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def still_there(cluster: Cluster, pids: Collection[int]) -> list[int]:
    """Those of ``pids`` that are processes of the server still."""
    return [process.pid for process in processes(cluster) if process.pid in pids]


class Said:
    """What a server logs from now on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._start = log_size(cluster)

    def text(self) -> str:
        """All of it."""
        return log_since(self._cluster, self._start)

    def line_with(self, words: str) -> str:
        """The message of the first line that has ``words`` in it; '' if none has."""
        for line in self.text().splitlines():
            if words in line:
                return line.partition(":  ")[2] or line
        return ""
