"""Names of wait events that mean the same on every supported server, and of statements.

PostgreSQL renamed wait events between versions, mostly in capitals only: version 17 writes WalSync
for WALSync and BuffileRead for BufFileRead; BufferIO moved from LWLock to IPC in version 14 and
became BufferIo in 17. The run file keeps the names as the server gives them; whoever compares them
does so through ``canonical`` and the sets here.
Source: "Wait Events" in chapter 27.2 of the manuals of versions 14 to 18, and pg_wait_events.
"""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=1024)
def canonical(wait_event_type: str, wait_event: str) -> str:
    """One spelling, ``type:event`` in small letters, of a wait event of any server version.

    '' for a backend that does not wait.
    """
    return f"{wait_event_type}:{wait_event}".lower() if wait_event_type else ""


def _set(wait_event_type: str, *events: str) -> frozenset[str]:
    return frozenset(canonical(wait_event_type, event) for event in events)


WAL_FLUSH = _set("IO", "WALSync") | _set("LWLock", "WALWrite")
"""Waiting for WAL to be durable: the flush itself, or the queue behind the one who flushes."""
WAL_SYNC = _set("IO", "WALSync", "WALInitSync")
"""Within a sync of a WAL file."""
WAL_WRITE = _set("IO", "WALWrite", "WALInitWrite")
"""Handing WAL to the kernel, new segments included."""
WAL_INSERT = _set("LWLock", "WALInsert")
"""Waiting for one of the few locks under which records are copied into the WAL buffers."""
WAL_BUFFERS = _set("LWLock", "WALBufMapping")
"""Waiting for room in the WAL buffers."""
SYNC_REPLICATION = _set("IPC", "SyncRep") | _set("LWLock", "SyncRep")
"""Waiting for a standby to confirm a commit."""
DATA_READ = _set("IO", "DataFileRead", "DataFilePrefetch", "AioIoCompletion")
"""Reading table or index pages from files."""
DATA_WRITE = _set("IO", "DataFileWrite", "DataFileExtend", "DataFileFlush")
"""Handing table or index pages to the kernel."""
DATA_SYNC = _set("IO", "DataFileSync", "DataFileImmediateSync")
"""Syncing table or index files."""
CHECKPOINT_SYNC = _set("IO", "DataFileSync", "SLRUSync")
"""What the checkpointer waits for in its sync phase."""
CHECKPOINT_PACE = _set("Timeout", "CheckpointWriteDelay")
"""The checkpointer sleeping between writes to spread them."""
SYNC_QUEUE = _set("Timeout", "RegisterSyncRequest") | _set("LWLock", "CheckpointerComm")
"""Waiting to hand a sync request to the checkpointer: its queue is full."""
TEMP_FILES = _set("IO", "BufFileRead", "BufFileWrite", "BufFileTruncate")
"""Sorts and hashes that spill to files."""
BUFFER_CONTENT = _set("LWLock", "BufferContent") | _set("BufferPin", "BufferPin")
"""Waiting for one page in memory that others are changing or pin."""
BUFFER_MAPPING = _set("LWLock", "BufferMapping")
"""Waiting for the table of what page is in which buffer."""
BUFFER_IO = _set("IPC", "BufferIO")
"""Waiting for a page that another backend is reading or writing."""
SNAPSHOT = _set("LWLock", "ProcArray") | _set("IPC", "ProcArrayGroupUpdate")
"""Taking snapshots and ending transactions, all in one list of processes."""
TRANSACTION_STATUS = _set("LWLock", "XactSLRU", "XactBuffer", "SubtransSLRU", "SubtransBuffer") | (
    _set("IPC", "XactGroupUpdate") | _set("LWLock", "XidGen")
)
"""Transaction numbers and their status, subtransactions included."""
MULTIXACT = _set(
    "LWLock",
    *("MultiXactGen", "MultiXactOffsetSLRU", "MultiXactMemberSLRU"),
    *("MultiXactOffsetBuffer", "MultiXactMemberBuffer"),
) | _set("IPC", "MultixactCreation")
"""Rows locked by several transactions at a time."""
LOCK_MANAGER = _set("LWLock", "LockManager", "LockFastPath")
"""The table of heavyweight locks itself."""
ROW_LOCK = _set("Lock", "transactionid", "tuple")
"""Waiting for another transaction to let go of a row."""
RELATION_LOCK = _set("Lock", "relation", "object")
"""Waiting for a lock on a whole table, index or other object."""
EXTEND_LOCK = _set("Lock", "extend")
"""Waiting for the right to add pages to a table or index."""
CLIENT_READ = _set("Client", "ClientRead")
"""Waiting for the client to say something."""
CLIENT_WRITE = _set("Client", "ClientWrite")
"""Waiting for the client to take an answer."""
VACUUM_DELAY = _set("Timeout", "VacuumDelay")
"""Vacuum sleeping to keep within its cost limit."""
SPIN_DELAY = _set("Timeout", "SpinDelay")
"""Contending for a spinlock."""

NOT_SHAPE = re.compile(
    r"""
      (?P<name> " (?: [^"] | "" )* (?: " | \Z ) )                   # quoted name: stays
    | (?P<comment> -- [^\n]* | /\* .*? (?: \*/ | \Z ) )
    | \$(?P<tag>\w*)\$ .*? (?: \$(?P=tag)\$ | \Z )                 # dollar-quoted text
    | [eEbBxXnN]? ' (?: [^'\\] | \\. | '' )* (?: ' | \\? \Z )     # text, perhaps cut short
    | (?<! [\w$.] ) [0-9]+ (?: \.[0-9]* )? (?: [eE][+-]?[0-9]+ )? (?! \w )   # number, not $1
    """,
    re.VERBOSE | re.DOTALL,
)
SPACE = re.compile(r"\s+")


@lru_cache(maxsize=4096)
def statement_shape(text: str) -> str:
    """A statement with ``?`` for each literal, no comments and single spaces.

    Statements that differ in their values only have one shape, and it tells no value. Parameters
    of prepared statements (``$1``) stay. A text cut short within a literal is cut there.
    """
    return SPACE.sub(" ", NOT_SHAPE.sub(_without_value, text)).strip()


def _without_value(part: re.Match[str]) -> str:
    if part["name"]:
        return part[0]
    return " " if part["comment"] else "?"
