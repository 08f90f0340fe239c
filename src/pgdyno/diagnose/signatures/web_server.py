"""Web server: requests wait in a web server of the user's, or before it, and not in the database.

What the load sees is HTTP, what pgdyno sees of the web server is nothing; but of the requests under
way, by Little's law, it knows how many sessions of the database are at work. Trigger: these are
less than ``DATABASE_SHARE`` of the requests. Then it says which queue it is:

- the database's sessions are in a transaction for at least ``IN_USE`` of the time, and fewer than
  the requests: the application's pool of connections, of as many as there are sessions. A number
  that is a pool's default names the pool. Where the web server's own figures are given, they say so
  instead (``front_pool``);
- they rest: the web server itself, its threads or its CPU, or the network before it. If the cores
  of its machine rest too, nobody works, and it is a queue (threads, a lock, another service).

Sessions of others count as the web server's: on a server that others use, it errs towards the
database. Sources: a public post of 2010, in which a count of pg_stat_activity at 8, the default of
Commons DBCP, showed what neither machine's CPU nor the generator did; defaults from the pools' own
documentation. Thresholds: half, from which on the database is the larger part; that of the client
pool. Calibrated by injection: DBCP2 with 2 connections for 16 clients, and a page without
statements.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from pgdyno.diagnose._front_pools import FOREIGN_POOL_ADVICE
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.slices import CLIENT_BACKEND
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence, Skip

DATABASE_SHARE = 0.5
IN_USE = 0.8
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


def examine(s: Situation) -> Found | Cleared:
    """Compare the requests under way with the sessions at work."""
    if not s.is_http or s.front is not None:
        raise Skip("the clients do not send requests to a web server of yours")
    on_server = _sessions(s)
    # Responses that end in a short period may have begun long before it.
    within_ms = s.budget.service_ms + s.budget.parts_ms.get("front pool", 0.0)
    requests = min(s.throughput_tps * within_ms / 1000, float(s.sessions_max))
    share = s.sessions_at_work / requests if requests > 0 else 1.0
    evidence = _evidence(s, requests, on_server, share)
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
    if 0 < IN_USE * on_server <= s.sessions_at_work:
        size = round(on_server)
        known = f", {DEFAULTS[size]}" if size in DEFAULTS else ""
        return Found(
            sentence=(
                f"{under_way}, all but {figure(s.sessions_at_work)} wait in the web server for one"
                f" of {size} connections to the database{known}: these are in a transaction"
                f" {percent(s.sessions_at_work / on_server)} of the time"
            ),
            parts=("web server",),
            liftable=away,
            confidence=0.8,
            evidence=evidence,
            advice=FOREIGN_POOL_ADVICE,
        )
    return Found(
        sentence=(
            f"{under_way}, only {at_work} are at work: {percent(away)} of their time passes in the"
            f" web server or on the way{_machine_words(s)}"
        ),
        parts=("web server",),
        liftable=away,
        confidence=0.7,
        evidence=evidence,
        advice=SERVER_ADVICE,
    )


def _machine_words(s: Situation) -> str:
    cpu = s.cpu_if_recorded
    return "" if cpu is None else f", while this machine's cores are {percent(cpu.idle_share)} idle"


def _sessions(s: Situation) -> float:
    """Return the client sessions of the database, in any state, usually."""
    if not s.waits:
        raise Skip("the sessions of the database were not seen")
    seen = s.run.wait_series(s.slice_ids)
    counts: dict[int, float] = defaultdict(float)
    for at_ms, kind, average in zip(
        seen["at_ms"], seen["backend_type"], seen["average"], strict=True
    ):
        counts[int(at_ms)] += float(average) if kind == CLIENT_BACKEND else 0.0
    return median(counts.values()) if counts else 0.0


def _evidence(s: Situation, requests: float, on_server: float, share: float) -> list[Evidence]:
    bar = f"less than {percent(DATABASE_SHARE)}"
    evidence = [
        s.evidence("requests under way", requests, "count"),
        s.evidence("sessions at work in the database", s.sessions_at_work, "sessions"),
        s.evidence("sessions of the database", on_server, "sessions"),
        s.evidence("sessions at work / requests under way", share, "share", bar),
    ]
    cpu = s.cpu_if_recorded
    return evidence if cpu is None else [*evidence, s.evidence("CPU idle", cpu.idle_share, "share")]


SIGNATURE = Signature(
    id="web-server",
    false_positives=(
        "requests that use no database; sessions of other applications, which count as its own; a"
        " web server that asks another one"
    ),
    examine=examine,
    of_clients=True,
)
