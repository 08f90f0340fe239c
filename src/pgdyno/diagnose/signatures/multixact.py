"""Multixacts: rows that several transactions have locked at once, as foreign keys lock them.

Such a row points to a list of its lockers. The lists are in pg_multixact, whose caches are small
before version 17: 8 pages of offsets and 16 of members.

Trigger and threshold: at least ``CONTENDED_SHARE`` of the client sessions in a transaction wait for
these caches or their locks (LWLock:MultiXact…), see ``_contention``.
"""

from __future__ import annotations

from pgdyno.diagnose._contention import contention
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation

SIZABLE_FROM = 170000
"""First server_version_num with multixact_offset_buffers and multixact_member_buffers."""


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions that wait for pg_multixact."""
    larger = "; larger multixact_offset_buffers and multixact_member_buffers keep more in memory"
    return contention(
        s,
        "multixact",
        "the lists of those who share a row",
        advice=(
            "let fewer transactions refer to the same row at once: spread it, drop the foreign key,"
            f" or commit sooner{larger if s.server_version_num >= SIZABLE_FROM else ''}"
        ),
    )


SIGNATURE = Signature(
    id="multixact",
    false_positives="statements that lock rows FOR SHARE themselves, without foreign keys",
    examine=examine,
)
