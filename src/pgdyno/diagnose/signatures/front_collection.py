"""Garbage collection: the application's virtual machine stops all requests to collect garbage.

Trigger: collections take at least ``TIME_SHARE`` of the time, by the virtual machine's own count.
Everything within the application stands still meanwhile, whatever a request waits for.

Threshold: 10 %; 5 % is what Oracle's tuning guide of HotSpot calls high for throughput (its goal
with GCTimeRatio is 1 %); calibrated by injection, a heap of 24 MB and one of 256 MB.
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import percent

TIME_SHARE = 0.1
ADVICE = (
    "give the virtual machine more memory (-Xmx) if the machine has it, or let the application make"
    " fewer objects: profile its allocations (Java Flight Recorder)"
)


def examine(s: Situation) -> Found | Cleared:
    """Compare the time of collections with all of the time."""
    load = s.front_load
    evidence = [
        s.evidence("time of garbage collection / time", load.collecting, "share",
                   f"at least {percent(TIME_SHARE)}"),
        s.evidence("heap in use / heap", load.heap_share, "share"),
        s.evidence("collection / response time", s.budget.share("collection"), "share"),
    ]  # fmt: skip
    spent = f"garbage collection stops the application for {percent(load.collecting)} of the time"
    if load.collecting < TIME_SHARE:
        return Cleared(spent, evidence, parts=("collection",))
    return Found(
        sentence=f"{spent}; {percent(load.heap_share)} of its heap is in use on average",
        parts=("collection",),
        share=max(load.collecting, s.budget.share("collection")),
        liftable=1.0,
        confidence=0.8,
        evidence=evidence,
        advice=ADVICE,
    )


SIGNATURE = Signature(
    id="front-collection",
    false_positives="a collector that works beside the application (ZGC), whose time is no pause",
    examine=examine,
    of_clients=True,
)
