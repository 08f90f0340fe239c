"""The processes of an application in front of the server."""

from __future__ import annotations

from pgdyno.facts.budget import QUEUES, Part
from pgdyno.facts.front import NO_FRONT, PageLoad
from pgdyno.facts.sessions import SPARE_SHARE
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Proposal, Skip
from pgdyno.rules._cpu_uses import cpu_parts, cpu_uses, ratio_without, response_share
from pgdyno.rules._pools import worthwhile
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.wait_events import HEAVYWEIGHT

SHARE = 0.2
CORES_SHARE = 0.3
MOST = 0.5
"""Part of the load's CPU time from which on the cores are busy with the virtual machine."""
FRONT_CPU_ADVICE = (
    "profile the application (Java Flight Recorder, async-profiler); compute less for each request,"
    " keep what was computed, let the database do what it does better, or add machines for the"
    " application: more connections would not help"
)


@rule(
    "front-cpu",
    of_clients=True,
    false_positives=(
        "a virtual machine that has just started and still compiles; other programs that take the"
        " cores, so that the application waits for one"
    ),
)
def front_cpu(s: Situation) -> Found | Cleared:
    """Application CPU: the web application computes while the database waits for it.

    Trigger: at least ``SHARE`` of the response time is the application's own, by its clock, and its
    virtual machine keeps at least ``CORES_SHARE`` of the machine's cores busy. On busy cores its
    own time includes the queue for them; where it is what keeps them busy, requests also queue for
    a core before the application begins, which looks like the way there. Garbage collection is a
    finding of its own (``front_collection``).

    Thresholds: a fifth of the response time as for other layers; 30 % of the cores, where its CPU
    time is no rounding error; calibrated by injection, a page that sorts in the application and one
    that only reads.
    """
    load, parts = s.front_load, _parts(s)
    share, of_cores = s.budget.share(*parts), load.jvm_cores / s.cores
    own_ms = share * s.budget.response_ms
    evidence = [
        s.evidence("time in the application / response time", share, "share",
                   f"at least {percent(SHARE)}"),
        s.evidence("cores that the virtual machine uses", load.jvm_cores, "cores"),
        s.evidence("of the machine's cores", of_cores, "share", f"at least {percent(CORES_SHARE)}"),
        s.evidence("CPU time of the virtual machine per request",
                   1000 * load.jvm_cores / load.requests_s, "ms"),
    ]  # fmt: skip
    page = max(load.pages, key=_own_time)
    of_page = _own_time(page) / (sum(map(_own_time, load.pages)) or 1.0)
    most = "most of it" if of_page > 0.5 else "the largest part"
    spent = f"{figure(own_ms)} of {figure(s.budget.response_ms)} ms"
    if share < SHARE or of_cores < CORES_SHARE:
        return Cleared(
            f"the application itself takes {spent} and {figure(load.jvm_cores)} cores",
            evidence,
            parts=("application", "http"),
        )
    return Found(
        sentence=(
            f"the application itself takes {spent} and {figure(load.jvm_cores)} of"
            f" {figure(s.cores)} cores, {most} for {page.path}"
        ),
        parts=parts,
        removable_share=1.0,
        confidence=0.8,
        evidence=evidence,
        advice=FRONT_CPU_ADVICE,
    )


def _parts(s: Situation) -> tuple[Part, ...]:
    """Return the parts of the response time that are the application's."""
    cpu, own = s.cpu_if_recorded, s.own_cores
    if cpu is None or own is None or cpu.idle_share >= SPARE_SHARE:
        return ("application",)
    keeps_busy = s.front_load.jvm_cores >= MOST * own
    return ("application", "http", "connector") if keeps_busy else ("application",)


def _own_time(page: PageLoad) -> float:
    return page.requests_s * page.application_ms


TIME_SHARE = 0.1
FRONT_COLLECTION_ADVICE = (
    "give the virtual machine more memory (-Xmx) if the machine has it, or let the application make"
    " fewer objects: profile its allocations (Java Flight Recorder)"
)


@rule(
    "front-collection",
    of_clients=True,
    false_positives="a collector that works beside the application (ZGC), whose time is no pause",
)
def front_collection(s: Situation) -> Found | Cleared:
    """Garbage collection: the application's virtual machine stops all requests to collect garbage.

    Trigger: collections take at least ``TIME_SHARE`` of the time, by the virtual machine's own
    count. Everything within the application stands still meanwhile, whatever a request waits for.

    Threshold: 10 %; 5 % is what Oracle's tuning guide of HotSpot calls high for throughput (its
    goal with GCTimeRatio is 1 %); calibrated by injection, a heap of 24 MB and one of 256 MB.
    """
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
        removable_share=1.0,
        confidence=0.8,
        evidence=evidence,
        advice=FRONT_COLLECTION_ADVICE,
    )


KEPT_MIN = 1
FULL_SHARE = 0.9
FRONT_LEAK_ADVICE = (
    "find where the application forgets to return a connection (leakDetectionThreshold of HikariCP,"
    " logAbandoned and removeAbandonedOnBorrow of DBCP and Tomcat JDBC); a larger pool only lasts"
    " longer"
)


@rule(
    "front-leak",
    of_clients=True,
    false_positives="connections lent to work that goes on after the response, and returns them",
)
def front_leak(s: Situation) -> Found | Cleared:
    """Connection leak: requests of the web application ended without returning their connection.

    Trigger: at least ``KEPT_MIN`` connection was borrowed from the pool by a request that has
    ended, and not returned, by the application's own count. Such a connection is lent for ever: the
    pool becomes smaller by each, until requests wait for one that nobody returns.

    Threshold: one, as no request gives it back; calibrated by injection, a page that keeps its
    connection in 2 requests, with a pool of 4.
    """
    load, share = s.front_load, s.budget.share("front pool")
    evidence = [
        s.evidence("connections never returned", load.pool_kept, "count", f"at least {KEPT_MIN}"),
        s.evidence("connections lent", load.pool_active, "count"),
        s.evidence("pool size", load.pool_max, "count"),
        s.evidence("wait for a connection / response time", share, "share"),
    ]
    kept = counted(round(load.pool_kept), "connection", "connections")
    of = f"{kept} of {figure(load.pool_max)} of the application's pool"
    if load.pool_kept < KEPT_MIN:
        return Cleared("every request returned its connection", evidence)
    return Found(
        sentence=f"{of} were never returned: requests wait {percent(share)} of their time for one",
        share=share,
        removable_share=min(1.0, load.pool_kept / load.pool_max),
        confidence=0.9,
        evidence=evidence,
        advice=FRONT_LEAK_ADVICE,
        severity="will fail" if load.pool_active >= FULL_SHARE * load.pool_max else None,
    )


COST_SHARE = 0.1
FRONT_BATCHES_ADVICE = (
    "set reWriteBatchedInserts=true in the URL of pgjdbc, or write multi-row INSERTs or COPY"
)


@rule(
    "front-batches",
    of_clients=True,
    false_positives="rows that are large, or whose constraints and indexes take most of their time",
)
def front_batches(s: Situation) -> Found | Cleared:
    """Batches: the application inserts rows in batches, and its driver sends each row as a
    statement of its own.

    pgjdbc sends a batch of addBatch whole and waits once for the answers, so that no round trips
    show; but the server still executes a statement for each row. With reWriteBatchedInserts the
    driver makes statements of up to 128 rows out of it: of 100 rows, three.

    Trigger: the driver of the front end that pgdyno started does not do so, and the statements
    beyond those are estimated to take at least ``COST_SHARE`` of what is left of the response time
    without queues for a thread or a connection, which are as long as what is in front of them.

    Threshold: that of other uses of the CPU. Calibrated: a batch of 100 rows took the server 726 us
    in 100 statements and 513 in three; throughput rose 1.29 times (1.21 to 1.39, 6 pairs),
    predicted 1.24.
    """
    if s.front is None:
        raise Skip(NO_FRONT)
    rows_s = s.front_load.batched_rows_s
    alone = 1.0 - s.budget.share(*QUEUES)
    taken = response_share(s, "front-batches") * s.budget.begun
    share = taken / alone if alone > 0 else 0.0
    evidence = [
        s.evidence("rows inserted in batches", rows_s, "per s"),
        s.evidence("reWriteBatchedInserts", str(s.front.rewrites_batches).lower(), ""),
        s.evidence(
            "a statement for each row / response time without queues (estimate)",
            share,
            "share",
            f"at least {percent(COST_SHARE)}",
        ),
    ]
    if not rows_s:
        return Cleared("the application inserts nothing in batches", evidence)
    if s.front.rewrites_batches:
        return Cleared("the driver inserts many rows with one statement", evidence)
    if share < COST_SHARE:
        return Cleared(
            f"{percent(share)} of the time without queues is statements for rows of batches",
            evidence,
        )
    part = cpu_uses(s)["front-batches"]
    ratio = ratio_without(s, part)
    return Found(
        sentence=(
            f"the application inserts {figure(rows_s)} rows/s in batches, of which its driver sends"
            " each as a statement of its own (reWriteBatchedInserts = false): about"
            f" {percent(part)} of the server's CPU time"
        ),
        parts=cpu_parts(s),
        share=taken,
        removable_share=ratio.lifted,
        confidence=0.7,
        evidence=evidence,
        proposals=worthwhile(
            [
                Proposal(
                    remedy_id="rewritten-batches",
                    change=Change(spec={"front.rewrite_batched_inserts": "true"}),
                    predicted_ratio=ratio,
                    why="the server would execute a few statements for each batch",
                    specific=True,
                )
            ]
        ),
        advice=FRONT_BATCHES_ADVICE,
    )


STATEMENTS_MIN = 5.0
_PARTS: tuple[Part, ...] = ("between", "client")
_QUEUED: tuple[Part, ...] = (*QUEUES, *HEAVYWEIGHT)
STATEMENTS_ADVICE = (
    "fetch a list and its items with one statement (a join, = any(array)), write rows in batches"
    " (addBatch with reWriteBatchedInserts=true of pgjdbc, multi-row INSERT), or put the request's"
    " statements into a function"
)


@rule(
    "statements-per-request",
    of_clients=True,
    false_positives="statements that depend on each other's results, which cannot be sent together",
)
def statements_per_request(s: Situation) -> Found | Cleared:
    """Statements per request: a request sends many statements to the database, one after the other.

    Trigger: the requests of a page send at least ``STATEMENTS_MIN`` statements on average, and the
    messages between application and database take at least ``SHARE`` of the response time, or of
    what is left of it without queues: each statement is a round trip. This is the "N+1" of
    object-relational mappers: one statement for a list, and one for each of its items.

    Thresholds: 5 statements, from which on tools such as Hibernate's statistics and Sentry call it
    N+1; a fifth of the time as for other layers. Calibrated by injection: an order of 28 to 32
    statements, and a page of one.
    """
    page = max(s.front_load.pages, key=_sent)
    alone = 1.0 - s.budget.share(*_QUEUED)
    share = s.budget.share(*_PARTS) / alone if alone > 0 else 0.0
    evidence = [
        s.evidence(f"statements per request of {page.path}", page.statements, "count",
                   f"at least {STATEMENTS_MIN:g}"),
        s.evidence("messages to the database / response time without queues", share, "share",
                   f"at least {percent(SHARE)}"),
        s.evidence("time with the database, per request", page.database_ms, "ms"),
    ]  # fmt: skip
    sends = f"a request of {page.path} sends {figure(page.statements)} statements"
    if page.statements < STATEMENTS_MIN or share < SHARE:
        return Cleared(sends, evidence, parts=_PARTS)
    return Found(
        sentence=(
            f"{sends}, one after the other: {percent(share)} of its time, without queues, is"
            " messages between application and database"
        ),
        parts=_PARTS,
        removable_share=1.0 - STATEMENTS_MIN / page.statements,
        confidence=0.7,
        evidence=evidence,
        advice=STATEMENTS_ADVICE,
    )


def _sent(page: PageLoad) -> float:
    return page.requests_s * page.statements
