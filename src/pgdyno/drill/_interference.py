"""Outside interference with a server: by an operator, or by the kernel's OOM killer.

The losses of such a server prove nothing about the fault of a drill. A server that ends itself does
so with SIGABRT (a PANIC), or crashes with SIGSEGV and the like; the signals here, and requests to
shut down, come from outside.
"""

from __future__ import annotations

import re
from signal import Signals

from pgdyno.errors import TrustError
from pgdyno.server import Cluster

KILLING = (Signals.SIGKILL, Signals.SIGTERM, Signals.SIGINT, Signals.SIGQUIT, Signals.SIGHUP)
_ENDED = re.compile(r"LOG:  +(.+?) was terminated by signal (\d+)\b")
_REQUESTED = re.compile(r"LOG:  +received (?:fast|smart|immediate) shutdown request")
_QUIT = "because of unexpected SIGQUIT"


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
