"""Names of wait events that are the same for every supported server, and shapes of statements.

PostgreSQL renamed wait events between versions, mostly in capitals only: version 17 writes WalSync
for WALSync and BuffileRead for BufFileRead; BufferIO moved from LWLock to IPC in version 14 and
became BufferIo in 17; in 19, BufferPin and LWLock:BufferContent became the type Buffer. The run
file has the names that the server reports; compare them with ``canonical`` and the sets here.
Source: "Wait Events" in chapter 27.2 of the manuals of versions 14 to 19, and pg_wait_events.
"""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=1024)
def canonical(wait_event_type: str, wait_event: str) -> str:
    """Return ``type:event`` in lower case, the same for every server version.

    '' for a backend that does not wait.
    """
    return f"{wait_event_type}:{wait_event}".lower() if wait_event_type else ""


def _set(wait_event_type: str, *events: str) -> frozenset[str]:
    return frozenset(canonical(wait_event_type, event) for event in events)


WAL_FLUSH = _set("IO", "WALSync") | _set("LWLock", "WALWrite")
"""Waiting for WAL to be durable: the flush itself, or the queue for it."""
WAL_SYNC = _set("IO", "WALSync", "WALInitSync")
"""Within a sync of a WAL file."""
WAL_WRITE = _set("IO", "WALWrite", "WALInitWrite")
"""Writing WAL to the kernel, including new segments."""
SYNC_REPLICATION = _set("IPC", "SyncRep") | _set("LWLock", "SyncRep")
"""Waiting for a standby to confirm a commit."""
CHECKPOINT_SYNC = _set("IO", "DataFileSync", "SLRUSync")
"""Wait events of the checkpointer's sync phase."""
CHECKPOINT_PACE = _set("Timeout", "CheckpointWriteDelay")
"""The checkpointer sleeping between writes to spread them."""
SYNC_QUEUE = _set("Timeout", "RegisterSyncRequest") | _set("LWLock", "CheckpointerComm")
"""Waiting to send a sync request to the checkpointer: its queue is full."""
BUFFER_IO = _set("IPC", "BufferIO")
"""Waiting for a page that another backend is reading or writing."""
DATA_WRITE = _set("IO", "DataFileWrite", "DataFileFlush", "DataFileSync")
"""Writing pages of tables and indexes to the kernel, and to disk: a client that does so had to make
room in shared buffers."""
SNAPSHOT = _set("LWLock", "ProcArray") | _set("IPC", "ProcArrayGroupUpdate")
"""Taking snapshots and ending transactions, all in one list of processes."""
TRANSACTION_STATUS = _set("LWLock", "XactSLRU", "XactBuffer", "XidGen") | (
    _set("IPC", "XactGroupUpdate")
)
"""Transaction numbers and their status."""
SUBTRANSACTIONS = _set("LWLock", "SubtransSLRU", "SubtransBuffer")
"""Parents of subtransactions, looked up where a snapshot has no room for them."""
MULTIXACT = _set(
    "LWLock", "MultiXactGen", "MultiXactOffsetSLRU", "MultiXactOffsetBuffer", "MultiXactMemberSLRU",
    "MultiXactMemberBuffer",
)  # fmt: skip
"""Rows locked by several transactions at once, as foreign keys lock them."""
WAL_INSERT = _set("LWLock", "WALInsert", "WALBufMapping")
"""Copying a record into the WAL buffers: their locks, and room in them."""
BUFFER_MAPPING = _set("LWLock", "BufferMapping")
"""Finding or replacing a page in shared buffers."""
PAGE_PIN = _set("BufferPin", "BufferPin") | _set("Buffer", "BufferCleanup")
"""Waiting until nobody else uses a page."""
PAGE = (
    _set("LWLock", "BufferContent")
    | _set("Buffer", "BufferShared", "BufferShareExclusive", "BufferExclusive")
    | PAGE_PIN
)
"""Access to one page in shared buffers that others use."""
LOCK_MANAGER = _set("LWLock", "LockManager", "LockFastPath")
"""The table of heavyweight locks itself."""
ADVISORY_LOCK = _set("Lock", "advisory")
RELATION_LOCK = _set("Lock", "relation")
EXTEND = _set("Lock", "extend") | _set("IO", "DataFileExtend")
"""Adding pages to a table or an index."""
TEMPORARY_FILES = _set("IO", "BufFileRead", "BufFileWrite", "BufFileTruncate")
"""Sorts and hashes that do not fit in work_mem."""
VACUUM_DELAY = _set("Timeout", "VacuumDelay")
"""A vacuum asleep for its cost delay."""
SLEEP = _set("Timeout", "PgSleep")
"""pg_sleep in a script."""
COMMIT_DELAY = _set("Timeout", "CommitDelay")
"""The delay of commit_delay, a wait event of its own from version 19 on."""
WAIT_FOR_LSN = _set("IPC", "WaitForWalReplay", "WaitForWalFlush", "WaitForWalWrite")
"""WAIT FOR LSN: until the WAL has come so far."""
COPY_FILES = _set("IO", "CopyFromRead", "CopyToWrite")
"""COPY from or to a file, a pipe or a program."""
PARALLEL = _set(
    "IPC", "AppendReady", "BgworkerShutdown", "BgworkerStartup", "BtreePage", "ExecuteGather",
    "HashBatchAllocate", "HashBatchElect", "HashBatchLoad", "HashBuildAllocate", "HashBuildElect",
    "HashBuildHashInner", "HashBuildHashOuter", "HashGrowBatchesDecide", "HashGrowBatchesElect",
    "HashGrowBatchesFinish", "HashGrowBatchesReallocate", "HashGrowBatchesRepartition",
    "HashGrowBucketsElect", "HashGrowBucketsReallocate", "HashGrowBucketsReinsert",
    "MessageQueueInternal", "MessageQueuePutMessage", "MessageQueueReceive", "MessageQueueSend",
    "ParallelBitmapScan", "ParallelCreateIndexScan", "ParallelFinish",
)  # fmt: skip
"""A parallel query: its processes wait for each other, their tuples, or their start and end."""
ROW_LOCK = _set("Lock", "transactionid", "tuple")
"""Waiting for another transaction to release a row."""
ROW_LOCKS = ("transactionid", "tuple")
"""Types of lock, as in pg_locks, that a session waits for which wants to change a row."""
SPIN_DELAY = _set("Timeout", "SpinDelay")
"""Contending for a spinlock."""

NOT_SHAPE = re.compile(
    r"""
      (?P<name> " (?: [^"] | "" )* (?: " | \Z ) )                   # quoted name: kept
    | (?P<comment> -- [^\n]* | /\* .*? (?: \*/ | \Z ) )
    | \$(?P<tag>\w*)\$ .*? (?: \$(?P=tag)\$ | \Z )                 # dollar-quoted text
    | [eEbBxXnN]? ' (?: [^'\\] | \\. | '' )* (?: ' | \\? \Z )     # text, possibly truncated
    | (?<! [\w$.] ) [0-9]+ (?: \.[0-9]* )? (?: [eE][+-]?[0-9]+ )? (?! \w )   # number, not $1
    """,
    re.VERBOSE | re.DOTALL,
)
SPACE = re.compile(r"\s+")
_PAGE = re.compile(r"/\* (/[a-z]*) \*/")
"""The comment at the beginning of a statement of pgdyno's web front end: the page that sends it."""


@lru_cache(maxsize=4096)
def statement_shape(text: str) -> str:
    """Return a statement with ``?`` for each literal, no comments and single spaces.

    Statements that differ only in their values have the same shape, which has no values. Parameters
    of prepared statements (``$1``) are kept. A text truncated within a literal ends there.
    """
    return SPACE.sub(" ", NOT_SHAPE.sub(_without_value, text)).strip()


def page_of(text: str) -> str:
    """Return the page of a web front end that sent a statement, such as ``/order``; '' if the
    statement does not begin with it."""
    found = _PAGE.match(text)
    return found[1] if found else ""


def shape_with_page(text: str) -> str:
    """Return the shape of a statement, after the comment with its page if it begins with one."""
    page = page_of(text)
    return f"/* {page} */ {statement_shape(text)}" if page else statement_shape(text)


def _without_value(part: re.Match[str]) -> str:
    if part["name"]:
        return part[0]
    return " " if part["comment"] else "?"
