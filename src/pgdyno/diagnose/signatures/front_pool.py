"""Application pool: requests queue within the web application for a connection of its pool.

Trigger: requests wait for at least ``WAIT_SHARE`` of their response time for a connection, by the
application's own clock, and at least ``IN_USE`` of the pool's connections are lent, on average. The
database is not asked: it sees a few sessions and no queue. If the model predicts that more of them
would do no more work, the database is the limit and not the pool; but if they would, had the load
the cores that other work keeps busy, the pool is a limit too, and there is nothing to propose.

Of a web server of the user's the same is read from its own figures (``http.metrics``), the wait by
Little's law from the requests that they show waiting; nothing is proposed.

Connections that were never returned are no such limit (``front_leak``), and a pool in the
clients of the load is another one (``client_pool``).

Source: a public post of 2010 on a Tomcat in front of PostgreSQL: throughput flat from 15 of 50
clients on, both machines idle, never more than 8 connections, the default of Commons DBCP then and
now. Thresholds: those of the client pool; calibrated by injection, DBCP2 with 2 connections for 16
clients, and with 16.
"""

from __future__ import annotations

from pgdyno.diagnose._front_pools import (
    FOREIGN_POOL_ADVICE,
    TAKEN,
    figures_of_users_front,
    larger_front_pools,
    others_take_cores,
)
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.sessions import SPARE_SHARE, idle_evidence
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence, Skip

WAIT_SHARE = 0.2
IN_USE = 0.85
KEPT_SHARE = 0.25
"""Connections never returned, as a part of all, from which on they are the finding."""


def examine(s: Situation) -> Found | Cleared:
    """Compare the wait for a connection with the response time."""
    if s.front is None:
        return _of_foreign(s)
    load, share = s.front_load, s.budget.share("front pool")
    in_use, evidence = load.pool_in_use, _evidence(s, share)
    waits = figure(s.budget.parts_ms.get("front pool", 0.0))
    of = f"{waits} of {figure(s.budget.response_ms)} ms"
    size = f"{figure(load.pool_max)} connections"
    pool = f"{s.front.pool_title}, {s.front.size_name}"
    if share < WAIT_SHARE or in_use < IN_USE:
        return Cleared(
            f"requests wait {of} for one of {size} of the application's pool ({pool})",
            evidence,
            parts=("front pool",),
        )
    if load.pool_kept >= KEPT_SHARE * load.pool_max:
        return Cleared("connections of the pool were never returned", evidence)
    proposals = larger_front_pools(s, s.loop)
    if not proposals and not others_take_cores(s, larger_front_pools):
        return Cleared(
            f"requests wait {of} for one of {size} of the application's pool ({pool}), but the"
            " database would not do more for more of them",
            evidence,
        )
    return Found(
        sentence=(
            f"requests wait {of} for one of {size} of the application's pool"
            f" ({pool}){_machine_words(s) if proposals else TAKEN}"
        ),
        parts=("front pool",),
        liftable=proposals[0].prediction.lifted if proposals else 0.0,
        confidence=0.95,
        evidence=evidence,
        causes=("commit-flush",) if s.budget.service_share("flush", "images") >= 0.5 else (),
        proposals=proposals,
    )


def _of_foreign(s: Situation) -> Found | Cleared:
    """Examine the figures of a web server of the user's, of which nothing is changed."""
    front = figures_of_users_front(s)
    if front.pool_max is None or front.pool_active is None or front.pool_waiting is None:
        raise Skip("the web server's figures do not tell its pool and who waits for it")
    share, in_use = s.budget.share("front pool"), front.pool_active / front.pool_max
    evidence = [
        s.evidence("wait for a connection / response time", share, "share",
                   f"at least {percent(WAIT_SHARE)}"),
        s.evidence("response time", s.budget.response_ms, "ms"),
        s.evidence("connections lent / pool size", in_use, "share", f"at least {percent(IN_USE)}"),
        s.evidence("pool size", front.pool_max, "count"),
        s.evidence("requests waiting for a connection", front.pool_waiting, "count"),
        s.evidence("sessions at work in the server", s.sessions_at_work, "sessions"),
        *idle_evidence(s),
    ]  # fmt: skip
    waits = (
        f"by the web server's own figures, requests wait"
        f" {figure(s.budget.parts_ms.get('front pool', 0.0))} of {figure(s.budget.response_ms)} ms"
        f" for one of {figure(front.pool_max)} connections of its pool"
    )
    if share < WAIT_SHARE or in_use < IN_USE:
        return Cleared(waits, evidence, parts=("front pool",))
    idle = _idle_share(s)
    if idle is not None and idle < SPARE_SHARE:
        waits += ", while the cores of this machine are busy"
    return Found(
        sentence=waits if idle is None or idle < SPARE_SHARE else f"{waits}{_machine_words(s)}",
        parts=("front pool",),
        liftable=front.pool_waiting / (front.pool_waiting + front.pool_active),
        confidence=0.9,
        evidence=evidence,
        advice=FOREIGN_POOL_ADVICE,
    )


def _machine_words(s: Situation) -> str:
    idle = _idle_share(s)
    return "" if idle is None else f" while the server's machine is {percent(idle)} idle"


def _idle_share(s: Situation) -> float | None:
    return None if s.cpu_if_recorded is None else s.cpu.idle_share


def _evidence(s: Situation, share: float) -> list[Evidence]:
    load, bar = s.front_load, f"at least {percent(WAIT_SHARE)}"
    in_use = load.pool_in_use
    evidence = [
        s.evidence("wait for a connection / response time", share, "share", bar),
        s.evidence("wait for a connection", s.budget.parts_ms.get("front pool", 0.0), "ms"),
        s.evidence("response time", s.budget.response_ms, "ms"),
        s.evidence("connections lent / pool size", in_use, "share", f"at least {percent(IN_USE)}"),
        s.evidence("pool size", load.pool_max, "count"),
        s.evidence("requests waiting for a connection", load.waiting, "count"),
        s.evidence("sessions at work in the server", s.sessions_at_work, "sessions"),
        s.evidence("clients", sum(group.clients for group in s.groups), "count"),
        s.evidence("requests refused for want of a connection", load.pool_refused_s, "per second"),
    ]
    idle = _idle_share(s)
    return evidence if idle is None else [*evidence, s.evidence("host CPU idle", idle, "share")]


SIGNATURE = Signature(
    id="front-pool",
    false_positives=(
        "a pool kept small on purpose to protect the server; an application that keeps its"
        " connection while it waits for something else, which a larger pool would only hide"
    ),
    examine=examine,
    of_clients=True,
)
