"""A pooler's sessions: clients queue between them and the server, in PgBouncer or the like.

Trigger: the server has fewer sessions than the clients have connections, and at least
``BETWEEN_SHARE`` of the response time passes where no session is at work. If the sessions are in a
transaction for at least ``IN_USE`` of the time, clients queue for them; else the pooler itself, or
the way to it, takes the time.

Clients of closed loops that have no transaction done or under way on the server wait for a session
that others keep for as long as they are connected: a pooler in session mode.

Distinct from a hot row or the server's CPU, which show in the few sessions that the pooler has,
by where the time goes; from a pool in the clients, whose wait the clients measure themselves
(``client_pool``).

The remedy is a larger pool of the pooler that pgdyno started, as long as the model predicts that
more sessions would do more work; where they would not, the server is the limit and not the pool.

Thresholds: those of the client pool; calibrated by injection, PgBouncer with 2 sessions for 16
clients (``begin`` took 41 of 47 ms), 16 for 16 and 2 for 2.
"""

from __future__ import annotations

import math
from statistics import median

from msgspec.structs import replace

from pgdyno.diagnose._pooler_pools import larger_pooler_pools, pooled_loop
from pgdyno.diagnose._pools import cores_taken
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.sessions import Sessions, sessions
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence, Skip

BETWEEN_SHARE = 0.2
LEFT_OUT_SHARE = 0.2
"""Clients left out, as a part of all, above which that is the finding."""
IN_USE = 0.85
FIRST_SHARE = 0.5
"""Part of the time between clients and server that is before the first statement if they queue."""
WORTHWHILE_RATIO = 1.05
ADVICE = (
    "give the pooler more server connections (default_pool_size of PgBouncer, num_init_children and"
    " max_pool of pgpool-II), as long as the server's cores are not all busy"
)
SESSION_MODE_ADVICE = (
    "let the pooler assign a session for each transaction (pool_mode = transaction of PgBouncer),"
    " or give it as many server connections as there are clients"
)
SLOW_POOLER_ADVICE = (
    "look at the pooler itself: PgBouncer uses one core (several of them can share a port with"
    " so_reuseport), and its own round trip adds to each statement"
)


def examine(s: Situation) -> Found | Cleared:
    """Compare the clients' connections with the sessions on the server."""
    seen = _without_others(s, sessions(s))
    share = s.budget.share("between")
    evidence = _evidence(s, seen, share)
    if not seen.shared:
        return Cleared("each connection of the clients has a session of its own", evidence)
    count = counted(seen.on_server, "session", "sessions")
    left_out = _clients_left_out(s)
    if left_out >= LEFT_OUT_SHARE * seen.connections:
        return _session_mode(s, seen, evidence, left_out)
    if share < BETWEEN_SHARE:
        return Cleared(
            f"{figure(seen.connections)} connections share {count} of a pooler", evidence
        )
    waited_ms = s.budget.parts_ms.get("between", 0.0)
    lost = f"{figure(waited_ms)} of {figure(s.budget.response_ms)} ms"
    if seen.in_use_share >= IN_USE:
        return _queue(s, seen, evidence, f"{lost} for one of {count} that a pooler shares among")
    return Found(
        sentence=(
            f"{lost} pass between clients and server, where a pooler shares {count} among"
            f" {figure(seen.connections)} connections; these are in use"
            f" {percent(seen.in_use_share)} of the time"
        ),
        parts=("between",),
        liftable=0.5,
        confidence=0.6,
        evidence=evidence,
        advice=SLOW_POOLER_ADVICE,
    )


def _without_others(s: Situation, seen: Sessions) -> Sessions:
    """Return ``seen`` without idle sessions that cannot be the pooler's.

    Clients do not queue for a session while the pooler has an idle one; those that are idle then
    belong to somebody else, another pooler for instance. The queue is in front of the first
    statement of a transaction, while a slow pooler delays every statement.
    """
    if not seen.shared or seen.in_use_share >= IN_USE or not _waits_first(s):
        return seen
    own = min(seen.on_server, max(1.0, math.ceil(seen.in_transaction)))
    return replace(seen, on_server=own)


def _waits_first(s: Situation) -> bool:
    """True if most of the time between clients and server is before the first statement."""
    timed = [each for each in s.statements if each.service.count]
    first = [each.service.mean for each in timed if each.position == 0]
    later = [each.service.mean for each in timed if each.position > 0]
    if not first or not later:
        return False
    waited_ms = (max(first) - median(later)) / 1e6
    return waited_ms >= FIRST_SHARE * s.budget.parts_ms.get("between", 0.0)


def _clients_left_out(s: Situation) -> float:
    """Return the clients that had a transaction under way and none done, on average.

    All clients of a closed loop that does not rest are at work; what Little's law does not see of
    them never came to an end.
    """
    resting = any(group.think_ms for group in s.groups)
    if s.has_open_loop or resting or s.sessions_max < sum(g.clients for g in s.groups):
        return 0.0
    return max(0.0, s.sessions_max - s.in_service - _unaccepted(s))


def _unaccepted(s: Situation) -> float:
    """Return the clients that the pooler has not accepted ("pooler client limit")."""
    try:
        return float(s.pooler_queues.unaccepted.mean()) if s.pooler is not None else 0.0
    except Skip:
        return 0.0


def _session_mode(s: Situation, seen: Sessions, evidence: list[Evidence], left_out: float) -> Found:
    share = left_out / seen.connections
    proposals = larger_pooler_pools(s, replace(s.loop, sessions=max(1.0, s.in_service)).fitted(),
                                    most=seen.connections)  # fmt: skip
    evidence.append(
        s.evidence(
            "clients without a transaction done",
            left_out,
            "count",
            f"at least {percent(LEFT_OUT_SHARE)} of the connections",
        )
    )
    return Found(
        sentence=(
            f"{figure(left_out)} of {figure(seen.connections)} clients wait for a session of a"
            " pooler, which keeps each session for one client as long as that is connected"
        ),
        share=share,
        liftable=share,
        confidence=0.8,
        evidence=evidence,
        proposals=proposals,
        advice=SESSION_MODE_ADVICE,
    )


def _queue(s: Situation, seen: Sessions, evidence: list[Evidence], where: str) -> Found | Cleared:
    """Return the finding if more sessions would do more work, by the model, or would if something
    else, such as the pooler, did not take the cores for it."""
    loop = pooled_loop(s)
    most = min(seen.connections, 8.0 * s.cores)
    ratio = loop.ratio_of_more(max(2 * seen.on_server, most))
    evidence.append(s.evidence("predicted with more sessions", ratio, "times", ""))
    sentence = f"clients wait {where} {figure(seen.connections)} connections"
    if ratio.low < WORTHWHILE_RATIO and not cores_taken(s):
        return Cleared(f"{sentence}, but the server is busy with these", evidence)
    taken = ", and hardly a core is idle for more of them"
    return Found(
        sentence=sentence + (taken if cores_taken(s) else ""),
        parts=("between",),
        liftable=ratio.lifted,
        confidence=0.9,
        evidence=evidence,
        proposals=larger_pooler_pools(s, loop, most=seen.connections),
        advice=ADVICE,
    )


def _evidence(s: Situation, seen: Sessions, share: float) -> list[Evidence]:
    evidence = [
        s.evidence(
            "time between clients and server / response time",
            share,
            "share",
            f"at least {percent(BETWEEN_SHARE)}",
        ),
        s.evidence("connections of the clients", seen.connections, "count"),
        s.evidence("sessions on the server", seen.on_server, "sessions", "fewer"),
        s.evidence(
            "sessions in a transaction / sessions",
            seen.in_use_share,
            "share",
            f"at least {percent(IN_USE)} if clients queue for them",
        ),
    ]
    evidence += _own_queue(s)
    first = [each for each in s.statements if each.position == 0]
    slowest = max(first, key=lambda each: each.service.mean, default=None)
    if slowest is not None:
        mean_ms = slowest.service.mean / 1e6
        evidence.append(s.evidence(f"first statement, {slowest.statement}", mean_ms, "ms"))
    return evidence


def _own_queue(s: Situation) -> list[Evidence]:
    """Return what the pooler itself counts, if it tells."""
    if not s.is_pooled:
        return []
    try:
        queues = s.pooler_queues
    except Skip:
        return []
    counts = {
        "clients waiting in the pooler, by its own count": float(queues.waiting.mean()),
        "connections of the pooler to the server": float(queues.servers.mean()),
        **({} if s.pooler is None else {s.pooler.size_setting or "": s.pooler.size}),
    }
    known = {name: n for name, n in counts.items() if name and n is not None and n == n}
    return [s.evidence(name, number, "count") for name, number in known.items()]


SIGNATURE = Signature(
    id="pooler",
    false_positives=(
        "clients that log in with a role whose sessions pgdyno may not see; a pool kept small on"
        " purpose to protect the server"
    ),
    examine=examine,
    of_clients=True,
)
