"""Too many connections for the cores: sessions queue for a core, and for locks in shared memory.

Trigger: at least ``QUEUE_PER_CORE`` sessions per core are runnable, or wait for locks in shared
memory, while the cores are busy; or such locks alone take ``SHARED_SHARE`` of the sessions. And the
model predicts that fewer sessions would do more work.

Thresholds: RDS Performance Insights draws its line at one runnable session per core; above it the
queue costs latency, and only some way above it throughput. Calibrated by injection: 2 and 16
sessions on 2 cores, commits that wait for nothing.
"""

from __future__ import annotations

from pgdyno.diagnose._pools import smaller_pools
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.finding import Evidence
from pgdyno.diagnose.words import counted, figure, percent

QUEUE_PER_CORE = 2.0
BUSY_SHARE = 0.9
SHARED_SHARE = 0.2


def examine(s: Situation) -> Found | Cleared:
    """Compare the runnable sessions with the cores."""
    queue, evidence = s.runnable + s.sessions("shared"), _evidence(s)
    cores = counted(s.cores, "core", "cores")
    if not crowded(s):
        return Cleared(f"on average {_queue_words(queue, s)}", evidence)
    proposals = smaller_pools(s)
    if not proposals:
        return Cleared(
            f"on average {_queue_words(queue, s)}, but fewer are not"
            " predicted to increase throughput",
            evidence,
        )
    return Found(
        sentence=f"{figure(queue)} sessions compete for {cores}; fewer would increase throughput",
        share=s.budget.share("ready", "shared"),
        liftable=1.0 - 1.0 / proposals[0].predicted_ratio,
        confidence=0.8 if queue >= 2 * QUEUE_PER_CORE * s.cores else 0.6,
        evidence=evidence,
        proposals=proposals,
    )


def _queue_words(queue: float, s: Situation) -> str:
    """Return how many sessions run or wait, and for how many cores."""
    place = f"one of {s.cores:g} cores" if s.cores != 1 else "the only core"
    return f"{figure(queue)} sessions run or wait for {place}"


def crowded(s: Situation) -> bool:
    """True if more sessions can run than the cores can serve."""
    if s.sessions("shared") >= 1.0 and s.part("shared") >= SHARED_SHARE:
        return True
    busy = s.cpu_if_recorded is None or s.cpu.busy_share >= BUSY_SHARE
    return busy and s.runnable + s.sessions("shared") >= QUEUE_PER_CORE * s.cores


def _evidence(s: Situation) -> list[Evidence]:
    evidence = [
        s.evidence(
            "sessions running, ready to run or waiting for shared memory",
            s.runnable + s.sessions("shared"),
            "sessions",
            f"at least {QUEUE_PER_CORE:g} per core",
        ),
        s.evidence("cores", s.cores, "count"),
        s.evidence(
            "sessions waiting for locks in shared memory / sessions in a transaction",
            s.part("shared"),
            "share",
            f"at least {percent(SHARED_SHARE)}",
        ),
        s.evidence("ready but not running / response time", s.budget.share("ready"), "share"),
        s.evidence("most sessions at once", s.sessions_max, "count"),
    ]
    if s.cpu_if_recorded is not None:
        evidence.append(
            s.evidence(
                "host CPU busy", s.cpu.busy_share, "share", f"at least {percent(BUSY_SHARE)}"
            )
        )
    top = s.top_event("shared")
    if top is not None:
        evidence.append(s.evidence(f"sessions at {top[0]}", top[1], "sessions"))
    return evidence


SIGNATURE = Signature(
    id="connections",
    false_positives=(
        "sessions that are runnable only for an instant between waits, seen together by chance;"
        " other programs on the machine that take its cores"
    ),
    examine=examine,
)
