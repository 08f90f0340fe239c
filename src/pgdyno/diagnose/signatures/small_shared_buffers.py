"""shared_buffers too small: pages are replaced and read again.

Trigger: sessions wait for at least ``WAITING_SHARE`` of the response time for pages, the data do
not fit in shared_buffers, and these are below PostgreSQL's default or are filled from the kernel's
cache (see ``_reads``, which has the thresholds and their sources).
"""

from __future__ import annotations

from pgdyno.diagnose._reads import (
    WAITING_SHARE,
    larger_buffers,
    read_evidence,
    reads,
    waiting_parts,
)
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import figure, percent, size
from pgdyno.spec.units import format_size


def examine(s: Situation) -> Found | Cleared:
    """Compare shared_buffers with the data, where sessions wait for pages."""
    found = reads(s)
    evidence = read_evidence(s, found)
    share = s.budget.share(*waiting_parts(s))
    if found is None or share < WAITING_SHARE:
        return Cleared(f"{percent(share)} of the response time is spent on reads", evidence)
    if found.reason != "small":
        return Cleared("a read takes as long as its device needs", evidence)
    proposals = larger_buffers(s, found)
    return Found(
        sentence=(
            f"shared_buffers of {format_size(found.buffers_bytes)} are too small for"
            f" {size(found.data_bytes)} of tables and indexes: {figure(found.per_s)} pages are read"
            f" per second, {figure(found.each_ms)} ms each"
        ),
        parts=waiting_parts(s),
        liftable=s.loop.ratio(data=0.0).lifted,
        confidence=0.8,
        evidence=evidence,
        proposals=proposals,
        advice="" if proposals else "larger shared_buffers, as far as the memory allows",
    )


SIGNATURE = Signature(
    id="small-shared-buffers",
    false_positives=(
        "a cold start: pages that are read once and then stay in memory; sequential scans, which"
        " use a small part of shared_buffers however large these are"
    ),
    examine=examine,
)
