"""Connections: too many, idle, held, or refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgdyno.facts import client_sessions
from pgdyno.facts.client_sessions import SessionMoments, most_of, seen_sessions, usable
from pgdyno.facts.failures import RefusedConnections, refusals_in
from pgdyno.facts.holders import sees_all_sessions
from pgdyno.facts.sight import Sight, measured
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, duration, figure, percent
from pgdyno.record.finding import Evidence, Lack, Proposal, Skip
from pgdyno.record.sessionages import WORDS
from pgdyno.rules._client_counts import fewer_clients
from pgdyno.rules._contention import (
    BUSY_SHARE,
    QUEUE_PER_CORE,
    SHARED_SHARE,
    crowded,
    without_rules,
)
from pgdyno.rules._pools import pool_size, smaller_front_pools, smaller_pooler_pools, smaller_pools
from pgdyno.rules.rule import Cleared, Found, rule


@rule(
    "connections",
    false_positives=(
        "sessions that are runnable only for an instant between waits, seen together by chance;"
        " other programs on the machine that take its cores"
    ),
)
def connections(s: Situation) -> Found | Cleared:
    """Too many connections for the cores: sessions queue for a core, and for locks in shared
    memory.

    Trigger: at least ``QUEUE_PER_CORE`` sessions per core are runnable, or wait for locks in shared
    memory, while the cores are busy; or such locks alone take ``SHARED_SHARE`` of the sessions. And
    the model predicts that fewer sessions would do more work, or, where they queue for such locks,
    as much of it in less time each. Locks in shared memory that have a rule of their own count
    only while that finds nothing.

    The pool that is too large is the pooler's, if pgdyno started one that lends its connections for
    transactions: its clients then wait in front of the server. Else it is the application's, which
    is the web application where pgdyno started one.

    Thresholds: RDS Performance Insights draws its line at one runnable session per core; above it
    the queue costs latency, and only some way above it throughput. Calibrated by injection: 2 and
    16 sessions on 2 cores, commits that wait for nothing.
    """
    queue, evidence = s.queueing + s.sessions(*without_rules(s)), _connections_evidence(s)
    cores = counted(s.cores, "core", "cores")
    if not crowded(s):
        return Cleared(
            f"on average {_queue_words(queue, s)}", evidence, parts=("ready", *without_rules(s))
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
        parts=("ready", *without_rules(s)),
        removable_share=1.0 - 1.0 / proposals[0].predicted_ratio,
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
    proposals, waiting = smaller_pools(s), s.sessions(*without_rules(s))
    if s.part(*without_rules(s)) >= SHARED_SHARE:
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


def _connections_evidence(s: Situation) -> list[Evidence]:
    evidence = [
        s.evidence(
            "sessions running, ready to run or waiting for shared memory",
            s.queueing + s.sessions(*without_rules(s)),
            "sessions",
            f"at least {QUEUE_PER_CORE:g} per core",
        ),
        s.evidence("cores", s.cores, "count"),
        s.evidence(
            "sessions waiting for locks in shared memory / sessions in a transaction",
            s.part(*without_rules(s)),
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
    top = s.top_event(*without_rules(s))
    if top is not None:
        evidence.append(s.evidence(f"sessions at {top[0]}", top[1], "sessions"))
    return evidence


USED_SHARE = 0.9
CRITICAL_SHARE = 0.95
_SWALLOWS = ("pgpool",)
"""Poolers that end a client's connection without the server's answer when that is a refusal:
pgpool-II 4.3 logs "backend response with kind 'E' when expecting 'R'"."""


@rule(
    "connection-slots",
    of_refusals=True,
    false_positives=(
        "a number of clients that never grows: then the connections that are left suffice;"
        " sessions with the right to reserved connections"
    ),
)
def connection_slots(s: Situation) -> Found | Cleared:
    """Connections: the server is about to refuse new ones.

    Trigger: at least ``USED_SHARE`` of the connections that roles without reserved ones may use are
    in use, or the server refused one of the load's, by its own words: poolers refuse clients with
    the same SQLSTATE, 53300 ("pooler client limit").

    Threshold: check_postgres warns at 90 % and alarms at 95 %, db-triage at 70 and 90 %. It is
    about to fail from ``CRITICAL_SHARE`` on, or where one was refused.

    Look-alikes: a pool in the application that is too small lets clients wait and leaves
    connections of the server unused; many connections that the server has, but whose sessions queue
    for the cores, are the finding "connections".
    """
    rows = s.run.series("metric_connection", s.slice_ids)
    if not len(rows["at_ms"]):
        raise Skip("the connections in use were not recorded")
    if not sees_all_sessions(s):
        raise Skip(
            "this role may not see the sessions of other roles (pg_monitor may)", Lack.RIGHTS
        )
    most = int(rows["used"].argmax())
    used, usable = float(rows["used"][most]), max(1.0, float(rows["usable"][most]))
    ours, idle = float(rows["ours"][most]), float(rows["others_idle"][most])
    by_server = [each for each in refusals_in(s.run.errors(s.slice_ids)) if each.is_of_server]
    refused = sum(each.count for each in by_server)
    closed = _closed_by_pooler(s) if used / usable >= CRITICAL_SHARE else 0
    evidence = _connection_slots_evidence(s, (used, usable, ours, idle), refused, closed)
    sentence = f"{figure(used)} of {counted(usable, 'connection', 'connections')} are in use"
    if used / usable < USED_SHARE and not refused:
        return Cleared(sentence, evidence)
    full = used / usable >= CRITICAL_SHARE
    refusals = _refusals_words(s, by_server, closed) if refused or full else ""
    us = "pgdyno" if s.is_observed else "this load"
    return Found(
        sentence=(
            f"{sentence}{refusals}: {figure(ours)} by {us} and"
            f" {figure(used - ours)} by others, of which {figure(idle)} are idle"
        ),
        removable_share=0.0,
        confidence=0.9,
        evidence=evidence,
        severity="will fail" if refused or used / usable >= CRITICAL_SHARE else None,
        advice=(
            "put a pooler or a smaller pool in front of the server, and end idle sessions"
            " (idle_session_timeout); max_connections needs a restart, and each connection memory"
        ),
    )


def _closed_by_pooler(s: Situation) -> int:
    """Return the connections that ended before they were there, through a pooler that swallows what
    the server said."""
    if s.pooler is None or s.pooler.kind not in _SWALLOWS:
        return 0
    return sum(e.count for e in s.run.errors(s.slice_ids) if e.sqlstate == "connect-failed")


def _refusals_words(s: Situation, by_server: Sequence[RefusedConnections], closed: int) -> str:
    if by_server:
        refused = sum(each.count for each in by_server)
        behind = f", behind {s.pooler.name}" if s.pooler is not None else ""
        return f", and {counted(refused, 'was', 'were')} refused by {by_server[0].words}{behind}"
    if closed and s.pooler is not None:
        name = s.pooler.name
        return (
            f", and {counted(closed, 'was', 'were')} closed by {name} without an answer: it does"
            " not pass on PostgreSQL's refusal"
        )
    return _held_back_words(s)


def _held_back_words(s: Situation) -> str:
    """Return a clause about the connections that a pooler lacks, so that its clients wait while the
    server refuses it: such a refusal is in its log alone."""
    size = s.pooler.size if s.pooler is not None else None
    if s.pooler is None or size is None:
        return ""
    queues = s.pooler_queues
    has, waiting = (float(np.median(v)) for v in (queues.servers, queues.waiting))
    if not (waiting >= 1.0 and has < size):
        return ""
    return (
        f", and {s.pooler.name} has {figure(has)} of the {size} connections of its pool while"
        f" {counted(waiting, 'client waits', 'clients wait')}: PostgreSQL refuses the others"
    )


def _connection_slots_evidence(
    s: Situation, seen: tuple[float, float, float, float], refused: int, closed: int
) -> list[Evidence]:
    used, usable, ours, idle = seen
    bar = f"at least {percent(USED_SHARE)}; about to fail at {percent(CRITICAL_SHARE)}"
    return [
        s.evidence("connections in use / usable", used / usable, "share", bar),
        s.evidence("connections in use", used, "count"),
        s.evidence("connections usable without reserved ones", usable, "count"),
        s.evidence("of these, this load's and its probes'", ours, "count"),
        s.evidence("of these, idle sessions of others", idle, "count"),
        s.evidence("connections refused", float(refused), "count", "any"),
        s.evidence("connections closed by the pooler", float(closed), "count"),
        *_by_state(s),
    ]


def _by_state(s: Situation) -> list[Evidence]:
    """Return the average number of sessions in each state that was seen, the load's included."""
    rows = s.run.series("metric_activity", s.slice_ids)
    states = dict.fromkeys(str(state) for state in rows["state"])
    means = {state: float(rows["count"][rows["state"] == state].mean()) for state in states}
    return [
        s.evidence(f"sessions {state}", mean, "sessions") for state, mean in means.items() if mean
    ]


OLD_S = 10
IDLE_SHARE = 0.5
GROWN_MIN = 10
SOON_S = 3600.0
ADVICE = (
    "let the pools end what they do not use: HikariCP minimumIdle and idleTimeout, DBCP maxIdle and"
    " minEvictableIdleTimeMillis, SQLAlchemy a smaller pool_size, PgBouncer server_idle_timeout,"
    " pgpool-II connection_life_time (some versions ignore it together with serialize_accept: see"
    " unreaped-connections); for what remains idle_session_timeout (from 14 on), but not"
    " for a pool that does not expect it"
)


@rule(
    "idle-connections",
    false_positives=(
        "pools of a fixed size that are kept open for bursts that did not come within the period"
    ),
)
def idle_connections(s: Situation) -> Found | Cleared:
    """Idle connections that nobody ends: few are used, the others stay or become more.

    Each occupies a connection of the server and the memory of its process. They pile up where a
    pool or a pooler never ends what it no longer needs, until new clients are refused.

    Trigger: at the end connections that have been idle for ``OLD_S`` or longer are not fewer than
    in the middle, are at least as many as were ever at work at the same time, and either

    * are ``IDLE_SHARE`` of the connections that the server has for clients; or
    * have become more by ``GROWN_MIN`` or more, in both halves, and at this pace all connections
      are used up within ``SOON_S``.

    Thresholds: ten seconds is far above the pause between two uses of a connection that is needed,
    and the shortest limit of usual pools (HikariCP's least idleTimeout); pgpool-II's
    connection_life_time was effective against 7,000 connections at 30 to 60 s. Half of the
    connections leaves room for as many again. It is about to fail in the second case alone.

    Look-alikes: connections that are almost used up, by whomever, are the finding "connection
    slots".
    """
    seen, slots = seen_sessions(s, OLD_S), usable(s)
    idle, working = float(seen.long_idle[-1]), float(seen.at_work.max())
    left_s = _used_up_s(seen, slots)
    evidence = _idle_connections_evidence(s, seen, slots, left_s)
    sentence = (
        f"{counted(idle, 'connection has', 'connections have')} been idle for {duration(OLD_S)} or"
        f" longer, of {figure(float(seen.connected[-1]))}"
    )
    stay = idle >= seen.long_idle[len(seen.long_idle) // 2] and idle >= max(1.0, working)
    grows = left_s is not None and left_s <= SOON_S
    if not stay or not (grows or idle / slots >= IDLE_SHARE):
        return Cleared(sentence, evidence)
    most = most_of(s, "idle")
    of = f", most of {most.name}" if most is not None else ""
    end = (
        f"; at this pace the server's {figure(slots)} are used up in {duration(left_s)}"
        if grows and left_s is not None
        else f"; {figure(slots)} can be used"
    )
    return Found(
        sentence=f"{sentence}, and at most {figure(working)} were at work at once{of}{end}",
        removable_share=0.0,
        confidence=0.8,
        evidence=evidence,
        severity="will fail" if grows else None,
        causes=("unreaped-connections",),
        advice=ADVICE,
    )


def _used_up_s(seen: SessionMoments, slots: float) -> float | None:
    """Return the seconds until growing idle connections use up all; None if they do not grow."""
    middle, last = len(seen.at_ms) // 2, len(seen.at_ms) - 1
    first_half = seen.long_idle[middle] - seen.long_idle[0]
    second_half = seen.long_idle[last] - seen.long_idle[middle]
    grown = float(first_half + second_half)
    seconds = float(seen.at_ms[last] - seen.at_ms[0]) / 1000
    more = float(seen.connected[last] - seen.connected[0])
    if first_half <= 0 or second_half <= 0 or grown < GROWN_MIN or more <= 0 or seconds <= 0:
        return None
    return max(0.0, slots - float(seen.connected[last])) * seconds / more


def _idle_connections_evidence(
    s: Situation, seen: SessionMoments, slots: float, left_s: float | None
) -> list[Evidence]:
    found = client_sessions.origins(s.run, s.slice_ids)
    ages = client_sessions.ages_at_end(found, "idle_ages")
    evidence = [
        s.evidence(
            "connections idle for long / usable",
            float(seen.long_idle[-1]) / slots,
            "share",
            f"at least {percent(IDLE_SHARE)}, or used up within {duration(SOON_S)}",
        ),
        s.evidence(
            f"connections idle for {duration(OLD_S)} or longer", float(seen.long_idle[-1]), "count"
        ),
        s.evidence("of these at the beginning", float(seen.long_idle[0]), "count"),
        s.evidence("most connections at work at once", float(seen.at_work.max()), "count"),
        s.evidence("connections usable without reserved ones", slots, "count"),
        s.evidence(
            "never used since they connected", float(sum(each.unused for each in found)), "count"
        ),
    ]
    if left_s is not None:
        evidence.append(s.evidence("all used up in", left_s, "s"))
    evidence += [
        s.evidence(f"idle for {words}", float(count), "sessions")
        for words, count in zip(WORDS, ages, strict=True)
        if count
    ]
    return evidence


LONG_S = 10
HELD_MIN = 5
HELD_SHARE = 0.05


@rule(
    "held-connections",
    false_positives="batch jobs that keep a few transactions open on purpose",
)
def held_connections(s: Situation) -> Found | Cleared:
    """Sessions that are idle in a transaction hold connections of the server.

    A pooler in transaction mode cannot lend such a connection to another client, and vacuum cannot
    remove what it may still see. Nobody need wait for it yet.

    Trigger: at the end ``HELD_MIN`` or more sessions, and ``HELD_SHARE`` of the connections that
    the server has for clients, have been idle in their transaction for ``LONG_S`` or longer.

    Thresholds: ten seconds is longer than any statement of an application should let its
    transaction wait for; 5 of 100 connections is a fifth of what reports of such leaks show (23
    sessions for 40 minutes, 160 of 1,000).

    Look-alikes: sessions that others wait for are the finding "idle in transaction"; one that is
    idle for minutes is named by ``pgdyno check`` (forgotten transactions).
    """
    seen, slots = seen_sessions(s, LONG_S), usable(s)
    held = float(seen.long_paused[-1])
    evidence = [
        s.evidence(
            f"sessions idle in a transaction for {duration(LONG_S)} or longer",
            held,
            "count",
            f"at least {HELD_MIN}, and {percent(HELD_SHARE)} of the usable connections",
        ),
        s.evidence("connections usable without reserved ones", slots, "count"),
        s.evidence("sessions idle in a transaction", float(seen.paused.mean()), "sessions"),
        s.evidence("most of them at once", float(seen.paused.max()), "count"),
    ]
    sentence = (
        f"{counted(held, 'session has', 'sessions have')} been idle in a transaction for"
        f" {duration(LONG_S)} or longer"
    )
    if held < HELD_MIN or held / slots < HELD_SHARE:
        return Cleared(sentence, evidence)
    most = most_of(s, "in_transaction")
    of = f", most of {most.name}" if most is not None else ""
    return Found(
        sentence=f"{sentence}, and hold as many of {figure(slots)} connections{of}",
        removable_share=0.0,
        confidence=0.85,
        evidence=evidence,
        advice=(
            "end transactions before the client does anything else; a limit for those that forget"
            " is idle_in_transaction_session_timeout, PgBouncer's idle_transaction_timeout or"
            " pgpool-II's client_idle_limit"
        ),
    )


SESSIONS_MIN = 200
SESSIONS_PER_CORE = 10


@rule(
    "sessions-per-core",
    looks=("connection_state",),
    covered_by=("connections", "connection-slots"),
    false_positives="sessions that mostly wait for something outside, such as a foreign server",
)
def sessions_per_core(sight: Sight) -> Found | Cleared:
    """Many more sessions than cores.

    Trigger: at least ``SESSIONS_MIN`` client sessions are open, and at least ``SESSIONS_PER_CORE``
    for each core that the server may use. Threshold: pg_gather compares max_connections with ten
    times the cores; what is open is judged here, since a limit costs nothing. It is minor: idle
    sessions take memory, and a storm of them can be at work at once.
    """
    cores = float(sight.host["cores"])
    states = {row["state"]: row["sessions"] for row in sight.rows("connection_state")}
    sessions = sum(states.values())
    least = max(SESSIONS_MIN, SESSIONS_PER_CORE * cores)
    evidence = [
        measured("cores", cores, "cores"),
        measured("client sessions", sessions, "count", f"at least {figure(least)}"),
        *(measured(f"sessions {state or 'hidden'}", n, "count") for state, n in states.items()),
    ]
    if sessions < least:
        return Cleared(f"{figure(sessions)} sessions on {figure(cores)} cores", evidence)
    return Found(
        sentence=(
            f"{figure(sessions)} sessions are open on {figure(cores)} cores,"
            f" {figure(states.get('active', 0))} of them at work"
        ),
        severity="minor",
        confidence=0.6,
        evidence=evidence,
        advice="a pooler in transaction mode keeps as many sessions as can be at work",
    )
