"""Classes of what a client backend does: each sampled session falls into exactly one.

The names of wait events of all server versions, and the sets that mean the same, are the probes'.
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

# The delay of commit_delay became a wait event of its own in version 19.
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
    """Return the class of a client backend in ``state``; None outside a transaction."""
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
