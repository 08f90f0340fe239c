"""Wait events of PostgreSQL 14 to 19: the only table of their names, classes and meanings.

Each sampled session falls into exactly one class. A new event of a version is a row of ``EVENTS``;
one without a row has the class of its type. The run file has the names that the server reports;
``canonical`` makes those of all versions the same.

PostgreSQL renamed wait events between versions, mostly in capitals only: version 17 writes WalSync
for WALSync and BuffileRead for BufFileRead; BufferIO moved from LWLock to IPC in version 14 and
became BufferIo in 17; in 19, BufferPin and LWLock:BufferContent became the type Buffer. Source:
"Wait Events" in chapter 27.2 of the manuals of versions 14 to 19, and pg_wait_events.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, get_args

from msgspec import Struct

HeavyweightWait = Literal["row", "advisory", "relation", "lock"]
SharedWait = Literal[
    "wal insert", "page", "buffer mapping", "snapshot", "subtransactions", "multixact",
    "lock manager", "shared",
]  # fmt: skip
DataWait = Literal["data", "data write", "extend", "temp", "sync queue"]
Wait = Literal[
    "flush", "commit delay", "replica", HeavyweightWait, SharedWait, DataWait, "client", "sleep",
    "parallel", "wait for LSN", "other",
]  # fmt: skip
WaitClass = Literal["cpu", Wait]

HEAVYWEIGHT: tuple[HeavyweightWait, ...] = get_args(HeavyweightWait)
"""Locks that last until the holder's transaction ends."""
SHARED: tuple[SharedWait, ...] = get_args(SharedWait)
"""Locks in shared memory, which more sessions make slower."""
DATA: tuple[DataWait, ...] = get_args(DataWait)
"""Files other than the WAL."""

CLASS_WORDS: Mapping[str, str] = {
    "flush": "the WAL flush",
    "commit delay": "commit delay",
    "replica": "a standby's answer",
    "row": "row locks",
    "advisory": "advisory locks",
    "relation": "relation locks",
    "lock": "locks of other objects (NOTIFY, DDL)",
    "wal insert": "WAL insertion",
    "page": "pages that others use",
    "buffer mapping": "the buffer table",
    "snapshot": "snapshots and transaction status",
    "subtransactions": "subtransactions",
    "multixact": "multixacts",
    "lock manager": "the lock table",
    "shared": "other locks in shared memory",
    "data": "data files",
    "data write": "data write",
    "extend": "extending files",
    "temp": "temporary files",
    "sync queue": "the checkpointer's queue",
    "client": "the client, within a transaction",
    "sleep": "pg_sleep",
    "parallel": "parallel workers",
    "wait for LSN": "WAIT FOR LSN",
    "other": "other waits",
}

OLDEST, NEWEST = 14, 19
"""Major versions of which the table has the events."""


class KnownWaitEvent(Struct, frozen=True):
    """An event by the names that the server reports, which are those of pg_wait_events."""

    type: str
    name: str
    wait_class: Wait
    meaning: str = ""
    """In words, shown with the name; '' where the words of the class are enough."""
    until_16: str = ""
    """The name before version 17, where it is another one."""
    first: int = OLDEST
    last: int = NEWEST
    """Major versions that have it."""


_PARALLEL = (
    *("AppendReady", "BtreePage", "ExecuteGather"),
    *("HashBatchAllocate", "HashBatchElect", "HashBatchLoad", "HashBuildAllocate"),
    *("HashBuildElect", "HashBuildHashInner", "HashBuildHashOuter", "HashGrowBatchesDecide"),
    *("HashGrowBatchesElect", "HashGrowBatchesFinish", "HashGrowBatchesRepartition"),
    *("HashGrowBucketsElect", "HashGrowBucketsReinsert", "MessageQueueInternal"),
    *("MessageQueuePutMessage", "MessageQueueReceive", "MessageQueueSend", "ParallelBitmapScan"),
    *("ParallelCreateIndexScan", "ParallelFinish"),
)
"""Processes of a parallel query wait for each other, their tuples, or their start and end."""

EVENTS = (
    # WAL to be durable: the flush itself, the queue for it, and what is written for it.
    KnownWaitEvent("IO", "WalSync", "flush", "the WAL flush", "WALSync"),
    KnownWaitEvent("LWLock", "WALWrite", "flush", "queue for the WAL flush"),
    KnownWaitEvent("IO", "WalWrite", "flush", "writing WAL to the kernel", "WALWrite"),
    KnownWaitEvent("IO", "WalInitSync", "flush", "a new WAL segment", "WALInitSync"),
    KnownWaitEvent("IO", "WalInitWrite", "flush", "a new WAL segment", "WALInitWrite"),
    KnownWaitEvent("Timeout", "CommitDelay", "commit delay", "commit_delay", first=19),
    # A standby that confirms a commit.
    KnownWaitEvent("IPC", "SyncRep", "replica", "a standby's answer"),
    KnownWaitEvent("LWLock", "SyncRep", "replica"),
    # Copying a record into the WAL buffers: their locks, and free space in them.
    KnownWaitEvent("LWLock", "WALInsert", "wal insert", "locks of the WAL buffers"),
    KnownWaitEvent("LWLock", "WALBufMapping", "wal insert", "free space in the WAL buffers"),
    # Heavyweight locks. A row's lock is that of the transaction that changed it.
    KnownWaitEvent("Lock", "transactionid", "row", "a row that another transaction changed"),
    KnownWaitEvent("Lock", "tuple", "row", "queue for a locked row"),
    KnownWaitEvent("Lock", "advisory", "advisory", "an advisory lock"),
    KnownWaitEvent("Lock", "relation", "relation", "a lock on a table"),
    KnownWaitEvent("Lock", "object", "lock"),
    # Adding pages to a table or an index.
    KnownWaitEvent("Lock", "extend", "extend", "extending a table"),
    KnownWaitEvent("IO", "DataFileExtend", "extend", "extending a table"),
    # One page in shared buffers that others use. A pin is held until a scan goes on to the next.
    KnownWaitEvent("LWLock", "BufferContent", "page", "a page in shared buffers", last=18),
    KnownWaitEvent("Buffer", "BufferShared", "page", "a page in shared buffers", first=19),
    KnownWaitEvent("Buffer", "BufferShareExclusive", "page", "a page in shared buffers", first=19),
    KnownWaitEvent("Buffer", "BufferExclusive", "page", "a page in shared buffers", first=19),
    KnownWaitEvent("BufferPin", "BufferPin", "page", "a page that others use", last=18),
    KnownWaitEvent("Buffer", "BufferCleanup", "page", "a page that others use", first=19),
    # Finding or replacing a page in shared buffers.
    KnownWaitEvent("LWLock", "BufferMapping", "buffer mapping", "the buffer table"),
    # Taking snapshots and ending transactions, in one list of processes; their numbers and status.
    KnownWaitEvent("LWLock", "ProcArray", "snapshot", "snapshots"),
    KnownWaitEvent("IPC", "ProcarrayGroupUpdate", "snapshot", "", "ProcArrayGroupUpdate"),
    KnownWaitEvent("LWLock", "XactSLRU", "snapshot"),
    KnownWaitEvent("LWLock", "XactBuffer", "snapshot"),
    KnownWaitEvent("LWLock", "XidGen", "snapshot"),
    KnownWaitEvent("IPC", "XactGroupUpdate", "snapshot"),
    # Parents of subtransactions, looked up where a snapshot has no room for them.
    KnownWaitEvent("LWLock", "SubtransSLRU", "subtransactions"),
    KnownWaitEvent("LWLock", "SubtransBuffer", "subtransactions"),
    # Rows locked by several transactions at once, as foreign keys lock them.
    KnownWaitEvent("LWLock", "MultiXactGen", "multixact"),
    KnownWaitEvent("LWLock", "MultiXactOffsetSLRU", "multixact"),
    KnownWaitEvent("LWLock", "MultiXactOffsetBuffer", "multixact"),
    KnownWaitEvent("LWLock", "MultiXactMemberSLRU", "multixact"),
    KnownWaitEvent("LWLock", "MultiXactMemberBuffer", "multixact"),
    # The table of heavyweight locks itself.
    KnownWaitEvent("LWLock", "LockManager", "lock manager", "the lock table"),
    KnownWaitEvent("LWLock", "LockFastPath", "lock manager"),
    KnownWaitEvent("Timeout", "SpinDelay", "shared", "a spinlock", first=16),
    # Pages of tables and indexes. A client that writes had to make room in shared buffers.
    KnownWaitEvent("IO", "DataFileRead", "data", "reading pages from disk"),
    KnownWaitEvent("IPC", "BufferIo", "data", "", "BufferIO"),
    KnownWaitEvent("IO", "DataFileWrite", "data write", "writing pages"),
    KnownWaitEvent("IO", "DataFileFlush", "data write"),
    KnownWaitEvent("IO", "DataFileSync", "data write", "flushing data files"),
    KnownWaitEvent("IO", "SlruSync", "data", "", "SLRUSync"),
    # Sorts and hashes that do not fit in work_mem.
    KnownWaitEvent("IO", "BuffileRead", "temp", "temporary files", "BufFileRead"),
    KnownWaitEvent("IO", "BuffileWrite", "temp", "temporary files", "BufFileWrite"),
    KnownWaitEvent("IO", "BuffileTruncate", "temp", "", "BufFileTruncate"),
    # Sending a sync request to the checkpointer, whose queue is full.
    KnownWaitEvent("Timeout", "RegisterSyncRequest", "sync queue"),
    KnownWaitEvent("LWLock", "CheckpointerComm", "sync queue"),
    # The client, and what a script asks for.
    KnownWaitEvent("Client", "ClientRead", "client", "the client"),
    KnownWaitEvent("Client", "ClientWrite", "client", "the client"),
    KnownWaitEvent("Timeout", "PgSleep", "sleep"),
    *(KnownWaitEvent("IPC", name, "parallel") for name in _PARALLEL),
    KnownWaitEvent("IPC", "BgworkerShutdown", "parallel", "", "BgWorkerShutdown"),
    KnownWaitEvent("IPC", "BgworkerStartup", "parallel", "", "BgWorkerStartup"),
    KnownWaitEvent("IPC", "HashGrowBatchesAllocate", "parallel", last=15),
    KnownWaitEvent("IPC", "HashGrowBucketsAllocate", "parallel", last=15),
    KnownWaitEvent("IPC", "HashGrowBatchesReallocate", "parallel", first=16),
    KnownWaitEvent("IPC", "HashGrowBucketsReallocate", "parallel", first=16),
    KnownWaitEvent("IPC", "WaitForWalReplay", "wait for LSN", "WAIT FOR LSN", first=19),
    KnownWaitEvent("IPC", "WaitForWalFlush", "wait for LSN", "WAIT FOR LSN", first=19),
    KnownWaitEvent("IPC", "WaitForWalWrite", "wait for LSN", "WAIT FOR LSN", first=19),
    # COPY from or to a file, a pipe or a program: of the type IO, but none of the server's files.
    KnownWaitEvent("IO", "CopyFromRead", "other", "COPY", first=19),
    KnownWaitEvent("IO", "CopyToWrite", "other", "COPY", first=19),
    # Processes that sleep so as not to disturb: vacuum, and the checkpointer between writes.
    KnownWaitEvent("Timeout", "VacuumDelay", "other", "cost-based vacuum delay"),
    KnownWaitEvent("Timeout", "CheckpointWriteDelay", "other"),
)

_BY_TYPE: Mapping[str, Wait] = {
    "lock": "lock",
    "lwlock": "shared",
    "bufferpin": "page",
    "buffer": "page",
    "io": "data",
    "client": "client",
}


@lru_cache(maxsize=1024)
def canonical(wait_event_type: str, wait_event: str) -> str:
    """Return ``type:event`` in lower case, the same for every server version.

    '' for a backend that does not wait.
    """
    return f"{wait_event_type}:{wait_event}".lower() if wait_event_type else ""


BY_NAME: Mapping[str, KnownWaitEvent] = {
    canonical(event.type, event.name): event for event in EVENTS
}
"""The events by their canonical names."""


def _set(wait_event_type: str, *events: str) -> frozenset[str]:
    names = frozenset(canonical(wait_event_type, event) for event in events)
    assert names <= BY_NAME.keys()
    return names


WAL_QUEUE = _set("LWLock", "WALWrite")
"""The queue for another session's flush."""
WAL_FLUSH = _set("IO", "WalSync") | WAL_QUEUE
"""The flush itself, or the queue for it."""
WAL_SYNC = _set("IO", "WalSync", "WalInitSync")
"""Within a sync of a WAL file."""
WAL_WRITE = _set("IO", "WalWrite", "WalInitWrite")
"""Writing WAL to the kernel, including new segments."""
CHECKPOINT_SYNC = _set("IO", "DataFileSync", "SlruSync")
"""The checkpointer's sync phase."""
CHECKPOINT_PACE = _set("Timeout", "CheckpointWriteDelay")
"""The checkpointer asleep between writes to spread them."""
VACUUM_DELAY = _set("Timeout", "VacuumDelay")
"""A vacuum asleep for its cost delay."""
LOCK_CLASSES: Mapping[str, HeavyweightWait] = {
    event.name: name
    for event in EVENTS
    for name in HEAVYWEIGHT
    if event.type == "Lock" and event.wait_class == name
}
"""Classes by type of lock, as in pg_locks; other types are of the class ``lock``."""
ROW_LOCKS = tuple(lock_type for lock_type, name in LOCK_CLASSES.items() if name == "row")
"""Types of lock that a session waits for which wants to change a row."""
ROW_LOCK = _set("Lock", *ROW_LOCKS)
"""Waiting for another transaction to release a row."""

IN_TRANSACTION = frozenset(
    {
        "active",
        "idle in transaction",
        "idle in transaction (aborted)",
        "fastpath function call",
    }
)
"""States of a session in pg_stat_activity."""


def wait_class(state: str, wait_event_type: str, wait_event: str) -> WaitClass | None:
    """Return the class of a client backend in ``state``; None outside a transaction."""
    if state not in IN_TRANSACTION:
        return None
    if state.startswith("idle"):
        return "client"
    name = canonical(wait_event_type, wait_event)
    if not name:
        return "cpu"
    event = BY_NAME.get(name)
    return event.wait_class if event else _BY_TYPE.get(wait_event_type.lower(), "other")
