"""Classes of client backends by wait event; each sampled session belongs to exactly one class.

The names of wait events in all server versions, and the sets with the same meaning, are defined by
the probes.
"""

from __future__ import annotations

from typing import Literal

from pgdyno.probe import waits

WaitClass = Literal["cpu", "flush", "replica", "row", "lock", "shared", "data", "client", "other"]

IN_TRANSACTION = frozenset(
    {
        "active",
        "idle in transaction",
        "idle in transaction (aborted)",
        "fastpath function call",
    }
)

# Version 19 added a wait event for the delay of commit_delay.
_COMMIT_DELAY = frozenset({waits.canonical("Timeout", "CommitDelay")})

_CLASSES: tuple[tuple[frozenset[str], WaitClass], ...] = (
    (waits.WAL_FLUSH | waits.WAL_SYNC | waits.WAL_WRITE | _COMMIT_DELAY, "flush"),
    (waits.SYNC_REPLICATION, "replica"),
    (waits.ROW_LOCK, "row"),
    (waits.SNAPSHOT | waits.TRANSACTION_STATUS | waits.SPIN_DELAY, "shared"),
    (waits.BUFFER_IO | waits.SYNC_QUEUE, "data"),
)
_BY_TYPE: dict[str, WaitClass] = {
    "lock": "lock",
    "lwlock": "shared",
    "bufferpin": "shared",
    "buffer": "shared",
    "io": "data",
    "client": "client",
}


def wait_class(state: str, wait_event_type: str, wait_event: str) -> WaitClass | None:
    """Return the class of a client backend in ``state``; None if it is not in a transaction."""
    if state not in IN_TRANSACTION:
        return None
    if state.startswith("idle"):
        return "client"
    name = waits.canonical(wait_event_type, wait_event)
    if not name:
        return "cpu"
    for members, found in _CLASSES:
        if name in members:
            return found
    return _BY_TYPE.get(wait_event_type.lower(), "other")
