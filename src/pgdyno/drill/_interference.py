"""Whether somebody else had a hand in how a server fared: an operator, or the kernel's OOM killer.

What such a server has lost or does not answer says nothing about the fault of a drill. A server
that ends itself does so with SIGABRT (a PANIC), or crashes with SIGSEGV and the like; the signals
here, and requests to shut down, come from elsewhere.
"""

from __future__ import annotations

import re
from signal import Signals

from pgdyno.server import Cluster

KILLING = (Signals.SIGKILL, Signals.SIGTERM, Signals.SIGINT, Signals.SIGQUIT, Signals.SIGHUP)
_ENDED = re.compile(r"LOG:  +(.+?) was terminated by signal (\d+)\b")
_ASKED = re.compile(r"LOG:  +received (?:fast|smart|immediate) shutdown request")
_QUIT = "because of unexpected SIGQUIT"


def outside_hand(cluster: Cluster, log: str) -> str:
    """What was done to the server from outside while it logged ``log``; '' if nothing was.

    Nobody of ours may have ended it meanwhile.
    """
    if asked := _ASKED.search(log):
        return f"it {asked[0].split('LOG:', 1)[1].strip()}"
    return killed(cluster, log)


def killed(cluster: Cluster, log: str) -> str:
    """As :func:`outside_hand`, but that we may have told it to shut down."""
    if cluster.ended_by in KILLING:
        return f"its postmaster was ended by {cluster.ended_by.name}"
    for found in _ENDED.finditer(log):
        if int(found[2]) in KILLING:
            return f"its {found[1]} was ended by {Signals(int(found[2])).name}"
    return "one of its processes was sent SIGQUIT" if _QUIT in log else ""
