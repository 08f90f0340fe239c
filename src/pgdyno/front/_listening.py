"""The connections that a front end has not accepted yet, from the kernel's list.

A web server that has as many connections as it accepts (maxConnections of Tomcat) leaves further
ones to the kernel, which completes them for the client: it is connected, as far as it can see, and
gets no answer. The kernel's list shows how many wait so, as the receive queue of the listening
socket (proc_net_tcp.txt in the documentation of Linux).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_LISTS = (Path("/proc/net/tcp6"), Path("/proc/net/tcp"))
_LISTENING = "0A"
_FIELDS = 5


def accept_queue(port: int) -> int | None:
    """Return how many connections to a local port wait to be accepted; None if nothing listens on
    it, or the kernel's list cannot be read."""
    waiting = [queue for path in _LISTS for at, queue in _listening(path) if at == port]
    return sum(waiting) if waiting else None


def _listening(path: Path) -> Iterator[tuple[int, int]]:
    """Yield the port and the queue of each listening socket, of which the list has all first."""
    try:
        with path.open(encoding="ascii") as rows:
            next(rows, None)
            for row in rows:
                fields = row.split(None, _FIELDS)
                if fields[3] != _LISTENING:
                    return
                yield int(fields[1].rpartition(":")[2], 16), int(fields[4].rpartition(":")[2], 16)
    except (OSError, ValueError, IndexError):
        return
