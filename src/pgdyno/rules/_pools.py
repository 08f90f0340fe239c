"""Proposals of pool sizes, larger and smaller, by what the model predicts of them."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.facts.client_group import MeasuredGroup
from pgdyno.facts.situation import Situation
from pgdyno.record.finding import Proposal
from pgdyno.spec.change import Change

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
    """Pools of about one to four sessions a core, shared out among the groups as they are now."""
    now = s.loop.sessions
    return worthwhile(
        Proposal(
            remedy_id="pool-size",
            change=Change(pool_max=_divided(s, size)),
            predicted_ratio=s.loop.ratio(sessions=float(size)),
            why=f"{size} sessions keep {s.cores:g} cores busy without queueing for them",
        )
        for size in few_sessions(s)
        if size < now
    )


def few_sessions(s: Situation) -> list[int]:
    """Return numbers of sessions that keep the cores busy: about one to four for each."""
    return sorted({max(1, round(times * s.cores)) for times in (1, 1.5, 2, 4)})


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
