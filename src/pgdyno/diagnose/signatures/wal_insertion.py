"""WAL insertion: sessions wait to copy their records into the WAL buffers.

Eight locks, fixed when PostgreSQL is built, guard the copying (LWLock:WALInsert). Where the buffers
are full, sessions also wait for old pages to be written (LWLock:WALBufMapping); only that changes
with wal_buffers.

Trigger and threshold: at least ``CONTENDED_SHARE`` of the client sessions in a transaction wait for
these locks, see ``_contention``.
"""

from __future__ import annotations

from pgdyno.diagnose._contention import contention
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.signatures.commit_flush import larger_wal_buffers


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions that wait to insert WAL."""
    wal = s.wal_if_recorded
    evidence = []
    if wal is not None:
        evidence.append(s.evidence("WAL written", wal.bytes / s.seconds, "bytes/s"))
        if wal.buffers_full is not None:
            name = "times that WAL buffers were full"
            evidence.append(s.evidence(name, wal.buffers_full, "count"))
    return contention(
        s,
        "wal insert",
        "room in the WAL buffers or the locks on them",
        evidence=evidence,
        proposals=larger_wal_buffers(s),
        advice=(
            "write less WAL: fewer indexes, fewer and larger transactions, COPY instead of single"
            " inserts; or use fewer sessions"
        ),
    )


SIGNATURE = Signature(
    id="wal-insertion",
    false_positives="a commit flush that is slow, behind which the buffers fill up",
    examine=examine,
)
