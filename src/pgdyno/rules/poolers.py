"""Poolers between clients and server."""

from __future__ import annotations

import math
from statistics import median

import numpy as np
from msgspec.structs import replace

from pgdyno.facts.failures import RefusedConnections, refusals_in
from pgdyno.facts.pooler import PoolerInForce, PoolerQueues
from pgdyno.facts.sessions import Sessions, sessions
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.rules._pool_sessions import LEFT_OUT_SHARE, clients_left_out, loses_advisory_locks
from pgdyno.rules._pools import cores_taken, larger_pooler_pools, pooled_loop
from pgdyno.rules._queues import MOST
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change

BETWEEN_SHARE = 0.2
IN_USE = 0.85
FIRST_SHARE = 0.5
"""Part of the time between clients and server that is before the first statement if they queue."""
POOLER_WORTHWHILE_RATIO = 1.05
POOLER_ADVICE = (
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


@rule(
    "pooler",
    of_clients=True,
    false_positives=(
        "clients that log in with a role whose sessions pgdyno may not see; a pool kept small on"
        " purpose to protect the server"
    ),
)
def pooler(s: Situation) -> Found | Cleared:
    """A pooler's sessions: clients queue between them and the server, in PgBouncer or the like.

    Trigger: the server has fewer sessions than the clients have connections, and at least
    ``BETWEEN_SHARE`` of the response time passes where no session is at work. If the sessions are
    in a transaction for at least ``IN_USE`` of the time, clients queue for them; else the pooler
    itself, or the way to it, takes the time.

    Clients of closed loops that have no transaction done or under way on the server wait for a
    session that others keep for as long as they are connected: a pooler in session mode, unless
    pgdyno has started it in another.

    Distinct from a hot row or the server's CPU, which show in the few sessions that the pooler has,
    by where the time goes; from a pool in the clients, whose wait the clients measure themselves
    (``client_pool``).

    The remedy is a larger pool of the pooler that pgdyno started, as long as the model predicts
    that more sessions would do more work; where they would not, the server is the limit and not the
    pool.

    Thresholds: those of the client pool; calibrated by injection, PgBouncer with 2 sessions for 16
    clients (``begin`` took 41 of 47 ms), 16 for 16 and 2 for 2.
    """
    seen = _without_others(s, sessions(s))
    share = s.budget.own_share("between")
    evidence = _pooler_evidence(s, seen, share)
    if not seen.shared:
        return Cleared("each connection of the clients has a session of its own", evidence)
    count = counted(seen.on_server, "session", "sessions")
    if loses_advisory_locks(s) and s.part("advisory") >= MOST:
        sentence = f"{figure(seen.connections)} connections share {count}, which wait for locks"
        return Cleared(sentence, evidence)
    left_out = clients_left_out(s)
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
        removable_share=0.5,
        confidence=0.6,
        evidence=evidence,
        causes=("session-state",),
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
        removable_share=share,
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
    if ratio.low < POOLER_WORTHWHILE_RATIO and not cores_taken(s):
        return Cleared(f"{sentence}, but the server is busy with these", evidence)
    taken = ", and hardly a core is idle for more of them"
    return Found(
        sentence=sentence + (taken if cores_taken(s) else ""),
        parts=("between",),
        removable_share=ratio.lifted,
        confidence=0.9,
        evidence=evidence,
        causes=("session-state",),
        proposals=larger_pooler_pools(s, loop, most=seen.connections),
        advice=POOLER_ADVICE,
    )


def _pooler_evidence(s: Situation, seen: Sessions, share: float) -> list[Evidence]:
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
    """Return the pooler's own counts, if it shows them."""
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


POOLER_PAIRS_ADVICE = (
    "default_pool_size is of one pair: make it smaller, limit all of a database or a user"
    " (max_db_connections, max_user_connections), let applications share a user (user= in"
    " [databases]), or raise max_connections"
)


@rule(
    "pooler-pairs",
    of_clients=True,
    false_positives="applications that are never busy at the same time",
)
def pooler_pairs(s: Situation) -> Found | Cleared:
    """Pools of pairs: PgBouncer keeps a pool for each pair of user and database, and together they
    may make more connections than the server has.

    Each application is then within its own pool, and the server refuses some of them all the same,
    for as long as the others are busy. Nothing in the server or in a single pool shows it before.

    Trigger: the sizes of the pools of all pairs that the console of the user's own PgBouncer shows,
    with their reserve and the limits of their databases, add up to more than max_connections less
    the reserved ones. Threshold: arithmetic, no time of this load: it fails when all pools are
    full. Pools of a pooler that pgdyno starts are those of one pair, whose size is checked before
    the load.
    """
    server = s.run.run.server
    pairs = server.get("pooler_pairs")
    if not server.get("entrance_uri"):
        evidence = [s.evidence("poolers of the user's own", 0, "count")]
        return Cleared("clients connect to no pooler of the user's own", evidence)
    if not pairs:
        raise Skip(
            "the pooler is no PgBouncer, or its console is closed to this role (stats_users)"
        )
    most, free = float(pairs["connections"]), float(pairs["free"])
    evidence = [
        s.evidence("connections that the pools may make", most, "count", f"above {figure(free)}"),
        s.evidence("connections that the server has for them", free, "count"),
        s.evidence("pairs of user and database", float(pairs["count"]), "count"),
    ]
    sentence = (
        f"the pools of {counted(pairs['count'], 'pair', 'pairs')} of user and database may make"
        f" {counted(most, 'connection', 'connections')}, and the server has {figure(free)} for them"
    )
    if most <= free:
        return Cleared(sentence, evidence)
    return Found(
        sentence=sentence,
        share=0.0,
        removable_share=0.0,
        confidence=0.8,
        evidence=evidence,
        advice=POOLER_PAIRS_ADVICE,
    )


UNACCEPTED_MIN = 1
AT_LIMIT = 0.95
"""Clients as a part of the limit, from which on it is reached: a child of pgpool-II that starts
again accepts nobody meanwhile."""
OWN_CLIENTS = 3
"""Connections for the look at the pooler's settings, in addition to the clients'."""
LIMIT_WORTHWHILE_RATIO = 1.03
_ADVICE = {
    "pgpool": (
        "make the application's pools smaller, or raise num_init_children together with the"
        " server's max_connections: each of its processes keeps a connection."
        " reserved_connections = 1 refuses the others instead of leaving them without an answer"
    ),
    "haproxy": (
        "make the application's pools smaller, or raise maxconn together with the server's"
        " max_connections: each client has a connection of its own"
    ),
    "pgbouncer": (
        "raise max_client_conn, and PgBouncer's limit on open files with it: with pool_mode ="
        " transaction more clients need no more connections to the server"
    ),
}


@rule(
    "pooler-client-limit",
    of_clients=True,
    of_refusals=True,
    false_positives=(
        "a limit kept low on purpose, so that clients wait in front of the pooler and not in the"
        " server"
    ),
)
def pooler_client_limit(s: Situation) -> Found | Cleared:
    """Pooler at its client limit: it refuses clients, or leaves them in its listen queue, where
    neither the server nor the pooler itself shows them.

    A client beyond num_init_children of pgpool-II or maxconn of HAProxy is connected, as far as it
    can see, and gets no answer; PgBouncer refuses a client beyond max_client_conn, and so does
    pgpool-II with reserved_connections. The server meanwhile seems to have few clients and much
    room.

    Trigger, either of:

    * the pooler refused a client, by its own words;
    * it has as many clients as it accepts, and in the second half of the period most samples have
      ``UNACCEPTED_MIN`` or more connections in its listen queue.

    Thresholds: one client in the queue is one that waits for another to disconnect. Connections
    that a pooler has yet to accept are in that queue for milliseconds, so that half of the samples,
    one a second, do not see them. Calibrated: 0.0 on average with room for all, 12.0 with 20
    clients for 8 processes.

    Look-alikes: clients that are accepted and wait for a connection to the server are the finding
    "pooler"; refusals by the server itself are "connection slots".
    """
    if not s.is_pooled:
        none = s.evidence("poolers between clients and server", 0, "count")
        return Cleared("no pooler is between clients and server", [none])
    refused = [each for each in refusals_in(s.run.errors(s.slice_ids)) if not each.is_of_server]
    pooler = s.pooler
    if pooler is None and not refused:
        raise Skip("the queues of a pooler that pgdyno did not start cannot be seen")
    queues = None if pooler is None else s.pooler_queues
    evidence = _pooler_client_limit_evidence(s, pooler, queues, refused)
    if refused:
        return _refused(refused, evidence, pooler)
    assert pooler is not None
    assert queues is not None
    if not _is_full(pooler, queues):
        return Cleared(f"{pooler.name} accepts all clients", evidence)
    accepted, left = float(queues.clients.mean()), float(queues.unaccepted.mean())
    share = left / (accepted + left)
    return Found(
        sentence=(
            f"{counted(left, 'client waits', 'clients wait')} in the listen queue of"
            f" {pooler.name}, which accepts {figure(accepted)}"
            f" ({pooler.client_setting} = {pooler.clients_max}): neither its views nor the"
            " server's show them"
        ),
        share=share,
        removable_share=share,
        confidence=0.9,
        evidence=evidence,
        severity="will fail",
        proposals=_more_clients(s, pooler, queues),
        advice=_ADVICE[pooler.kind],
    )


def _refused(
    refused: list[RefusedConnections], evidence: list[Evidence], pooler: PoolerInForce | None
) -> Found:
    most = refused[0]
    given = pooler.settings.get(most.limit) if pooler is not None else None
    limit = most.limit if given is None else f"{most.limit} = {given}"
    kind = {"PgBouncer": "pgbouncer", "pgpool-II": "pgpool"}[most.layer]
    return Found(
        sentence=(
            f"{most.layer} refused {counted(most.count, 'connection', 'connections')}: it has as"
            f" many clients as it accepts ({limit})"
        ),
        removable_share=0.0,
        confidence=0.95,
        evidence=evidence,
        severity="will fail",
        advice=_ADVICE[kind],
    )


def _is_full(pooler: PoolerInForce, queues: PoolerQueues) -> bool:
    """True if it accepts no more clients, and some are waiting for that."""
    limit, later = pooler.clients_max, queues.unaccepted[len(queues.unaccepted) // 2 :]
    if limit is None or float(np.max(queues.clients)) < AT_LIMIT * limit:
        return False
    return float(np.median(later)) >= UNACCEPTED_MIN


def _more_clients(s: Situation, pooler: PoolerInForce, queues: PoolerQueues) -> list[Proposal]:
    """Propose room for all clients, where each has a connection to the server, and the server has
    room for these and is predicted to do more."""
    wanted = round(float(np.max(queues.clients + queues.unaccepted))) + OWN_CLIENTS
    slots = s.run.series("metric_connection", s.slice_ids)["usable"]
    if pooler.shares or (len(slots) and wanted > slots[-1]):
        return []
    ratio = s.loop.ratio_of_more(float(wanted))
    if ratio < LIMIT_WORTHWHILE_RATIO:
        return []
    return [
        Proposal(
            remedy_id="pooler",
            change=Change(spec={f"pooler.{pooler.client_setting}": str(wanted)}),
            predicted_ratio=ratio,
            why=f"{wanted} clients get a connection, and overlap their waits",
            specific=True,
        )
    ]


def _pooler_client_limit_evidence(
    s: Situation,
    pooler: PoolerInForce | None,
    queues: PoolerQueues | None,
    refused: list[RefusedConnections],
) -> list[Evidence]:
    evidence = [
        s.evidence(f"refused by {each.words}", float(each.count), "count", "any")
        for each in refused
    ]
    if queues is None or pooler is None:
        return evidence
    bar = f"at least {UNACCEPTED_MIN} in most samples of the second half"
    evidence += [
        s.evidence("clients in the listen queue", float(queues.unaccepted.mean()), "count", bar),
        s.evidence("most of them", float(np.max(queues.unaccepted)), "count"),
        s.evidence("clients accepted", float(queues.clients.mean()), "count"),
        s.evidence(pooler.client_setting, pooler.clients_max, "count", "reached"),
        s.evidence("server connections in use", float(queues.servers_active.mean()), "count"),
    ]
    return evidence
