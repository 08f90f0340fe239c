"""Parsing and planning: statements are sent in a way that plans them each time.

Trigger: the load sends statements with the simple or the extended protocol, and parsing and
planning are estimated to take at least ``COST_SHARE`` of the response time: 6 us a statement, 10
with the simple protocol. So does the driver of a web front end that keeps none prepared.
Calibrated: select-only took 18 us of CPU time prepared, 24 extended, 28 simple; see ``_cpu_uses``.

The server counts planning only with the extension pg_stat_statements and track_planning, which
costs more than it tells here.
"""

from __future__ import annotations

from pgdyno.diagnose._cpu_uses import PLAN_CPU_S, cpu_parts, cpu_uses, ratio_without, response_share
from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import percent
from pgdyno.record.finding import Proposal, Skip
from pgdyno.spec.change import Change
from pgdyno.spec.front import PREPARE_THRESHOLD_DEFAULT

COST_SHARE = 0.1


def examine(s: Situation) -> Found | Cleared:
    """Examine how the load sends its statements, and how many."""
    if not s.protocol:
        raise Skip("how the load sends its statements was not recorded")
    share = response_share(s, "parse-plan")
    evidence = [
        s.evidence("protocol", s.protocol, ""),
        s.evidence("statements", s.statements_per_s, "per s"),
        s.evidence(
            "parsing and planning / response time (estimate)",
            share,
            "share",
            f"at least {percent(COST_SHARE)}",
        ),
    ]
    if s.protocol not in PLAN_CPU_S:
        return Cleared("statements are prepared", evidence)
    if share < COST_SHARE:
        return Cleared(f"parsing and planning take {percent(share)} of the time", evidence)
    ratio = ratio_without(s, cpu_uses(s)["parse-plan"])
    proposals = _prepared(s, ratio)
    return Found(
        sentence=(
            f"{_how(s)} each statement is parsed and planned again, about"
            f" {percent(cpu_uses(s)['parse-plan'])} of the server's CPU time"
        ),
        parts=cpu_parts(s),
        share=share,
        liftable=ratio.lifted,
        confidence=0.6,
        evidence=evidence,
        proposals=proposals,
        advice="" if proposals else "let the application use prepared statements",
    )


def _how(s: Situation) -> str:
    if s.front is None:
        return f"with the {s.protocol} protocol"
    return "the application's driver keeps no statement prepared (prepareThreshold = 0):"


def _prepared(s: Situation, ratio: float) -> list[Proposal]:
    if ratio < WORTHWHILE_RATIO:
        return []
    of_driver = {"front.prepare_threshold": str(PREPARE_THRESHOLD_DEFAULT)}
    change = Change(spec=of_driver if s.front else {"load.protocol": "prepared"})
    why = "a session would plan each of its statements once"
    return [
        Proposal(
            remedy_id="prepared-statements",
            change=change,
            predicted_ratio=ratio,
            why=why,
            specific=True,
        )
    ]


SIGNATURE = Signature(
    id="parse-plan",
    false_positives="statements whose execution takes long compared with their plan",
    examine=examine,
    of_clients=True,
)
