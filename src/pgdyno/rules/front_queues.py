"""Queues of requests in an application in front of the server."""

from __future__ import annotations

from math import isnan

from pgdyno.facts.sessions import SPARE_SHARE, idle_evidence, sessions_on_server
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence, Skip
from pgdyno.rules._pools import (
    FOREIGN_POOL_ADVICE,
    TAKEN,
    figures_of_users_front,
    larger_front_pools,
    more_threads,
    others_take_cores,
    room_for_all,
)
from pgdyno.rules.poolers import AT_LIMIT, UNACCEPTED_MIN
from pgdyno.rules.rule import Cleared, Found, rule

FRONT_ACCEPT_QUEUE_ADVICE = (
    "let the connector accept more connections (maxConnections of Tomcat), or close idle ones"
    " earlier (keepAliveTimeout, maxKeepAliveRequests)"
)


@rule(
    "front-accept-queue",
    of_clients=True,
    of_refusals=True,
    false_positives="a limit kept low on purpose, so that clients wait in front of the web server",
)
def front_accept_queue(s: Situation) -> Found | Cleared:
    """Accept queue: the web server has as many connections of clients as it accepts, and leaves
    others without an answer.

    A connection beyond maxConnections of Tomcat is made by the kernel, so that its client is
    connected and waits, for as long as nobody else disconnects; beyond acceptCount more of them,
    connecting takes 1, 3 or 7 seconds, or fails. Neither the application nor the database shows
    anything of it.

    Trigger: the connections accepted are at least ``AT_LIMIT`` of the most, and in the second half
    of the period most looks at the kernel's list have ``UNACCEPTED_MIN`` or more that wait.

    Thresholds: those of a pooler's listen queue; calibrated by injection, 4 connections for 16
    clients, and 8192, which is Tomcat's own default.
    """
    load = s.front_load
    if isnan(load.unaccepted):
        raise Skip("how many connections wait to be accepted was not recorded")
    evidence = _front_accept_queue_evidence(s)
    if load.clients < AT_LIMIT * load.clients_max or load.unaccepted < UNACCEPTED_MIN:
        return Cleared("the web server accepts the connections of all clients", evidence)
    share = load.unaccepted / (load.clients + load.unaccepted)
    proposals = room_for_all(s, s.loop)
    taken = not proposals and others_take_cores(s, room_for_all)
    return Found(
        sentence=(
            f"{counted(load.unaccepted, 'connection waits', 'connections wait')} to be accepted by"
            f" the web server, which has {figure(load.clients)} (maxConnections ="
            f" {figure(load.clients_max)}): neither it nor the database shows them"
            f"{', and other work takes the cores that they would need' if taken else ''}"
        ),
        share=share,
        removable_share=share,
        confidence=0.9,
        evidence=evidence,
        severity="will fail",
        proposals=proposals,
        advice=FRONT_ACCEPT_QUEUE_ADVICE,
    )


def _front_accept_queue_evidence(s: Situation) -> list[Evidence]:
    load = s.front_load
    bar = f"at least {UNACCEPTED_MIN} in most looks of the second half"
    return [
        s.evidence("connections that wait to be accepted", load.unaccepted, "count", bar),
        s.evidence("connections accepted", load.clients, "count"),
        s.evidence(
            "maxConnections", load.clients_max, "count", f"at least {percent(AT_LIMIT)} in use"
        ),
    ]


WAIT_SHARE = 0.2
FRONT_POOL_IN_USE = 0.85
KEPT_SHARE = 0.25
"""Connections never returned, as a part of all, from which on they are the finding."""


@rule(
    "front-pool",
    of_clients=True,
    false_positives=(
        "a pool kept small on purpose to protect the server; an application that keeps its"
        " connection while it waits for something else, which a larger pool would only hide"
    ),
)
def front_pool(s: Situation) -> Found | Cleared:
    """Application pool: requests queue within the web application for a connection of its pool.

    Trigger: requests wait for at least ``WAIT_SHARE`` of their response time for a connection, by
    the application's own clock, and at least ``FRONT_POOL_IN_USE`` of the pool's connections are
    lent, on average. The database is not asked: it sees a few sessions and no queue. If the model
    predicts that more of them would do no more work, the database is the limit and not the pool;
    but if they would, had the load the cores that other work keeps busy, the pool is a limit too,
    and there is nothing to propose.

    Of a web server of the user's the same is read from its own figures (``http.metrics``), the wait
    by Little's law from the requests that they show waiting; nothing is proposed.

    Connections that were never returned are no such limit (``front_leak``), and a pool in the
    clients of the load is another one (``client_pool``).

    Source: a public post of 2010 on a Tomcat in front of PostgreSQL: throughput flat from 15 of 50
    clients on, both machines idle, never more than 8 connections, the default of Commons DBCP then
    and now. Thresholds: those of the client pool; calibrated by injection, DBCP2 with 2 connections
    for 16 clients, and with 16.
    """
    if s.front is None:
        return _front_pool_of_foreign(s)
    load, share = s.front_load, s.budget.own_share("front pool")
    in_use, evidence = load.pool_in_use, _front_pool_evidence(s, share)
    waits = figure(s.budget.parts_ms.get("front pool", 0.0))
    of = f"{waits} of {figure(s.budget.response_ms)} ms"
    size = f"{figure(load.pool_max)} connections"
    pool = f"{s.front.pool_title}, {s.front.size_name}"
    if share < WAIT_SHARE or in_use < FRONT_POOL_IN_USE:
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
            f" ({pool}){_front_pool_machine_words(s) if proposals else TAKEN}"
        ),
        parts=("front pool",),
        removable_share=proposals[0].prediction.lifted if proposals else 0.0,
        confidence=0.95,
        evidence=evidence,
        causes=("commit-flush",) if s.budget.service_share("flush", "images") >= 0.5 else (),
        proposals=proposals,
    )


def _front_pool_of_foreign(s: Situation) -> Found | Cleared:
    """Examine the figures of a web server of the user's, of which nothing is changed."""
    front = figures_of_users_front(s)
    if front.pool_max is None or front.pool_active is None or front.pool_waiting is None:
        raise Skip("the web server's figures do not tell its pool and who waits for it")
    share, in_use = s.budget.own_share("front pool"), front.pool_active / front.pool_max
    evidence = [
        s.evidence("wait for a connection / response time", share, "share",
                   f"at least {percent(WAIT_SHARE)}"),
        s.evidence("response time", s.budget.response_ms, "ms"),
        s.evidence("connections lent / pool size", in_use, "share",
                   f"at least {percent(FRONT_POOL_IN_USE)}"),
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
    if share < WAIT_SHARE or in_use < FRONT_POOL_IN_USE:
        return Cleared(waits, evidence, parts=("front pool",))
    idle = _idle_share(s)
    if idle is not None and idle < SPARE_SHARE:
        waits += ", while the cores of this machine are busy"
    return Found(
        sentence=waits
        if idle is None or idle < SPARE_SHARE
        else f"{waits}{_front_pool_machine_words(s)}",
        parts=("front pool",),
        removable_share=front.pool_waiting / (front.pool_waiting + front.pool_active),
        confidence=0.9,
        evidence=evidence,
        advice=FOREIGN_POOL_ADVICE,
    )


def _front_pool_machine_words(s: Situation) -> str:
    idle = _idle_share(s)
    return "" if idle is None else f" while the server's machine is {percent(idle)} idle"


def _idle_share(s: Situation) -> float | None:
    return None if s.cpu_if_recorded is None else s.cpu.idle_share


def _front_pool_evidence(s: Situation, share: float) -> list[Evidence]:
    load, bar = s.front_load, f"at least {percent(WAIT_SHARE)}"
    in_use = load.pool_in_use
    evidence = [
        s.evidence("wait for a connection / response time", share, "share", bar),
        s.evidence("wait for a connection", s.budget.parts_ms.get("front pool", 0.0), "ms"),
        s.evidence("response time", s.budget.response_ms, "ms"),
        s.evidence(
            "connections lent / pool size",
            in_use,
            "share",
            f"at least {percent(FRONT_POOL_IN_USE)}",
        ),
        s.evidence("pool size", load.pool_max, "count"),
        s.evidence("requests waiting for a connection", load.waiting, "count"),
        s.evidence("sessions at work in the server", s.sessions_at_work, "sessions"),
        s.evidence("clients", sum(group.clients for group in s.groups), "count"),
        s.evidence(
            "requests refused because no connection was free", load.pool_refused_s, "per second"
        ),
    ]
    idle = _idle_share(s)
    return evidence if idle is None else [*evidence, s.evidence("host CPU idle", idle, "share")]


BUSY = 0.9
WAITING_MAX = 0.5
"""Part of the busy threads that wait for a connection, from which on the pool is the limit."""
FRONT_THREADS_ADVICE = (
    "give the connector more threads (maxThreads of Tomcat), and the pool as many connections as"
    " they use at once"
)


@rule(
    "front-threads",
    of_clients=True,
    false_positives=(
        "threads kept few on purpose; a queue of a moment, seen because the executor is read once"
        " a second"
    ),
)
def front_threads(s: Situation) -> Found | Cleared:
    """Connector threads: requests wait in the web server for a thread, before the application
    begins.

    Trigger: at least ``BUSY`` of the connector's threads are busy on average, requests are seen
    waiting for one, and they wait for at least ``WAIT_SHARE`` of their response time: by Little's
    law, from the length of the executor's queue. Where the threads themselves mostly wait for a
    connection, the pool is the limit and not the threads (``front_pool``). Of a web server of the
    user's the same is read from its own figures (``http.metrics``): as many requests wait as are
    under way, by Little's law, beyond the busy threads.

    Thresholds: those of the client pool; calibrated by injection, 2 threads for 16 clients, and
    200. Tomcat's own default is 200.
    """
    if s.front is None:
        return _front_threads_of_foreign(s)
    load, share = s.front_load, s.budget.own_share("connector")
    evidence = _front_threads_evidence(s, share)
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
        removable_share=proposals[0].prediction.lifted if proposals else 0.0,
        confidence=0.9,
        evidence=evidence,
        proposals=proposals,
        advice=FRONT_THREADS_ADVICE,
    )


def _front_threads_of_foreign(s: Situation) -> Found | Cleared:
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
        removable_share=1.0,
        confidence=0.8,
        evidence=evidence,
        advice=(
            f"{FRONT_THREADS_ADVICE}; pgdyno changes nothing of a web server that it did not start"
        ),
    )


def _front_threads_evidence(s: Situation, share: float) -> list[Evidence]:
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


DATABASE_SHARE = 0.5
WEB_SERVER_IN_USE = 0.8
DEFAULTS = {
    8: "the default of Commons DBCP",
    10: "the default of HikariCP",
    100: "the default of Tomcat JDBC",
}
"""Sizes that pools have unless they are set."""
SERVER_ADVICE = (
    "look at the web server: threads of its connector, CPU time of the application, what else it"
    " waits for (--front-metrics reads its own figures); the database is not asked for more than"
    " this"
)


@rule(
    "web-server",
    of_clients=True,
    false_positives=(
        "requests that use no database; sessions of other applications, which count as its own; a"
        " web server that asks another one"
    ),
)
def web_server(s: Situation) -> Found | Cleared:
    """Web server: requests wait in a web server of the user's, or before it, and not in the
    database.

    What the load sees is HTTP, what pgdyno sees of the web server is nothing; but of the requests
    under way, by Little's law, it knows how many sessions of the database are at work. Trigger:
    these are less than ``DATABASE_SHARE`` of the requests. Then it says which queue it is:

    - the database's sessions are in a transaction for at least ``WEB_SERVER_IN_USE`` of the time,
      and fewer than the requests: the application's pool of connections, of as many as there are
      sessions. A number that is a pool's default names the pool. Where the web server's own figures
      are given, they say so instead (``front_pool``);
    - they rest: the web server itself, its threads or its CPU, or the network before it. If the
      cores of its machine rest too, nobody works, and it is a queue (threads, a lock, another
      service).

    Sessions of others count as the web server's: on a server that others use, it errs towards the
    database. Sources: a public post of 2010, in which a count of pg_stat_activity at 8, the default
    of Commons DBCP, showed what neither machine's CPU nor the generator did; defaults from the
    pools' own documentation. Thresholds: half, from which on the database is the larger part; that
    of the client pool. Calibrated by injection: DBCP2 with 2 connections for 16 clients, and a page
    without statements.
    """
    if not s.is_http or s.front is not None:
        raise Skip("the clients do not send requests to a web server of yours")
    if not s.waits:
        raise Skip("the sessions of the database were not seen")
    on_server = sessions_on_server(s)
    # Responses that end in a short period may have begun long before it.
    within_ms = s.budget.service_ms + s.budget.parts_ms.get("front pool", 0.0)
    requests = min(s.throughput_tps * within_ms / 1000, float(s.sessions_max))
    share = s.sessions_at_work / requests if requests > 0 else 1.0
    evidence = _web_server_evidence(s, requests, on_server, share)
    at_work = f"{figure(s.sessions_at_work)} of {figure(on_server)} sessions of the database"
    under_way = f"of {figure(requests)} requests under way"
    if share >= DATABASE_SHARE:
        return Cleared(
            f"{under_way}, {at_work} are at work: most of their time is the database's",
            evidence,
            parts=("web server",),
        )
    away = max(0.0, 1.0 - share)
    if s.budget.share("front pool") >= away / 2:
        return Cleared(
            f"{under_way}, {at_work} are at work; most of the others wait for a connection, by the"
            " web server's own figures",
            evidence,
            parts=("web server",),
        )
    pool_is_full = 0 < WEB_SERVER_IN_USE * on_server <= s.sessions_at_work
    sentence = (
        _for_connections(s, on_server)
        if pool_is_full
        else f"only {at_work} are at work: {percent(away)} of their time passes in the web server"
        f" or on the way{_web_server_machine_words(s)}"
    )
    return Found(
        sentence=f"{under_way}, {sentence}",
        parts=("web server",),
        removable_share=away,
        confidence=0.8 if pool_is_full else 0.7,
        evidence=evidence,
        advice=FOREIGN_POOL_ADVICE if pool_is_full else SERVER_ADVICE,
    )


def _for_connections(s: Situation, on_server: float) -> str:
    size = round(on_server)
    known = f", {DEFAULTS[size]}" if size in DEFAULTS else ""
    return (
        f"all but {figure(s.sessions_at_work)} wait in the web server for one of {size} connections"
        f" to the database{known}: these are in a transaction"
        f" {percent(s.sessions_at_work / on_server)} of the time"
    )


def _web_server_machine_words(s: Situation) -> str:
    cpu = s.cpu_if_recorded
    return "" if cpu is None else f", while this machine's cores are {percent(cpu.idle_share)} idle"


def _web_server_evidence(
    s: Situation, requests: float, on_server: float, share: float
) -> list[Evidence]:
    bar = f"less than {percent(DATABASE_SHARE)}"
    evidence = [
        s.evidence("requests under way", requests, "count"),
        s.evidence("sessions at work in the database", s.sessions_at_work, "sessions"),
        s.evidence("sessions of the database", on_server, "sessions"),
        s.evidence("sessions at work / requests under way", share, "share", bar),
    ]
    cpu = s.cpu_if_recorded
    return evidence if cpu is None else [*evidence, s.evidence("CPU idle", cpu.idle_share, "share")]
