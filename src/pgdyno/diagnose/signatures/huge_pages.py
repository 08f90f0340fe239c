"""Huge pages: large shared_buffers in pages of 4 kB need a page table for each session.

Trigger: shared_buffers of at least ``BUFFERS_BYTES_MIN`` without huge pages: by huge_pages_status
from version 17, before that only where huge_pages is off, since "try" does not say what became of
it.

Threshold: each session that touches all buffers has a page table of 1/512 of their size, 16 MB for
8 GB (x86-64, 8 bytes for 4 kB); with hundreds of sessions that is as much as the buffers. Nothing
is claimed of the response time: misses of the TLB are not measured.
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import size
from pgdyno.record.finding import Skip

BUFFERS_BYTES_MIN = 8 << 30
TABLE_PART = 512
_HAS_STATUS = 170000


def examine(s: Situation) -> Found | Cleared:
    """Examine shared_buffers and what its memory is made of."""
    buffers = s.settings.size_bytes("shared_buffers")
    if buffers is None:
        raise Skip("shared_buffers is not known")
    status, wanted = s.settings.text("huge_pages_status"), s.settings.text("huge_pages")
    sessions = _sessions(s)
    tables_bytes = buffers / TABLE_PART * sessions
    evidence = [
        s.evidence("shared_buffers", float(buffers), "bytes", "at least 8 GB"),
        s.evidence("huge_pages", wanted, ""),
        s.evidence("huge_pages_status", status, ""),
        s.evidence("page tables of all sessions, at most", tables_bytes, "bytes"),
    ]
    if buffers < BUFFERS_BYTES_MIN:
        return Cleared("shared_buffers are too small for huge pages to matter", evidence)
    if status == "on":
        return Cleared("shared memory is in huge pages", evidence)
    if status is None and wanted != "off":
        raise Skip("whether huge pages are in use is shown from version 17 on")
    return Found(
        sentence=(
            f"shared_buffers of {size(buffers)} are not in huge pages: the page"
            f" tables of {sessions} sessions take up to {size(tables_bytes)}"
        ),
        share=0.0,
        liftable=0.0,
        confidence=0.5,
        evidence=evidence,
        advice="reserve huge pages (vm.nr_hugepages, see shared_memory_size_in_huge_pages)",
    )


def _sessions(s: Situation) -> int:
    """Return how many sessions the load can keep busy; of the load of others, those connected."""
    if s.sessions_max:
        return s.sessions_max
    used = s.run.series("metric_connection", s.slice_ids)["used"]
    return int(max(used, default=0))


SIGNATURE = Signature(
    id="huge-pages",
    false_positives="sessions that each touch a small part of the buffers",
    examine=examine,
)
