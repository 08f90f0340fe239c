"""Data reads: sessions wait for a device to read pages of tables and indexes.

Trigger: sessions wait for at least ``WAITING_SHARE`` of the response time for pages
(IO:DataFileRead and the like, or another session's read of the same page), and not because
shared_buffers are too small (see ``_reads``, which has the thresholds and their sources).

Where the device may be at its limit (see ``facts.devices``), more clients at once only make each
read take longer, and fewer clients are proposed.
"""

from __future__ import annotations

from pgdyno.diagnose._fewer_clients import fewer_advice, fewer_clients
from pgdyno.diagnose._reads import (
    WAITING_SHARE,
    larger_buffers,
    read_evidence,
    reads,
    waiting_parts,
)
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.devices import Device, data_device, device_evidence
from pgdyno.numbers import figure, percent

ADVICE = "more memory, a faster disk, or fewer pages per transaction"


def examine(s: Situation) -> Found | Cleared:
    """Examine the time that sessions wait for pages, and what a read takes."""
    found = reads(s)
    device = data_device(s)
    evidence = [*read_evidence(s, found), *device_evidence(s, device)]
    share = s.budget.share(*waiting_parts(s))
    if found is None or share < WAITING_SHARE:
        return Cleared(
            f"{percent(share)} of the response time is spent waiting for pages",
            evidence,
            parts=waiting_parts(s),
        )
    if found.reason != "slow":
        return Cleared("reads are due to small shared_buffers", evidence)
    waiting = s.sessions(*waiting_parts(s))
    larger = larger_buffers(s, found)
    saturated = device is not None and device.may_be_saturated
    fewer = fewer_clients(s, waiting, _what(device)) if saturated else []
    advice = "" if larger else ADVICE
    if saturated and not fewer:
        advice = "; ".join(filter(None, (advice, fewer_advice(s, waiting))))
    return Found(
        sentence=(
            f"{percent(share)} of the response time is spent waiting for pages:"
            f" {figure(found.per_s)} are read per second, {figure(found.each_ms)} ms each"
        ),
        parts=waiting_parts(s),
        liftable=s.loop.ratio(data=0.0).lifted,
        confidence=0.8,
        evidence=evidence,
        proposals=[*larger, *fewer],
        advice=advice,
    )


def _what(device: Device | None) -> str:
    name = "the device" if device is None else device.name
    return f"{name}, if that is at its limit"


SIGNATURE = Signature(
    id="data-reads",
    false_positives=(
        "a cold start: pages that are read once and then stay in memory; a disk that other programs"
        " keep busy"
    ),
    examine=examine,
)
