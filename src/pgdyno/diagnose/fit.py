"""From a situation to the model that predicts, and from the model to proposals of pool sizes."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.diagnose.finding import Proposal
from pgdyno.diagnose.model import ClosedLoop
from pgdyno.diagnose.situation import Group, Situation
from pgdyno.spec.change import Change

WORTHWHILE_RATIO = 1.03
"""Below this a prediction is not told from nothing: the effect that matters, in trials too."""
PROPOSALS_MAX = 3


def fitted_loop(s: Situation) -> ClosedLoop:
    """The model of ``s``. Where the host's CPU was not recorded, what sessions were seen running
    stands in for it, which makes predictions of more sessions cautious."""
    budget, tps = s.budget, s.throughput_tps
    service_s = budget.service_ms / 1000
    cpu = s.cpu_if_recorded
    busy = min(s.sessions("cpu"), float(s.cores)) if cpu is None else cpu.busy
    seconds = {name: ms / 1000 for name, ms in budget.parts_ms.items()}
    return ClosedLoop(
        cores=float(s.cores),
        sessions=max(1.0, tps * service_s),
        throughput_tps=tps,
        cpu_s=busy / tps,
        cpu_system_share=0.0 if cpu is None else cpu.system_share,
        flush_s=seconds.get("flush", 0.0) + seconds.get("images", 0.0),
        row_s=seconds.get("row", 0.0),
        shared_s=seconds.get("shared", 0.0),
        data_s=seconds.get("data", 0.0),
        queue_now=s.sessions("cpu"),
    ).fitted()


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
    return _worthwhile(
        Proposal(
            "pool-size",
            Change(pool_max={group.name: size}),
            s.loop.ratio(sessions=others + size * used),
            f"{size} sessions overlap their waits; the CPU bounds what they gain",
        )
        for size in sizes
    )


def smaller_pools(s: Situation) -> list[Proposal]:
    """Pools of about one to four sessions a core, shared out among the groups as they are now."""
    sizes = sorted({s.cores, max(2, round(1.5 * s.cores)), 2 * s.cores, 4 * s.cores})
    now = s.loop.sessions
    return _worthwhile(
        Proposal(
            "pool-size",
            Change(pool_max=_shared_out(s, size)),
            s.loop.ratio(sessions=float(size)),
            f"{size} sessions keep {s.cores} cores busy without queueing for them",
        )
        for size in sizes
        if size < now
    )


def _worthwhile(proposals: Iterable[Proposal]) -> list[Proposal]:
    paying = [p for p in proposals if p.predicted_ratio >= WORTHWHILE_RATIO]
    return sorted(paying, key=lambda p: -p.predicted_ratio)[:PROPOSALS_MAX]


def _shared_out(s: Situation, size: int) -> dict[str, int]:
    """``size`` sessions among the groups by the sessions they keep busy, at least one each."""
    in_service = sum(group.in_service for group in s.groups) or 1.0
    return {
        group.name: min(group.sessions_max, max(1, round(size * group.in_service / in_service)))
        for group in s.groups
    }
