"""CPU quota: the server's control group uses up its quota and is stopped until the next period.

Trigger: of the periods of a control group that the server is in, or of one above it, at least
``THROTTLED_SHARE`` were cut short. Distinct from saturated cores: those of the machine may be
idle meanwhile. A server on saturated cores with a quota that it does not reach is not throttled.
Ranked behind every finding that owns more of the response time: what lifting that would gain is
predicted for the cores of the quota.

Threshold: that of the Kubernetes project's alert (see ``facts.quota``); confirmed by injection, a
quota of half a core against 8 clients. Versions: control groups of version 1 and 2, any PostgreSQL.
"""

from __future__ import annotations

from msgspec.structs import replace

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.quota import THROTTLED_SHARE, Quota, quota_of
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence, Skip

ADVICE = (
    "raise the CPU quota of the server's control group or container (cpu.max, cpu.cfs_quota_us, or"
    " the orchestrator's CPU limit), or remove it"
)


def examine(s: Situation) -> Found | Cleared:
    """Examine the quotas of the server's control groups."""
    if s.server_cores is None:
        raise Skip("the server's processes cannot be seen from here")
    quota = quota_of(s)
    if quota is None:
        none = [s.evidence("CPU quotas of the server", 0, "count")]
        return Cleared("no CPU quota applies to the server", none)
    evidence = _evidence(s, quota)
    if quota.share < THROTTLED_SHARE:
        return Cleared(
            f"the server's CPU quota stops it in {percent(quota.share)} of the periods", evidence
        )
    ratio = _without_quota(s)
    return Found(
        sentence=(
            f"the server's CPU quota of {counted(s.cores, 'core', 'cores')} stops it in"
            f" {percent(quota.share)} of the periods; without it the model expects"
            f" {figure(ratio)} times the throughput"
        ),
        parts=("running", "ready"),
        liftable=1.0 - 1.0 / ratio,
        confidence=0.9,
        evidence=evidence,
        crowds_others=True,
        advice=ADVICE,
    )


def _without_quota(s: Situation) -> float:
    """Return the model's ratio of throughput with all of the machine's cores to that now."""
    wider = replace(s.loop, cores=max(s.cores_of_machine, s.loop.cores))
    return max(1.0, wider.predict() / s.loop.predict())


def _evidence(s: Situation, quota: Quota) -> list[Evidence]:
    evidence = [
        s.evidence(
            "periods cut short / periods of the quota",
            quota.share,
            "share",
            f"at least {percent(THROTTLED_SHARE)}",
        ),
        s.evidence("time lost, over all CPUs", quota.lost_s * 1000, "ms"),
        s.evidence("control group", quota.control_group, ""),
        s.evidence("cores by quota", s.cores, "cores"),
    ]
    if s.server_cores is not None:
        evidence.append(s.evidence("PostgreSQL's processes", s.server_cores, "cores"))
    return evidence


SIGNATURE = Signature(
    id="cpu-throttled",
    false_positives=(
        "other processes in the same control group that use its quota; bursts shorter than a"
        " period, which are cut short although the quota suffices on average"
    ),
    examine=examine,
)
