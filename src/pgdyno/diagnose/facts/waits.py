"""Classes of what a client backend does: each sampled session falls into exactly one.

The names of wait events of all server versions, and the sets that mean the same, are the probes'.
"""

from __future__ import annotations

from typing import Literal, get_args

from pgdyno.probe import waits

HeavyweightWait = Literal["row", "advisory", "relation", "lock"]
SharedWait = Literal[
    "wal insert", "page", "buffer mapping", "snapshot", "subtransactions", "multixact",
    "lock manager", "shared",
]  # fmt: skip
DataWait = Literal["data", "data write", "extend", "temp", "sync queue"]
Wait = Literal[
    "flush",
    "commit delay",
    "replica",
    HeavyweightWait,
    SharedWait,
    DataWait,
    "client",
    "sleep",
    "parallel",
    "wait for LSN",
    "other",
]
WaitClass = Literal["cpu", Wait]

HEAVYWEIGHT: tuple[HeavyweightWait, ...] = get_args(HeavyweightWait)
"""Locks that last until the holder's transaction ends."""
SHARED: tuple[SharedWait, ...] = get_args(SharedWait)
"""Locks in shared memory, which more sessions make slower."""
DATA: tuple[DataWait, ...] = get_args(DataWait)
"""Files other than the WAL."""

IN_TRANSACTION = frozenset(
    {
        "active",
        "idle in transaction",
        "idle in transaction (aborted)",
        "fastpath function call",
    }
)

_CLASSES: tuple[tuple[frozenset[str], WaitClass], ...] = (
    (waits.WAL_FLUSH | waits.WAL_SYNC | waits.WAL_WRITE, "flush"),
    (waits.COMMIT_DELAY, "commit delay"),
    (waits.WAL_INSERT, "wal insert"),
    (waits.SYNC_REPLICATION, "replica"),
    (waits.ROW_LOCK, "row"),
    (waits.ADVISORY_LOCK, "advisory"),
    (waits.RELATION_LOCK, "relation"),
    (waits.EXTEND, "extend"),
    (waits.PAGE, "page"),
    (waits.BUFFER_MAPPING, "buffer mapping"),
    (waits.SUBTRANSACTIONS, "subtransactions"),
    (waits.MULTIXACT, "multixact"),
    (waits.SNAPSHOT | waits.TRANSACTION_STATUS, "snapshot"),
    (waits.LOCK_MANAGER, "lock manager"),
    (waits.SPIN_DELAY, "shared"),
    (waits.BUFFER_IO, "data"),
    (waits.DATA_WRITE, "data write"),
    (waits.TEMPORARY_FILES, "temp"),
    (waits.SYNC_QUEUE, "sync queue"),
    (waits.SLEEP, "sleep"),
    (waits.PARALLEL, "parallel"),
    (waits.WAIT_FOR_LSN, "wait for LSN"),
    (waits.COPY_FILES, "other"),
)
_BY_TYPE: dict[str, WaitClass] = {
    "lock": "lock",
    "lwlock": "shared",
    "bufferpin": "page",
    "buffer": "page",
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
