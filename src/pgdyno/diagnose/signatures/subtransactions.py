"""Subtransactions: sessions look up the parents of subtransactions in a small cache.

A transaction with more than 64 subtransactions that have written (savepoints, blocks with EXCEPTION
in PL/pgSQL) no longer fits in a snapshot. All others that see its rows must then look up each of
its subtransactions in pg_subtrans, whose cache has 32 pages before version 17.

Trigger and threshold: at least ``CONTENDED_SHARE`` of the client sessions in a transaction wait for
LWLock:SubtransBuffer or LWLock:SubtransSLRU, see ``_contention``.
"""

from __future__ import annotations

from pgdyno.diagnose._contention import contention
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation

SIZABLE_FROM = 170000
"""First server_version_num with subtransaction_buffers."""


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions that wait for pg_subtrans."""
    larger = "; a larger subtransaction_buffers keeps more of them in memory"
    return contention(
        s,
        "subtransactions",
        "the parents of subtransactions",
        advice=(
            "use at most 64 savepoints or EXCEPTION blocks in a transaction, and no long"
            f" transactions beside them{larger if s.server_version_num >= SIZABLE_FROM else ''}"
        ),
    )


SIGNATURE = Signature(
    id="subtransactions",
    false_positives="a standby, whose snapshots have to look up more of the subtransactions",
    examine=examine,
)
