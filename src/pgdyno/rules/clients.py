"""Too many clients, too few, and the time between their statements."""

from __future__ import annotations

import math

from msgspec.structs import replace

from pgdyno.facts.budget import CLIENT_PARTS, QUEUES, Part, part_words
from pgdyno.facts.flush import device_words
from pgdyno.facts.groups import BUSY_SHARE, GroupAccount
from pgdyno.facts.headroom import queues_for_client
from pgdyno.facts.plans import LONGER_TRANSACTIONS
from pgdyno.facts.scripts import asked_of
from pgdyno.facts.sessions import (
    SPARE_SHARE,
    RoundTrips,
    idle_evidence,
    round_trips_of,
    sessions,
    transfer_ms,
)
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence, Skip
from pgdyno.rules._client_counts import (
    AT_WORK_SHARE,
    clients_for_rate,
    count_for_rate,
    more_clients,
    ratio_of_count,
)
from pgdyno.rules._pools import WORTHWHILE_RATIO
from pgdyno.rules._queues import THINK_MS
from pgdyno.rules.old_transactions import holds_connections
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.wait_events import HEAVYWEIGHT

DOMINATES = 0.5
"""Part of the time in service that makes a wait the limit."""
POOL_SHARE = 0.2
"""Part of the response time without the queue for a client from which on the pool is asked."""
_OVERLAPPED: tuple[Part, ...] = (
    *("running", "between", "client", "pause", "late", "sleep", "commit delay"),
)
"""Parts of the service that more clients spend side by side, as long as cores are idle; with
commit_delay, all that commit meanwhile are flushed together."""


@rule(
    "busy-clients",
    of_clients=True,
    false_positives=(
        "few clients on purpose, as an application with so many threads would have; a load"
        " generator that is the limit itself"
    ),
)
def busy_clients(s: Situation) -> Found | Cleared:
    """Busy clients: transactions of an open loop wait for a free client, and too few clients is
    why.

    Trigger: a group's rate is not held, or held through a queue, and its clients are busy with
    transactions nearly all the time (or, with ``when_busy = "skip"``, transactions were skipped
    because they were). Each client is busy for the response time r without the queue, so that N of
    them carry at most N / r transactions per second (J. D. C. Little, "A proof for the queuing
    formula L = λ W", Operations Research 9, 1961).

    That is a limit of the clients only if more of them would get more done: the server's cores have
    to be idle, and no wait may take ``DOMINATES`` of the time in service, for more clients would
    wait for the same. Otherwise what makes r long is the limit, by its own finding. The network and
    the client's pauses are no such waits: more clients overlap them. Where clients wait for pooled
    connections, the pool is the limit (``client_pool``).

    Thresholds: nearly all is ``BUSY_SHARE`` (see ``facts.groups``), which leaves what passes
    between two transactions; half is what a single wait needs to be the largest.
    """
    rates = [account for account in s.accounts if account.asked_tps and account.ledger.done]
    if not rates:
        return Cleared("no client group has a rate", [s.evidence("open loops", 0, "count")])
    account = max(rates, key=_shortfall)
    evidence = _busy_clients_evidence(s, account)
    if not _waits_for_clients(s, account):
        share = percent(min(1.0, account.busy_share))
        return Cleared(f"clients are busy {share} of the time", evidence, parts=("queue",))
    busy = _busy_words(s, account)
    if why := _why_no_more(s, account):
        return Cleared(f"{busy}; {why}", evidence)
    lost = account.ledger.skipped / account.ledger.intended
    return Found(
        sentence=f"{busy}{_idle_words(s)}",
        parts=("queue",),
        share=max(s.budget.share("queue"), lost),
        removable_share=1.0,
        confidence=0.9 if s.cpu_if_recorded is not None else 0.6,
        evidence=evidence,
        causes=LONGER_TRANSACTIONS,
        proposals=clients_for_rate(s, account),
        advice=_advice(account),
    )


def _shortfall(account: GroupAccount) -> float:
    """Return the part of the due transactions that was not done."""
    return 1.0 - account.done_tps / account.asked_tps if account.asked_tps else 0.0


def _waits_for_clients(s: Situation, account: GroupAccount) -> bool:
    queued = account.busy_share >= BUSY_SHARE and queues_for_client(s, account.name)
    return account.wants_free_clients or queued


def _busy_words(s: Situation, account: GroupAccount) -> str:
    """Return "arrivals of 2,000/s wait because all 4 clients are busy: …"."""
    one = account.clients == 1
    who = "the client is" if one else f"all {account.clients:,} clients are"
    happens = "are skipped" if account.skips_when_busy else "wait"
    carry = "carries" if one else "carry"
    return (
        f"transactions due at {figure(account.asked_tps or 0.0)} per second {happens} because"
        f" {who} busy: with {figure(account.busy_ms)} ms for each, {'it' if one else 'they'}"
        f" {carry} at most {figure(account.carried_tps_max)} tps"
    )


def _why_no_more(s: Situation, account: GroupAccount) -> str:
    """Return why more clients would not do more; '' if they would."""
    group = s.group(account.name)
    if group.pool_max is not None and group.pool_wait_ms >= POOL_SHARE * account.busy_ms:
        return "more of them would wait for pooled connections as well"
    cpu = s.cpu_if_recorded
    if cpu is not None and cpu.idle_share < SPARE_SHARE:
        return f"the server's cores are {percent(cpu.busy_share)} busy, with none for more clients"
    part, share = _largest_wait(s)
    if share >= DOMINATES:
        return f"{percent(share)} of that time is {part_words(part)}, for which more would wait too"
    count = count_for_rate(s, account)
    if count <= account.clients:
        return "max_connections leaves no sessions for more of them"
    if ratio_of_count(s, account, count) < WORTHWHILE_RATIO:
        return "more of them are not predicted to do more"
    return ""


def _largest_wait(s: Situation) -> tuple[Part, float]:
    """Return the largest wait of the service, and its share of it."""
    waits: list[Part] = [
        part for part in s.budget.parts_ms if part not in (*CLIENT_PARTS, *_OVERLAPPED)
    ]
    if not waits:
        return "other", 0.0
    largest = max(waits, key=lambda part: s.budget.parts_ms[part])
    return largest, s.budget.service_share(largest)


def _idle_words(s: Situation) -> str:
    cpu = s.cpu_if_recorded
    return "" if cpu is None else f", while the server's machine is {percent(cpu.idle_share)} idle"


def _advice(account: GroupAccount) -> str:
    asked = account.asked_tps or 0.0
    needed = asked * account.busy_ms / 1000
    least = math.floor(needed) + 1
    return (
        f"at this response time {figure(asked)} tps keep {figure(needed)} clients busy on average:"
        f" at least {least} are needed, and more where arrivals come together"
    )


def _busy_clients_evidence(s: Situation, account: GroupAccount) -> list[Evidence]:
    part, share = _largest_wait(s)
    return [
        s.evidence("intended rate", account.asked_tps, "tps"),
        s.evidence("reached rate", account.done_tps, "tps"),
        s.evidence("clients", account.clients, "count"),
        s.evidence("a client's time for a transaction", account.busy_ms, "ms"),
        s.evidence("most that they carry, clients / time", account.carried_tps_max, "tps"),
        s.evidence(
            "clients' time in transactions",
            account.busy_share,
            "share",
            f"at least {percent(BUSY_SHARE)}, or skipped when busy",
        ),
        s.evidence(
            f"largest wait ({part_words(part)}) / service",
            share,
            "share",
            f"less than {percent(DOMINATES)}",
        ),
        *idle_evidence(s),
    ]


FEW_CLIENTS_WORTHWHILE_RATIO = 1.2
"""Predicted gain below which a closed loop of few clients is limited by something else."""
LOCKED_SHARE = 0.2
"""Part of the working time in waits for locks above which more clients would wait for them too."""
_SHOWN_SHARE = 0.1


@rule(
    "few-clients",
    of_clients=True,
    false_positives=(
        "a single client on purpose, to measure the response time without others; an application"
        " that really has so few"
    ),
)
def few_clients(s: Situation) -> Found | Cleared:
    """Few clients: one transaction follows another, and the server has nothing else to do.

    Trigger: clients of closed loops that do not rest are no more than the server's cores, without a
    pool, cores are idle, and the model predicts that more of them would do more work. With one
    client throughput is the inverse of the response time, so that whatever the time consists of
    limits this client, and not the server.

    Threshold: as many clients as cores cannot keep these busy while one of them waits for anything;
    calibrated by injection, 1, 2 and 16 clients on 2 cores. Where less than ``SPARE_SHARE`` of the
    cores is idle, whoever uses them, more clients would queue for a core too; and where clients
    wait ``LOCKED_SHARE`` of their time for locks, for these.
    """
    clients = sum(group.clients for group in s.groups)
    if not clients:
        raise Skip("no client completed a transaction")
    evidence = _few_clients_evidence(s, clients)
    those = counted(clients, "client", "clients")
    if s.has_open_loop:
        return Cleared("transactions come at a rate and not one after another", evidence)
    if s.sessions_max < clients or clients > max(1, math.floor(s.cores)):
        return Cleared(f"{those} for {counted(s.cores, 'core', 'cores')}", evidence)
    busy = (s.in_service + s.on_the_way) / clients
    if busy < AT_WORK_SHARE:
        return Cleared(f"clients rest {percent(1 - busy)} of their time", evidence)
    waiting = s.part(*HEAVYWEIGHT)
    if clients > 1 and waiting >= LOCKED_SHARE:
        return Cleared(f"they wait {percent(waiting)} of their time for locks", evidence)
    cpu = s.cpu_if_recorded
    if cpu is not None and cpu.idle_share < SPARE_SHARE:
        return Cleared(
            f"{percent(cpu.idle_share)} of the cores are idle for more clients", evidence
        )
    proposals = more_clients(s, specific=True)
    if not proposals or proposals[0].predicted_ratio < FEW_CLIENTS_WORTHWHILE_RATIO:
        return Cleared(f"more than {those} are not predicted to increase throughput", evidence)
    return Found(
        sentence=(
            f"{'one client sends' if clients == 1 else f'{those} each send'} one transaction after"
            f" another, so throughput is bounded by its response time of"
            f" {figure(s.budget.response_ms)} ms{_consists_of(s)}"
        ),
        share=1.0 if clients == 1 else s.budget.service_ms / s.budget.response_ms,
        removable_share=1.0 if clients == 1 else proposals[0].prediction.lifted,
        confidence=0.9,
        evidence=evidence,
        causes=LONGER_TRANSACTIONS,
        proposals=proposals,
    )


def _consists_of(s: Situation) -> str:
    """Return the largest parts of the response time in words; of a flush also what a sync takes."""
    parts = sorted(s.budget.parts_ms.items(), key=lambda item: -item[1])
    shown = [
        f"{percent(s.budget.share(part))} {part_words(part)}"
        for part, _ in parts[:3]
        if s.budget.share(part) >= _SHOWN_SHARE
    ]
    device = device_words(s) if parts and parts[0][0] in ("flush", "images") else ""
    return (f" ({', '.join(shown)})" if shown else "") + device


def _few_clients_evidence(s: Situation, clients: int) -> list[Evidence]:
    return [
        s.evidence("clients", clients, "count", "at most the cores"),
        s.evidence("cores", s.cores, "count"),
        s.evidence("connections at work", s.in_service, "sessions"),
        s.evidence("response time", s.budget.response_ms, "ms"),
        *idle_evidence(s),
    ]


TRIPS_SHARE = 0.13
ROUND_TRIP_MS_MIN = 0.2
_QUEUES: tuple[Part, ...] = (*QUEUES, *HEAVYWEIGHT)
ROUND_TRIPS_ADVICE = (
    "run the clients nearer to the server; send the statements of a transaction in a pipeline"
    " (\\startpipeline in scripts, pipeline mode in libpq and its drivers), or put them into fewer"
    " statements or a function; more clients at the same time overlap their round trips"
)


@rule(
    "round-trips",
    of_clients=True,
    false_positives=(
        "a script whose every statement takes long in the server, so that none shows the round"
        " trip alone; a load generator that is late to read answers; a pooler with as many"
        " sessions as connections that is itself slow"
    ),
)
def round_trips(s: Situation) -> Found | Cleared:
    r"""Round trips: the time of a transaction goes into messages between client and server.

    Trigger: a round trip takes at least ``ROUND_TRIP_MS_MIN``, and the round trips of a transaction
    at least ``TRIPS_SHARE`` of its response time without queues: who waits for a row waits for the
    round trips of its holder. They are no more than the time in which no session of the server was
    at work and the client was not busy itself: an answer that the client has not asked for yet
    (``\sleep`` inside a transaction) is no round trip, and neither is time in the server. The
    transfer of a large result is none either (``large_results``).

    Distinct from a pooler's queue by the sessions on the server (see ``pooler``), and from idle
    transactions by the clients' own clocks: those lie between an answer and the next statement.

    Thresholds: pg_gather reports a network delay above 20 % of the activity; without a share of
    13 % the throughput would be 1.15 times as high. A round trip within a rack, with the work of
    both ends, takes up to 0.2 ms. Confirmed by injection: a relay that delays each direction by 2.5
    ms (5.6 ms found on a busy machine), and Unix sockets (0.01 to 0.04 ms), over which a round trip
    is never as long.
    """
    trips = round_trips_of(s)
    spent_ms = min(trips.total_ms, _outside_server_ms(s))
    own_ms = s.budget.response_ms * (1.0 - s.budget.share(*_QUEUES))
    share = spent_ms / own_ms if own_ms > 0 else 0.0
    evidence = _round_trips_evidence(s, trips, spent_ms, share)
    number = round(trips.per_transaction, 1)
    words = f"{counted(number, 'round trip', 'round trips')} of {figure(trips.ms_max)} ms"
    if share < TRIPS_SHARE or trips.ms_max < ROUND_TRIP_MS_MIN:
        return Cleared(f"a transaction has {words} at most", evidence, parts=("between",))
    if transfer_ms(s) > spent_ms:
        return Cleared("the time is that of large results, not of round trips", evidence)
    return Found(
        sentence=(
            f"a transaction spends {figure(spent_ms)} of {figure(s.budget.response_ms)} ms in"
            f" {words} between client and server"
        ),
        share=spent_ms / s.budget.response_ms,
        parts=("between",),
        removable_share=1.0,
        confidence=0.9 if trips.per_transaction > 1.5 else 0.7,
        evidence=evidence,
        proposals=more_clients(s),
        advice=ROUND_TRIPS_ADVICE,
    )


def _outside_server_ms(s: Situation) -> float:
    """Return the time of a transaction in which neither the server nor its client was at work."""
    if _pooled(s):
        raise Skip("the time between client and server includes a pooler's")
    return max(0.0, s.budget.parts_ms.get("between", 0.0) - transfer_ms(s))


def _pooled(s: Situation) -> bool:
    try:
        return sessions(s).shared
    except Skip:
        return False


def _ratio_without(s: Situation, spent_ms: float) -> float:
    """Return the model's ratio of throughput without the round trips to that with them."""
    rest_s = max(0.0, s.loop.rest_s - spent_ms / 1000)
    return replace(s.loop, rest_s=rest_s).predict() / s.loop.predict()


def _round_trips_evidence(
    s: Situation, trips: RoundTrips, spent_ms: float, share: float
) -> list[Evidence]:
    bar = f"at least {percent(TRIPS_SHARE)}"
    return [
        s.evidence("round trips / response time without queues", share, "share", bar),
        s.evidence("round trips per transaction", trips.per_transaction, "count"),
        s.evidence(
            "a round trip, at most",
            trips.ms_max,
            "ms",
            f"at least {ROUND_TRIP_MS_MIN:g} ms",
        ),
        s.evidence("client's own time between statements", s.between_statements_ms, "ms"),
        s.evidence("throughput without them, predicted", _ratio_without(s, spent_ms), "times"),
    ]


PAUSE_SHARE = 0.15
CLIENT_PAUSES_ADVICE = (
    "do what the client does between these statements before the transaction begins, or after it"
    " has ended; more clients at the same time overlap their pauses"
)


@rule(
    "client-pauses",
    of_clients=True,
    false_positives="a load generator so late that it does not read answers in time",
)
def client_pauses(s: Situation) -> Found | Cleared:
    r"""Client pauses: clients do something else between the statements of a transaction.

    Trigger: by the clients' own clocks, between an answer and the next statement, pauses within
    transactions take at least ``PAUSE_SHARE`` of the response time, a backlog apart, and at least
    ``THINK_MS`` each transaction unless the script asks for them (``\sleep``). Where others wait
    for the connections that are held meanwhile, ``idle_in_transaction`` explains the same time, and
    this one is cleared.

    Distinct from round trips, which lie between a statement and its answer.

    Threshold: 15 %, the smallest part of the response time that needs an explanation; confirmed by
    injection, transactions that sleep for 10 ms between two statements (15 of 18 ms).
    """
    paused_ms = s.between_statements_ms
    if paused_ms is None:
        raise Skip("no statement was timed")
    inside_ms, share = s.budget.parts_ms.get("client", 0.0), s.budget.own_share("client")
    evidence = _client_pauses_evidence(s, inside_ms, share)
    sentence = (
        f"clients pause for {figure(inside_ms)} of {figure(s.budget.response_ms)} ms between the"
        " statements of a transaction"
    )
    if holds_connections(s):
        return Cleared(f"{sentence}, and hold connections (see idle-in-transaction)", evidence)
    asked = asked_of(s)
    if share < PAUSE_SHARE or (paused_ms < THINK_MS and not asked):
        return Cleared(sentence, evidence, parts=("client",))
    script = ", as the script asks" if asked else ""
    return Found(
        sentence=f"{sentence}{script}: the server waits for them",
        parts=("client",),
        removable_share=1.0,
        confidence=0.9,
        evidence=evidence,
        advice=CLIENT_PAUSES_ADVICE,
    )


def _client_pauses_evidence(s: Situation, inside_ms: float, share: float) -> list[Evidence]:
    bar = f"at least {percent(PAUSE_SHARE)}"
    return [
        s.evidence("pauses within transactions / response time", share, "share", bar),
        s.evidence("pauses within a transaction", inside_ms, "ms"),
        s.evidence(
            "client's own time between statements",
            s.between_statements_ms,
            "ms",
            f"at least {THINK_MS:g} ms, unless the script asks for it",
        ),
        s.evidence("the script asks for pauses of", asked_of(s), "ms"),
        s.evidence("sessions waiting for their client", s.sessions("client"), "sessions"),
    ]
