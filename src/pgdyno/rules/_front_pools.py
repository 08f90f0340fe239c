"""Proposals of other limits of the web front end that pgdyno started, by the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from pgdyno.facts.front import NO_FRONT, ForeignFront
from pgdyno.facts.model import ClosedLoop
from pgdyno.facts.other_programs import FOUND_SHARE
from pgdyno.facts.situation import Situation
from pgdyno.record.finding import Proposal, Skip
from pgdyno.rules._pooler_pools import SESSIONS_PER_CORE_MIN
from pgdyno.rules._pools import AS_GOOD, few_sessions, worthwhile
from pgdyno.spec.change import Change
from pgdyno.stats.prediction import Prediction

SPARE_CONNECTIONS = 10
"""Beyond those of the load's clients: one that ends is counted until the server notices."""
Propose = Callable[[Situation, ClosedLoop], list[Proposal]]
"""Returns the proposals that are predicted to pay, by a model of the load."""
TAKEN = ", and other work takes the cores that more of them would need"
FOREIGN_POOL_ADVICE = (
    "give the application's pool more connections (maxTotal of Commons DBCP, maximumPoolSize of"
    " HikariCP, maxActive of Tomcat JDBC), as long as the server's cores are not all busy; pgdyno"
    " changes nothing of a web server that it did not start"
)


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
    most = min(sum(group.clients for group in s.groups), s.front.threads_max, _slots(s))
    return _larger(
        loop,
        "front-pool",
        "front.max_total",
        now,
        _doubled(now, most),
        "{} connections of the application overlap their waits; the CPU bounds what they gain",
    )


def smaller_front_pools(s: Situation) -> list[Proposal]:
    """Smaller pools of the application that are predicted to pay, the best first: of about two to
    four connections for each core, as a session rests while the application works."""
    assert s.front is not None
    sizes = [size for size in few_sessions(s) if size >= SESSIONS_PER_CORE_MIN * s.cores]
    ratios = {size: s.loop.ratio(sessions=float(size)) for size in sizes if size < s.loop.sessions}
    why = "{} connections of the application keep the cores busy without queueing for them"
    return worthwhile(
        Proposal(
            remedy_id="front-pool",
            change=Change(spec={"front.max_total": str(size)}),
            predicted_ratio=ratio,
            why=why.format(size),
        )
        for size, ratio in ratios.items()
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


def _slots(s: Situation) -> float:
    """Return the connections that the server has for the application: those that nobody else
    uses."""
    rows = s.run.series("metric_connection", s.slice_ids)
    if not len(rows["at_ms"]):
        return float("inf")
    return float(rows["usable"][-1] - rows["used"][-1]) + s.front_load.pool_active
