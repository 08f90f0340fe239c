"""Limits of the load itself: its machine, its clients and their pool."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.facts.groups import MeasuredGroup
from pgdyno.facts.sessions import SPARE_SHARE
from pgdyno.facts.situation import Situation
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence, Skip
from pgdyno.rules._pools import IDLE_SHARE, RUNNABLE_PER_CORE, cores_taken, larger_pools
from pgdyno.rules.rule import Cleared, Found, rule

WANTED = 0.9
LAG_SHARE = 0.25


class _Thread(Struct, frozen=True):
    """A thread of the generator; times are shares of the period."""

    busy: float
    queued: float

    @property
    def wanted(self) -> float:
        return self.busy + self.queued

    @property
    def saturated(self) -> bool:
        """True if its own work delays sending."""
        return self.wanted >= WANTED and self.busy >= self.queued


@rule(
    "client-limited",
    of_clients=True,
    false_positives=(
        "a script that is meant to compute much in the client; a machine so busy otherwise that"
        " the generator hardly runs"
    ),
)
def client_limited(s: Situation) -> Found | Cleared:
    """Client-limited: the load generator itself is the limit, so the server was not measured.

    Trigger: a thread of the generator wants a core at least ``WANTED`` of the time, running or
    ready to run. If it runs for most of that, its own work is the limit, and it cannot send faster.
    If it mostly waits for a core, it is short of one: the finding then also needs ``LAG_SHARE`` of
    the response time to be lost by sending late.

    In an open loop a transaction also waits for a client that is free. That queue is the server's
    doing or the rate's, and no lag of the generator: only what is sent late, with a client and a
    connection at hand, counts as that.

    A generator that shares the host's cores with a saturated server is late now and then without
    being the limit: its thread waits for a core but wants little of one. How much of the host's CPU
    it takes is evidence either way.

    Thresholds: no published tool has one; calibrated by injection, scripts that compute a lot in
    the client, and a generator on two cores beside 16 sessions.
    """
    worst = max(_threads(s), key=lambda thread: thread.wanted)
    lag = s.budget.own_share("client lag")
    evidence = _client_limited_evidence(s, worst, lag)
    if not worst.saturated and (worst.wanted < WANTED or lag < LAG_SHARE):
        return Cleared(
            f"the load generator's busiest thread uses {percent(worst.busy)} of a core",
            evidence,
            parts=("client lag",),
        )
    if worst.saturated:
        sentence = (
            f"the load generator is the limit: a thread of it uses {percent(worst.busy)} of a core"
        )
    else:
        sentence = (
            f"the load generator is short of CPU: it sends {figure(_late_ms(s))} ms late at the"
            f" 99th percentile, {percent(lag)} of the response time"
        )
    return Found(
        sentence=sentence,
        parts=("client lag",),
        removable_share=1.0,
        confidence=0.9 if worst.saturated else 0.7,
        evidence=evidence,
        causes_distrust=True,
    )


def _threads(s: Situation) -> list[_Thread]:
    series = s.run.series("metric_generator", s.slice_ids)
    threads = []
    for number in sorted(set(series["thread"])):
        mine = series["thread"] == number
        lasted_us = series["duration_ms"][mine].sum() * 1000
        used_us = (series["cpu_user_us"] + series["cpu_system_us"])[mine].sum()
        queued_us = series["run_queue_delay_us"][mine].sum()
        if lasted_us > 0:
            threads.append(_Thread(float(used_us / lasted_us), float(queued_us / lasted_us)))
    if not threads:
        raise Skip("the load generator's own figures were not recorded")
    return threads


def _late_ms(s: Situation) -> float:
    late_ns: int = s.run.histogram("send_late", s.slice_ids).percentile(99)
    return late_ns / 1e6


def _client_limited_evidence(s: Situation, worst: _Thread, lag: float) -> list[Evidence]:
    evidence = [
        s.evidence(
            "busiest thread of the generator, running or ready to run",
            worst.wanted,
            "share",
            f"at least {percent(WANTED)}",
        ),
        s.evidence("of this, ready but without a core", worst.queued, "share"),
        s.evidence("sent late, 99th percentile", _late_ms(s), "ms"),
        s.evidence(
            "lag of the clients / response time", lag, "share", f"{percent(LAG_SHARE)} if starved"
        ),
        s.evidence(
            "longest stall of its event loop",
            s.run.generator(s.slice_ids).loop_stall_us_max / 1000,
            "ms",
        ),
    ]
    if s.cpu_if_recorded is not None:
        evidence.append(
            s.evidence("generator / host CPU", s.generator_cores / s.cpu.cores, "share")
        )
    return evidence


LATE_SHARE = 0.15
_CAUSES = ("client-limited", "other-programs", "cpu-steal", "connections", "server-cpu")
ADVICE = (
    "run the load generator on another machine, or with fewer clients; the times without these"
    " pauses are those of each statement"
)


@rule(
    "late-pauses",
    of_clients=True,
    false_positives=(
        "a script whose pauses depend on what its statements return; work of the client between"
        " statements, such as a script of long expressions"
    ),
)
def late_pauses(s: Situation) -> Found | Cleared:
    r"""Late pauses: clients wake from the pauses of their script later than it asks for.

    Trigger: what pauses take beyond what ``\sleep`` asks for is at least ``LATE_SHARE`` of the
    response time. A client wakes late where its machine has no idle core for it, or where the load
    generator's thread is busy with others. The time is none of the server's, though the response
    time has it.

    Where sessions queue for the same cores the generator is one of those who wait: what makes them
    busy is then the cause. The gain is what the model predicts without the lateness.

    Threshold: 15 %, the smallest part of the response time that needs an explanation.
    """
    late_ms, share = s.budget.parts_ms.get("late", 0.0), s.budget.own_share("late")
    evidence = _late_pauses_evidence(s, late_ms, share)
    sentence = (
        f"clients wake {figure(late_ms)} ms later from the pauses of their script than it asks for"
    )
    if share < LATE_SHARE:
        return Cleared(sentence, evidence, parts=("late",))
    return Found(
        sentence=f"{sentence}, {percent(share)} of {s.budget.own_title}{_why(s)}",
        parts=("late",),
        removable_share=1.0 - 1.0 / max(1.0, _ratio(s, late_ms)),
        confidence=0.7,
        evidence=evidence,
        causes=_CAUSES,
        advice=ADVICE,
    )


def _why(s: Situation) -> str:
    cpu, beside = s.cpu_if_recorded, s.run.run.host.get("same_host_as_server")
    if beside and cpu is not None and cpu.idle_share < SPARE_SHARE:
        return ": hardly a core is idle for the load generator, which runs beside the server"
    return ": this is the load generator's time and not the server's"


def _ratio(s: Situation, late_ms: float) -> float:
    """Return the predicted ratio without the lateness, which is part of the model's rest."""
    punctual = replace(s.loop, rest_s=max(0.0, s.loop.rest_s - late_ms / 1000))
    return punctual.predict() / s.loop.predict()


def _late_pauses_evidence(s: Situation, late_ms: float, share: float) -> list[Evidence]:
    generator = s.run.generator(s.slice_ids)
    evidence = [
        s.evidence("lateness / response time", share, "share", f"at least {percent(LATE_SHARE)}"),
        s.evidence("lateness after pauses of the script", late_ms, "ms"),
        s.evidence("pauses of the script", s.budget.parts_ms.get("pause", 0.0), "ms"),
        s.evidence("load generator", s.generator_cores, "cores"),
        s.evidence("longest stall of its event loop", generator.loop_stall_us_max / 1000, "ms"),
    ]
    if s.cpu_if_recorded is not None:
        evidence.append(s.evidence("host CPU idle", s.cpu.idle_share, "share"))
    return evidence


WAIT_SHARE = 0.2
IN_USE = 0.85


@rule(
    "client-pool",
    of_clients=True,
    false_positives=(
        "a pool kept small on purpose to protect the server; connections held while the client"
        " does something else, which a larger pool would only hide"
    ),
)
def client_pool(s: Situation) -> Found | Cleared:
    """Client pool limit: clients queue for a connection while the server could do more.

    Trigger: clients of a group wait for a connection for at least ``WAIT_SHARE`` of the time of a
    transaction, the pool's connections are in use nearly all the time, the host's CPU is not
    saturated, and the model predicts that more sessions would do more work.

    In an open loop that asks for more than the server can do, any pool is in use all the time, and
    the wait for a free client grows without end; it is no part of that time. That alone makes no
    pool limit: the model's prediction decides, as in a closed loop, and the intended and the
    reached rate are evidence.

    Where other programs keep the cores busy, the pool is still what clients wait for, but more
    sessions are not predicted to do more work.

    Thresholds: no published tool has one (it takes the clients' own clocks); calibrated by
    injection, pools of 2 against 16 clients and of 16 against 8.
    """
    pooled = [group for group in s.groups if group.pool_max is not None]
    if not pooled:
        return Cleared("no client group has a pool", [s.evidence("client pools", 0, "count")])
    group = max(pooled, key=_wait_share)
    evidence = _client_pool_evidence(s, group)
    if _wait_share(group) < WAIT_SHARE or _in_use(group) < IN_USE:
        return Cleared(
            f"clients wait {percent(_wait_share(group))} of their time for {group.one_of_pool}",
            evidence,
            parts=("pool wait",),
        )
    idle, proposals = _idle_share(s), larger_pools(s, group)
    if not proposals and not cores_taken(s):
        return Cleared(
            f"clients queue for {group.pool_words}, but the server is busy:"
            " with more of them they would queue inside it",
            evidence,
        )
    server = "" if idle is None else f" while the server's machine is {percent(idle)} idle"
    if cores_taken(s):
        server = ", and other programs take the cores that more of them would need"
    return Found(
        sentence=(
            f"clients wait {figure(group.pool_wait_ms)} of {figure(group.pooled_ms)} ms for"
            f" {group.one_of_pool}{server}"
        ),
        parts=("pool wait",),
        removable_share=proposals[0].prediction.lifted if proposals else 0.0,
        confidence=0.9 if idle is not None else 0.6,
        evidence=evidence,
        causes=("commit-flush",) if s.budget.service_share("flush", "images") >= 0.5 else (),
        proposals=proposals,
    )


def _wait_share(group: MeasuredGroup) -> float:
    return group.pool_wait_ms / group.pooled_ms if group.pooled_ms else 0.0


def _in_use(group: MeasuredGroup) -> float:
    return group.in_service / group.pooled if group.pooled else 0.0


def _idle_share(s: Situation) -> float | None:
    return None if s.cpu_if_recorded is None else s.cpu.idle_share


def _client_pool_evidence(s: Situation, group: MeasuredGroup) -> list[Evidence]:
    evidence = [
        s.evidence(
            "wait for a connection / time of a transaction",
            _wait_share(group),
            "share",
            f"at least {percent(WAIT_SHARE)}",
        ),
        s.evidence("wait for a connection", group.pool_wait_ms, "ms"),
        s.evidence("time of a transaction with it", group.pooled_ms, "ms"),
        s.evidence(
            "connections in use / pool size", _in_use(group), "share", f"at least {percent(IN_USE)}"
        ),
        s.evidence("pool size", group.pool_max, "count"),
        s.evidence("instances", group.instances, "count"),
        s.evidence("clients", group.clients, "count"),
    ]
    for account in s.accounts:
        if account.name == group.name and account.asked_tps is not None:
            evidence += [
                s.evidence("intended rate", account.asked_tps, "tps"),
                s.evidence("reached rate", account.done_tps, "tps"),
            ]
    idle = _idle_share(s)
    if idle is not None:
        evidence += [
            s.evidence("host CPU idle", idle, "share", f"at least {percent(IDLE_SHARE)}"),
            s.evidence(
                "sessions running or ready to run",
                s.runnable,
                "sessions",
                f"or less than {RUNNABLE_PER_CORE:g} per core",
            ),
        ]
    return evidence
