"""Proposals of pool sizes, larger and smaller, by what the model predicts of them."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.diagnose._facts import Group
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.finding import Proposal
from pgdyno.spec.change import Change

WORTHWHILE_RATIO = 1.03
"""Predicted effects below this are ignored; the smallest effect that matters, also in trials."""
PROPOSALS_MAX = 3
AS_GOOD = 0.92
"""A larger pool predicted this part of a smaller one's gain is proposed instead: the next peak of
the load is not stuck again, and a pool that is too large shows in another signature."""


def larger_pools(s: Situation, group: Group) -> list[Proposal]:
    """Larger pools for ``group`` that are predicted to pay, the best first, at most three."""
    assert group.pool_max is not None
    sizes = []
    size = group.pool_max * 2
    while size < group.clients:
        sizes.append(size)
        size *= 2
    if group.clients > group.pool_max:
        sizes.append(group.clients)
    others = s.loop.sessions - group.in_service
    used = group.in_service / group.pool_max
    ratios = {size: s.loop.ratio(sessions=others + size * used) for size in sizes}
    return _worthwhile(
        Proposal(
            "pool-size",
            Change(pool_max={group.name: size}),
            ratio,
            f"{size} sessions overlap their waits; the CPU bounds what they gain",
        )
        for size, ratio in ratios.items()
        if not any(ratios[larger] >= AS_GOOD * ratio for larger in sizes if larger > size)
    )


def smaller_pools(s: Situation) -> list[Proposal]:
    """Pools of about one to four sessions a core, shared out among the groups as they are now."""
    sizes = sorted({max(1, round(times * s.cores)) for times in (1, 1.5, 2, 4)})
    now = s.loop.sessions
    return _worthwhile(
        Proposal(
            "pool-size",
            Change(pool_max=_divided(s, size)),
            s.loop.ratio(sessions=float(size)),
            f"{size} sessions keep {s.cores:g} cores busy without queueing for them",
        )
        for size in sizes
        if size < now
    )


def _worthwhile(proposals: Iterable[Proposal]) -> list[Proposal]:
    paying = [p for p in proposals if p.predicted_ratio >= WORTHWHILE_RATIO]
    return sorted(paying, key=lambda p: -p.predicted_ratio)[:PROPOSALS_MAX]


def _divided(s: Situation, size: int) -> dict[str, int]:
    """Divide ``size`` sessions among the groups by their busy sessions, at least one each."""
    in_service = sum(group.in_service for group in s.groups) or 1.0
    return {
        group.name: min(group.sessions_max, max(1, round(size * group.in_service / in_service)))
        for group in s.groups
    }
