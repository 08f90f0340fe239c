"""Failovers that Patroni manages: pgdyno breaks something, and looks on.

The moments are read from the servers' logs, to the millisecond: when Patroni ordered the promotion,
when the new primary accepted writes, when an old primary that was shut down had ended. That Patroni
holds the new primary for the leader is its own word, by its REST interface.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from pgdyno.drill._evidence import NewLog
from pgdyno.errors import RunError
from pgdyno.server.replication.patroni import Patroni
from pgdyno.server.replication.standby import Standby
from pgdyno.spec.standby import StandbySpec, manager_seconds

PROMOTING = "received promote request"
PROMOTED = "database system is ready to accept connections"
ENDED = "database system is shut down"
ENDING = "shutdown request"
"""Part of the message with which a server ends its sessions. A primary that is cut off from its
standbys goes on waiting for them without a session."""
_MORE_S = 60.0
"""Time for a promotion, in addition to that in which a leader's lock expires."""
_TIME = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) UTC ", re.MULTILINE)


def takeover_s_max(spec: StandbySpec) -> float:
    """Return the time in which a standby has taken over: the lock expires after ``ttl``."""
    ttl, loop_wait = (manager_seconds(spec.manager_settings, name) for name in ("ttl", "loop_wait"))
    return ttl + 2 * loop_wait + _MORE_S


def new_primary(manager: Patroni, standbys: Sequence[Standby]) -> Standby | None:
    """Return the standby that Patroni has made the primary, if there is one."""
    made = (each for each in standbys if manager.node_of(each.cluster).is_primary)
    return next(made, None)


def no_takeover(manager: Patroni, spec: StandbySpec) -> RunError:
    """Return the error for a cluster that has remained without a primary."""
    said = "; ".join(f"{node.name}: {node.last_words}" for node in manager.nodes if node.running)
    return RunError(
        f"Patroni promoted no standby within {takeover_s_max(spec):.0f} s: {said}",
        code="no-takeover",
    )


def logged_ns(log: NewLog, *words: str) -> int:
    """Return when the server logged the last of these messages, each after the one before, in
    monotonic ns; 0 if it did not."""
    found, at = 0, 0
    text = log.text()
    for each in words:
        at = text.find(each, at)
        if at < 0:
            return 0
        stamp = _TIME.match(text[text.rfind("\n", 0, at) + 1 :])
        if stamp is None:
            return 0
        when = datetime.strptime(stamp[1], "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
        found = round(when.timestamp() * 1000) * 1_000_000
        at += len(each)
    return found - time.time_ns() + time.monotonic_ns()
