"""Too many connections for the cores: sessions queue for a core, and for locks in shared memory.

Trigger: at least ``QUEUE_PER_CORE`` sessions per core are runnable, or wait for locks in shared
memory, while the cores are busy; or such locks alone take ``SHARED_SHARE`` of the sessions. And the
model predicts that fewer sessions would do more work, or, where they queue for such locks, as much
of it in less time each. Locks in shared memory that have a signature
of their own count only while that finds nothing.

The pool that is too large is the pooler's, if pgdyno started one that lends its connections for
transactions: its clients then wait in front of the server. Else it is the application's, which is
the web application where pgdyno started one.

Thresholds: RDS Performance Insights draws its line at one runnable session per core; above it the
queue costs latency, and only some way above it throughput. Calibrated by injection: 2 and 16
sessions on 2 cores, commits that wait for nothing.
"""

from __future__ import annotations

from pgdyno.diagnose._contention import unsigned
from pgdyno.diagnose._crowding import BUSY_SHARE, QUEUE_PER_CORE, SHARED_SHARE, crowded
from pgdyno.diagnose._fewer_clients import fewer_clients
from pgdyno.diagnose._front_pools import smaller_front_pools
from pgdyno.diagnose._pooler_pools import pool_size, smaller_pooler_pools
from pgdyno.diagnose._pools import smaller_pools
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence, Proposal


def examine(s: Situation) -> Found | Cleared:
    """Compare the runnable sessions with the cores."""
    queue, evidence = s.queueing + s.sessions(*unsigned(s)), _evidence(s)
    cores = counted(s.cores, "core", "cores")
    if not crowded(s):
        return Cleared(
            f"on average {_queue_words(queue, s)}", evidence, parts=("ready", *unsigned(s))
        )
    proposals = _proposals(s)
    if not proposals:
        return Cleared(
            f"on average {_queue_words(queue, s)}, but fewer are not"
            " predicted to increase throughput",
            evidence,
        )
    return Found(
        sentence=f"{figure(queue)} sessions compete for {cores}{_let_in_words(s)}",
        parts=("ready", *unsigned(s)),
        liftable=1.0 - 1.0 / proposals[0].predicted_ratio,
        confidence=0.8 if queue >= 2 * QUEUE_PER_CORE * s.cores else 0.6,
        evidence=evidence,
        proposals=proposals,
    )


def _proposals(s: Situation) -> list[Proposal]:
    """Return smaller pools: of the web application, of the pooler, where that lends its connections
    for transactions, and else of the clients; and fewer clients, where the sessions queue for locks
    and not only for cores."""
    if s.front is not None:
        return smaller_front_pools(s)
    if s.pooler is not None and s.pooler.shares:
        return smaller_pooler_pools(s)
    proposals, waiting = smaller_pools(s), s.sessions(*unsigned(s))
    if s.part(*unsigned(s)) >= SHARED_SHARE:
        proposals += fewer_clients(s, waiting, "locks in shared memory")
    return proposals


def _let_in_words(s: Situation) -> str:
    """Return the layer whose pool lets so many sessions in, if it is not the clients'."""
    if s.front is not None:
        pool = f"({s.front.pool_title}, {s.front.size_name} = {figure(s.front.pool_max)})"
        return f", which the application's pool lets in {pool}"
    size = pool_size(s)
    if s.pooler is None or size is None or not s.pooler.shares:
        return ""
    return f", which {s.pooler.name}'s pool lets in ({s.pooler.size_setting} = {size})"


def _queue_words(queue: float, s: Situation) -> str:
    """Return how many sessions run or wait, and for how many cores."""
    place = f"one of {s.cores:g} cores" if s.cores != 1 else "the only core"
    return f"{figure(queue)} sessions run or wait for {place}"


def _evidence(s: Situation) -> list[Evidence]:
    evidence = [
        s.evidence(
            "sessions running, ready to run or waiting for shared memory",
            s.queueing + s.sessions(*unsigned(s)),
            "sessions",
            f"at least {QUEUE_PER_CORE:g} per core",
        ),
        s.evidence("cores", s.cores, "count"),
        s.evidence(
            "sessions waiting for locks in shared memory / sessions in a transaction",
            s.part(*unsigned(s)),
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
    top = s.top_event(*unsigned(s))
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
