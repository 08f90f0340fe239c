"""Contention for a page: sessions wait for access to one page in shared buffers.

Sessions that insert ascending keys all write to the last leaf page of the index, and the page of
the sequence that gives the keys; sessions that update the same few small tables meet in their
pages.

Trigger and threshold: at least ``CONTENDED_SHARE`` of the client sessions in a transaction wait for
a page or its pin (LWLock:BufferContent and BufferPin, from version 19 on the type Buffer), see
``_contention``. Which page it is, no view tells; the statements that wait name the table.
"""

from __future__ import annotations

import re

from pgdyno.diagnose._contention import contention
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation

_INSERT = re.compile(r"\s*(?:with\b.*)?insert\s+into\s+(?P<table>[\w.\"]+)", re.IGNORECASE)
_SEQUENCE = re.compile(r"\bnextval\b", re.IGNORECASE)


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions that wait for a page."""
    statement = next(iter(s.statements_waiting("page")), "")
    what, advice = _page(statement)
    return contention(s, "page", what, advice=advice)


def _page(statement: str) -> tuple[str, str]:
    """Return what the statement waits for, and advice."""
    insert = _INSERT.match(statement)
    if insert:
        return (
            f"a page that all inserts into {insert['table']} write: the last of an index with"
            " ascending keys, or that of a row which they refer to",
            "use keys that do not ascend (a random UUID, a hash of the number first), partition the"
            " index by hash, give each session a range of the sequence (CACHE), or use fewer"
            " sessions; no setting changes it",
        )
    if _SEQUENCE.search(statement):
        return (
            "the page of a sequence",
            "give each session a range of the sequence (ALTER SEQUENCE … CACHE); no setting"
            " changes it",
        )
    return (
        "a page that others use",
        "spread the rows that are changed most over more pages (a lower fillfactor, partitions), or"
        " use fewer sessions; no setting changes it",
    )


SIGNATURE = Signature(
    id="page-contention",
    false_positives=(
        "sessions that wait for a page while another session, which holds it, waits for a core or"
        " for the disk"
    ),
    examine=examine,
)
