"""CPU time that the server was denied: by a quota, the hypervisor, or other programs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.facts.other_programs import FOUND_SHARE, other_programs_of

if TYPE_CHECKING:
    from pgdyno.facts.slices import Facts

THROTTLED_SHARE = 0.25
"""Part of the quota's periods that are cut short from which the quota is a limit: the bar of
CPUThrottlingHigh in the alerts of the Kubernetes project (kubernetes-mixin)."""
STOLEN_SHARE = 0.1
"""Part of the machine's CPU time from which stealing is a finding; that of other programs, whose
effect is the same."""


class Quota(Struct, frozen=True):
    """The control group that was throttled most, over some slices."""

    control_group: str
    periods: float
    throttled: float
    """Periods in which the quota was used up before the end."""
    lost_s: float
    """CPU time for which processes were ready and not allowed to run, over all CPUs."""

    @property
    def share(self) -> float:
        """Part of the periods that were cut short."""
        return self.throttled / self.periods if self.periods else 0.0


def quota_of(s: Facts) -> Quota | None:
    """Return the quota that held the server back most; None if none was recorded."""
    rows = s.run.series("metric_control_group", s.slice_ids)
    quotas = [_quota(s, str(name)) for name in sorted(set(rows["control_group"]))]
    return max(quotas, key=lambda each: each.share, default=None)


def _quota(s: Facts, group: str) -> Quota:
    periods, throttled, lost_us = (
        s.run.delta("metric_control_group", name, s.slice_ids, where={"control_group": group})
        or 0.0
        for name in ("nr_periods", "nr_throttled", "throttled_us")
    )
    return Quota(group, periods, throttled, lost_us / 1e6)


def is_throttled(s: Facts) -> bool:
    """True if a quota, and not the machine, is the server's limit of CPU time."""
    quota = quota_of(s)
    return quota is not None and quota.share >= THROTTLED_SHARE


def stolen_share(s: Facts) -> float:
    """Part of the machine's CPU time that the hypervisor gave to others; 0 if not recorded."""
    ms = {
        name: s.run.delta("metric_host", f"cpu_{name}_ms", s.slice_ids) or 0.0
        for name in ("user", "system", "iowait", "steal", "idle")
    }
    return ms["steal"] / sum(ms.values()) if sum(ms.values()) > 0 else 0.0


def is_stolen(s: Facts) -> bool:
    """True if the hypervisor takes so much that the machine is slower than it seems."""
    return stolen_share(s) >= STOLEN_SHARE


@lru_cache(maxsize=1)
def is_crowded_out(s: Facts) -> bool:
    """True if other programs use more of the cores than the load's own processes.

    Processes that are ready compete as equals, so that the queue for a core is then mostly theirs.
    """
    others = other_programs_of(s.run, s.slice_ids)
    if others is None or others.share < FOUND_SHARE:
        return False
    return others.used > (s.own_cores or 0.0)
