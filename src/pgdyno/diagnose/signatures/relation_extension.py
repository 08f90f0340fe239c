"""Relation extension: sessions queue to add pages to the same table or index.

One session at a time extends a relation. From version 16 it adds several pages at once when others
wait, and the wait is rarer.

Trigger and threshold: at least ``CONTENDED_SHARE`` of the client sessions in a transaction wait for
Lock:extend or IO:DataFileExtend, see ``_contention``.
"""

from __future__ import annotations

from pgdyno.diagnose._contention import contention
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions that wait for new pages."""
    return contention(
        s,
        "extend",
        "new pages of a table or index",
        advice=(
            "insert into several partitions, so that each is extended by itself, or use fewer and"
            " larger batches; before version 16 each session also extends by one page at a time"
        ),
    )


SIGNATURE = Signature(
    id="relation-extension",
    false_positives="a disk that is slow to allocate space for growing files",
    examine=examine,
)
