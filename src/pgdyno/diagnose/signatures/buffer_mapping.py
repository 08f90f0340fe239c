"""Buffer mapping: sessions wait for the table that says which page is in which buffer.

A page that is read takes a buffer from another, which changes two of the table's 128 parts. So it
is contended where pages are replaced much: the data is larger than shared_buffers, though the
kernel's cache may have it.

Trigger and threshold: at least ``CONTENDED_SHARE`` of the client sessions in a transaction wait for
LWLock:BufferMapping, see ``_contention``.
"""

from __future__ import annotations

from pgdyno.diagnose._contention import contention
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions that wait for the table of buffers."""
    database = {
        name: s.run.delta("metric_database", name, s.slice_ids)
        for name in ("blks_read", "blks_hit")
    }
    read, hit = database["blks_read"], database["blks_hit"]
    evidence = []
    if read is not None:
        evidence.append(s.evidence("pages read into buffers", read / s.seconds, "1/s"))
    if read is not None and hit is not None and read + hit > 0:
        evidence.append(s.evidence("of all pages used", read / (read + hit), "share"))
    return contention(
        s,
        "buffer mapping",
        "the table of buffers",
        evidence=evidence,
        advice="keep the working set in shared_buffers, or let fewer sessions read at once",
    )


SIGNATURE = Signature(
    id="buffer-mapping",
    false_positives="a few large scans that replace all buffers for a moment",
    examine=examine,
)
