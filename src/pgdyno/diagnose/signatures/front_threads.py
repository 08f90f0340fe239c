"""Connector threads: requests wait in the web server for a thread, before the application begins.

Trigger: at least ``BUSY`` of the connector's threads are busy on average, requests are seen
waiting for one, and they wait for at least ``WAIT_SHARE`` of their response time: by Little's law,
from the length of the executor's queue. Where the threads themselves mostly wait for a connection,
the pool is the limit and not the threads (``front_pool``). Of a web server of the user's the same
is read from its own figures (``http.metrics``): as many requests wait as are under way, by Little's
law, beyond the busy threads.

Thresholds: those of the client pool; calibrated by injection, 2 threads for 16 clients, and 200.
Tomcat's own default is 200.
"""

from __future__ import annotations

from pgdyno.diagnose._front_pools import (
    TAKEN,
    figures_of_users_front,
    more_threads,
    others_take_cores,
)
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence, Skip

WAIT_SHARE = 0.2
BUSY = 0.9
WAITING_MAX = 0.5
"""Part of the busy threads that wait for a connection, from which on the pool is the limit."""
ADVICE = (
    "give the connector more threads (maxThreads of Tomcat), and the pool as many connections as"
    " they use at once"
)


def examine(s: Situation) -> Found | Cleared:
    """Compare the queue of the connector with the response time."""
    if s.front is None:
        return _of_foreign(s)
    load, share = s.front_load, s.budget.share("connector")
    evidence = _evidence(s, share)
    threads = counted(round(load.threads_max), "thread", "threads")
    wait_ms = figure(s.budget.parts_ms.get("connector", 0.0))
    sentence = f"requests wait {wait_ms} of {figure(s.budget.response_ms)} ms for one of {threads}"
    if share < WAIT_SHARE or load.threads_in_use < BUSY:
        return Cleared(f"{sentence} of the web server", evidence, parts=("connector",))
    if load.waiting >= WAITING_MAX * load.threads_in_use * load.threads_max:
        return Cleared(f"{sentence}, most of which wait for a connection", evidence)
    proposals = more_threads(s, s.loop)
    if not proposals and not others_take_cores(s, more_threads):
        return Cleared(f"{sentence}, but more would not do more work", evidence)
    return Found(
        sentence=f"{sentence} of the web server, all busy{'' if proposals else TAKEN}",
        parts=("connector",),
        liftable=proposals[0].prediction.lifted if proposals else 0.0,
        confidence=0.9,
        evidence=evidence,
        proposals=proposals,
        advice=ADVICE,
    )


def _of_foreign(s: Situation) -> Found | Cleared:
    """Examine the figures of a web server of the user's, of which nothing is changed."""
    front = figures_of_users_front(s)
    if front.threads_max is None or front.threads_busy is None:
        raise Skip("the web server's figures do not tell its threads")
    within_ms = s.budget.service_ms + s.budget.parts_ms.get("front pool", 0.0)
    under_way = s.throughput_tps * within_ms / 1000
    busy = front.threads_busy / front.threads_max
    queued = max(0.0, 1.0 - front.threads_busy / under_way) if under_way > 0 else 0.0
    waiting = (front.pool_waiting or 0.0) / max(1.0, front.threads_busy)
    evidence = [
        s.evidence("requests under way without a thread", queued, "share",
                   f"at least {percent(WAIT_SHARE)}"),
        s.evidence("requests under way", under_way, "count"),
        s.evidence("threads busy / threads", busy, "share", f"at least {percent(BUSY)}"),
        s.evidence("threads", front.threads_max, "count"),
        s.evidence("busy threads that wait for a connection / busy threads", waiting, "share",
                   f"less than {percent(WAITING_MAX)}"),
    ]  # fmt: skip
    of = f"{figure(front.threads_busy)} of {figure(front.threads_max)} threads of the web server"
    words = f"{of} are busy, by its own figures, with {figure(under_way)} requests under way"
    if queued < WAIT_SHARE or busy < BUSY:
        return Cleared(words, evidence)
    if waiting >= WAITING_MAX:
        return Cleared(f"{words}; most of them wait for a connection", evidence)
    return Found(
        sentence=f"{words}: the others wait for a thread",
        parts=("web server",),
        share=queued * s.budget.share("web server"),
        liftable=1.0,
        confidence=0.8,
        evidence=evidence,
        advice=f"{ADVICE}; pgdyno changes nothing of a web server that it did not start",
    )


def _evidence(s: Situation, share: float) -> list[Evidence]:
    load, bar = s.front_load, f"at least {percent(WAIT_SHARE)}"
    busy = load.threads_in_use
    return [
        s.evidence("wait for a thread / response time", share, "share", bar),
        s.evidence("threads busy / threads", busy, "share", f"at least {percent(BUSY)}"),
        s.evidence("threads", load.threads_max, "count"),
        s.evidence("requests waiting for a thread", load.queue, "count"),
        s.evidence(
            "busy threads that wait for a connection / busy threads",
            load.waiting / max(1.0, busy * load.threads_max),
            "share",
            f"less than {percent(WAITING_MAX)}",
        ),
    ]


SIGNATURE = Signature(
    id="front-threads",
    false_positives=(
        "threads kept few on purpose; a queue of a moment, seen because the executor is read once a"
        " second"
    ),
    examine=examine,
    of_clients=True,
)
