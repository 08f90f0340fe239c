"""Proposals of other sizes for the pool of a pooler that pgdyno started, by the model.

Only ``default_pool_size`` of PgBouncer is tried: each client of pgpool-II keeps a connection for as
long as it is there, so that fewer of them leave clients out, and more are the finding
``pooler_client_limit``.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from pgdyno.facts.model import ClosedLoop
from pgdyno.facts.situation import Situation
from pgdyno.record.finding import Proposal
from pgdyno.rules._pools import AS_GOOD, few_sessions, worthwhile
from pgdyno.spec.change import Change

_KIND = "pgbouncer"
SESSIONS_PER_CORE_MIN = 2.0
"""Sessions for each core below which no smaller pool is proposed: a session rests while the pooler
passes on an answer and the next statement. HikariCP's formula begins there too (cores x 2 + disks).
Measured: 2 sessions for 2 cores that others used as well did a quarter of what 32 did."""
_USUAL_SIZE = 20
"""default_pool_size unless it is set."""


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
    most = min(most, _slots(s))
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
    """Pools of the pooler of about two to four connections for each core that are predicted to pay;
    none if clients keep their connection, because others would be left out."""
    now = pool_size(s)
    if now is None or s.pooler is None or not s.pooler.shares:
        return []
    loop = pooled_loop(s)
    ratios = {
        size: loop.ratio(sessions=float(size))
        for size in few_sessions(s)
        if SESSIONS_PER_CORE_MIN * s.cores <= size < loop.sessions
    }
    return _proposals(
        s, ratios, "{} connections of the pooler keep the cores busy without queueing for them"
    )


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


def _slots(s: Situation) -> float:
    """Return the connections that the server has for the pooler: those that nobody else uses."""
    rows = s.run.series("metric_connection", s.slice_ids)
    if not len(rows["at_ms"]) or s.pooler is None:
        return float("inf")
    own = s.pooler_queues.servers
    return float(rows["usable"][-1] - rows["used"][-1]) + float(own[-1])
