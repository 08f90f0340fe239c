"""Proposals of pool sizes, larger and smaller, by what the model predicts of them: of clients, of a
pooler and of a web front end that pgdyno started.

Only ``default_pool_size`` of PgBouncer is tried: each client of pgpool-II keeps a connection for as
long as it is there, so that fewer of them leave clients out, and more are the finding
``pooler_client_limit``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from pgdyno.facts.denied_time import FOUND_SHARE
from pgdyno.facts.front import NO_FRONT, ForeignFront
from pgdyno.facts.groups import MeasuredGroup
from pgdyno.facts.model import ClosedLoop
from pgdyno.facts.situation import Situation
from pgdyno.record.finding import Proposal, Skip
from pgdyno.spec.change import Change
from pgdyno.stats.prediction import Prediction

WORTHWHILE_RATIO = 1.03
"""Predicted effects below this are ignored; the smallest effect that matters, also in trials."""
PROPOSALS_MAX = 3
AS_GOOD = 0.92
"""A larger pool predicted this part of a smaller one's gain is proposed instead: the next peak of
the load is not stuck again, and a pool that is too large shows in another rule."""

IDLE_SHARE = 0.08
RUNNABLE_PER_CORE = 0.5
"""Idle share of the cores, and sessions that run or are ready for each, between which a machine is
busy with something else; calibrated by injection, pools of 2 against 16 clients and of 16 against
8."""
_KIND = "pgbouncer"
SESSIONS_PER_CORE_MIN = 4.0
"""Sessions for each core below which no smaller pool is proposed: a session rests while its client
or the pooler has the core for the next statement. Measured with seven loads of pgbench on 2 cores:
4 clients did 0.71 to 1.0 times what 8 did, and 3, which share the cores unevenly, half of that."""
QUEUED_PER_CORE_MIN = 12.0
"""Sessions for each core that run or are ready to, from which on fewer of them are taken to do
more: with the same loads 8 clients did 0.91 to 1.09 times what 16 did, 0.96 to 1.22 times what 24
did, and 0.91 to 1.30 times what 32 did, 1.14 times on average."""
_USUAL_SIZE = 20
"""default_pool_size unless it is set."""
SPARE_CONNECTIONS = 10
"""Beyond those of the load's clients: one that ends is counted until the server notices."""
TAKEN = ", and other work takes the cores that more of them would need"
FOREIGN_POOL_ADVICE = (
    "give the application's pool more connections (maxTotal of Commons DBCP, maximumPoolSize of"
    " HikariCP, maxActive of Tomcat JDBC), as long as the server's cores are not all busy; pgdyno"
    " changes nothing of a web server that it did not start"
)


def cores_taken(s: Situation) -> bool:
    """True if others than this load take the cores that more sessions would need."""
    cpu = s.cpu_if_recorded
    busy = cpu is not None and cpu.idle_share < IDLE_SHARE
    return busy and s.runnable < RUNNABLE_PER_CORE * s.cores


def larger_pools(s: Situation, group: MeasuredGroup) -> list[Proposal]:
    """Larger pools for ``group`` that are predicted to pay, the best first, at most three."""
    assert group.pool_max is not None
    sizes = []
    size = group.pool_max * 2
    clients = -(-group.clients // group.instances)
    while size < clients:
        sizes.append(size)
        size *= 2
    if clients > group.pool_max:
        sizes.append(clients)
    others = s.loop.sessions - group.in_service
    used = group.in_service / group.pool_max  # Of all instances.
    ratios = {size: s.loop.ratio_of_more(others + size * used) for size in sizes}
    return worthwhile(
        Proposal(
            remedy_id="pool-size",
            change=Change(pool_max={group.name: size}),
            predicted_ratio=ratio,
            why=f"{size * group.instances} sessions overlap their waits; the CPU bounds what they"
            " gain",
            specific=True,
        )
        for size, ratio in ratios.items()
        if not any(ratios[more].low >= AS_GOOD * ratio.low for more in sizes if more > size)
    )


def smaller_pools(s: Situation) -> list[Proposal]:
    """Pools of about four to eight sessions a core, shared out among the groups as they are now."""
    return worthwhile(
        Proposal(
            remedy_id="pool-size",
            change=Change(pool_max=_divided(s, size)),
            predicted_ratio=ratio,
            why=f"{size} sessions keep {s.cores:g} cores busy without queueing for them",
        )
        for size, ratio in _ratios_of_few(s, s.loop).items()
    )


def _ratios_of_few(s: Situation, loop: ClosedLoop) -> dict[int, Prediction]:
    """Return numbers of sessions that keep the cores busy, from ``SESSIONS_PER_CORE_MIN`` on and
    fewer than now → the predicted ratio, where that is known well enough."""
    sizes = sorted({round(times * SESSIONS_PER_CORE_MIN * s.cores) for times in (1, 1.5, 2)})
    ratios = {size: loop.ratio(sessions=float(size)) for size in sizes if size < loop.sessions}
    is_long = s.queueing >= QUEUED_PER_CORE_MIN * s.cores
    return {size: ratio for size, ratio in ratios.items() if is_long or ratio.low >= 1.0}


def worthwhile(proposals: Iterable[Proposal]) -> list[Proposal]:
    """Return the proposals that are predicted to pay, the best first, at most three."""
    paying = [p for p in proposals if p.predicted_ratio >= WORTHWHILE_RATIO]
    return sorted(paying, key=lambda p: -p.predicted_ratio)[:PROPOSALS_MAX]


def _divided(s: Situation, size: int) -> dict[str, int]:
    """Divide ``size`` sessions among the groups by their busy sessions, and each group's among its
    instances, at least one each."""
    in_service = sum(group.in_service for group in s.groups) or 1.0
    wanted = {group.name: size * group.in_service / in_service for group in s.groups}
    return {
        group.name: max(1, round(min(group.sessions_max, wanted[group.name]) / group.instances))
        for group in s.groups
    }


def pool_size(s: Situation) -> int | None:
    """Return the size of the pooler's pool; None without one that can be changed."""
    if s.pooler is None or s.pooler.kind != _KIND:
        return None
    return s.pooler.size or _USUAL_SIZE


def larger_pooler_pools(s: Situation, loop: ClosedLoop, *, most: float) -> list[Proposal]:
    """Larger pools of the pooler that are predicted to pay, the best first; at most ``most``
    connections, and no more than the server has."""
    now = pool_size(s)
    if now is None:
        return []
    most = min(most, _pooler_slots(s))
    sizes = [now * 2**n for n in range(1, 16) if now * 2**n < most]
    if most > now:
        sizes.append(round(most))
    ratios = {size: loop.ratio_of_more(loop.sessions * size / now) for size in sizes}
    return _proposals(
        s,
        {
            size: ratio
            for size, ratio in ratios.items()
            if not any(ratios[more].low >= AS_GOOD * ratio.low for more in sizes if more > size)
        },
        "{} connections of the pooler overlap their waits; the CPU bounds what they gain",
        specific=True,
    )


def pooled_loop(s: Situation) -> ClosedLoop:
    """Return the model of the sessions that a pooler has; the queue for them is no demand, but that
    they rest between statements is, while the pooler passes these on."""
    # Of 32 sessions 15 ran and the others rested so: 4 of them did 0.66 times as much in a trial.
    resting_s = s.sessions("client") / s.throughput_tps
    idle_s = max(s.loop.idle_s, resting_s)
    loop = replace(s.loop, sessions=max(1.0, s.sessions_at_work), idle_s=idle_s, rest_s=0.0)
    return loop.fitted()


def smaller_pooler_pools(s: Situation) -> list[Proposal]:
    """Pools of the pooler of about four to eight connections for each core that are predicted to
    pay; none if clients keep their connection, because others would be left out."""
    now = pool_size(s)
    if now is None or s.pooler is None or not s.pooler.shares:
        return []
    why = "{} connections of the pooler keep the cores busy without queueing for them"
    return _proposals(s, _ratios_of_few(s, pooled_loop(s)), why)


def _proposals(
    s: Situation, ratios: Mapping[int, float], why: str, *, specific: bool = False
) -> list[Proposal]:
    assert s.pooler is not None
    return worthwhile(
        Proposal(
            remedy_id="pooler",
            change=Change(spec={f"pooler.{s.pooler.size_setting}": str(size)}),
            predicted_ratio=ratio,
            why=why.format(size),
            specific=specific,
        )
        for size, ratio in ratios.items()
    )


def _pooler_slots(s: Situation) -> float:
    """Return the connections that the server has for the pooler: those that nobody else uses."""
    rows = s.run.series("metric_connection", s.slice_ids)
    if not len(rows["at_ms"]) or s.pooler is None:
        return float("inf")
    own = s.pooler_queues.servers
    return float(rows["usable"][-1] - rows["used"][-1]) + float(own[-1])


Propose = Callable[[Situation, ClosedLoop], list[Proposal]]
"""Returns the proposals that are predicted to pay, by a model of the load."""


def figures_of_users_front(s: Situation) -> ForeignFront:
    """Return the figures of a web server of the user's. Raises Skip without them."""
    if s.foreign_front is not None:
        return s.foreign_front
    if s.is_http:
        raise Skip("the web server's own figures are not known (http.metrics, --front-metrics)")
    raise Skip(NO_FRONT)


def others_take_cores(s: Situation, propose: Propose) -> bool:
    """True if ``propose`` would find something that pays, had the load the cores that are busy with
    something else: where others have them all, more of a limit gains nothing, and is one still."""
    cpu, own = s.cpu_if_recorded, s.own_cores
    if cpu is None or own is None or cpu.busy - own < FOUND_SHARE * cpu.cores:
        return False
    alone = replace(s.loop, cores=cpu.cores, spare_cores=max(0.0, cpu.cores - own))
    return bool(propose(s, alone))


def larger_front_pools(s: Situation, loop: ClosedLoop) -> list[Proposal]:
    """Larger pools of the application that are predicted to pay, the best first: at most one
    connection for each client and thread, and no more than the server has."""
    assert s.front is not None
    now = s.front.pool_max
    most = min(sum(group.clients for group in s.groups), s.front.threads_max, _front_slots(s))
    return _larger(
        loop,
        "front-pool",
        "front.max_total",
        now,
        _doubled(now, most),
        "{} connections of the application overlap their waits; the CPU bounds what they gain",
    )


def smaller_front_pools(s: Situation) -> list[Proposal]:
    """Smaller pools of the application that are predicted to pay, the best first: of about four to
    eight connections for each core, as a session rests while the application works."""
    assert s.front is not None
    why = "{} connections of the application keep the cores busy without queueing for them"
    return worthwhile(
        Proposal(
            remedy_id="front-pool",
            change=Change(spec={"front.max_total": str(size)}),
            predicted_ratio=ratio,
            why=why.format(size),
        )
        for size, ratio in _ratios_of_few(s, s.loop).items()
    )


def more_threads(s: Situation, loop: ClosedLoop) -> list[Proposal]:
    """More threads of the connector that are predicted to pay, as long as the pool has connections
    for their requests."""
    assert s.front is not None
    now = s.front.threads_max
    most = sum(group.clients for group in s.groups)
    pooled = s.front.pool_max / now
    return _larger(
        loop,
        "front-connector",
        "front.threads",
        now,
        _doubled(now, most),
        "{} requests at work at once overlap their waits; the CPU and the pool bound what they"
        " gain",
        times_max=max(1.0, pooled),
    )


def room_for_all(s: Situation, loop: ClosedLoop) -> list[Proposal]:
    """Room for the connections of all clients, if that is predicted to pay: the pool and the
    threads bound how many more requests are at work."""
    assert s.front is not None
    load = s.front_load
    now, most = round(load.clients_max), round(load.clients + load.unaccepted)
    bound = min(s.front.pool_max, s.front.threads_max) / max(1.0, load.threads_busy)
    return _larger(
        loop,
        "front-connector",
        "front.connections",
        now,
        [most + SPARE_CONNECTIONS],
        "{} connections are accepted, and the requests on them overlap their waits",
        times_max=max(1.0, bound),
    )


def _doubled(now: int, most: float) -> list[int]:
    sizes = [now * 2**n for n in range(1, 16) if now * 2**n < most]
    return [*sizes, round(most)] if most > now else sizes


def _larger(
    loop: ClosedLoop,
    remedy: str,
    key: str,
    now: int,
    sizes: Sequence[int],
    why: str,
    *,
    times_max: float = float("inf"),
) -> list[Proposal]:
    """Return the proposals of ``sizes``; sessions grow with them, ``times_max`` at most."""
    ratios = {
        size: loop.ratio_of_more(loop.sessions * min(size / now, times_max)) for size in sizes
    }
    return worthwhile(
        Proposal(
            remedy_id=remedy,
            change=Change(spec={key: str(size)}),
            predicted_ratio=ratio,
            why=why.format(size),
            specific=True,
        )
        for size, ratio in ratios.items()
        if not _as_good(size, ratio, ratios)
    )


def _as_good(size: int, ratio: Prediction, ratios: Mapping[int, Prediction]) -> bool:
    """True if a larger one gains about as much."""
    return any(other.low >= AS_GOOD * ratio.low for more, other in ratios.items() if more > size)


def _front_slots(s: Situation) -> float:
    """Return the connections that the server has for the application: those that nobody else
    uses."""
    rows = s.run.series("metric_connection", s.slice_ids)
    if not len(rows["at_ms"]):
        return float("inf")
    return float(rows["usable"][-1] - rows["used"][-1]) + s.front_load.pool_active
