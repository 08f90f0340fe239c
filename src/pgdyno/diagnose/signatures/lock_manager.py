"""Lock manager: sessions wait for the table of locks itself, not for a lock.

A session notes its first relation locks where nobody else looks (fast path): 16 of them before
version 18, as many as max_locks_per_transaction since. Statements that touch more relations, such
as those on many partitions with their indexes, take the others in the shared table, which is
divided into 16 parts.

Trigger and threshold: at least ``CONTENDED_SHARE`` of the client sessions in a transaction wait for
LWLock:LockManager or LWLock:LockFastPath, see ``_contention``.
"""

from __future__ import annotations

from pgdyno.diagnose._contention import contention
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation

SIZABLE_FROM = 180000
"""First server_version_num whose fast path grows with max_locks_per_transaction."""


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions that wait for the table of locks."""
    larger = "; raise max_locks_per_transaction above the number of relations that one touches"
    return contention(
        s,
        "lock manager",
        "the table of locks",
        advice=(
            "let statements touch fewer relations: name the partition key, so that the others are"
            " left out when it is planned; prepare statements; have fewer partitions and indexes"
            f"{larger if s.server_version_num >= SIZABLE_FROM else ''}"
        ),
    )


SIGNATURE = Signature(
    id="lock-manager",
    false_positives="many sessions that queue for the same lock, which pass through one part",
    examine=examine,
)
