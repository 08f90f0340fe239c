"""Settings that cost CPU time: logging or planning each statement, pglz, tiny WAL buffers.

Trigger: their estimated cost (see ``facts.costly``, which has the times and their calibration) is
at least ``COST_SHARE`` of the response time. The remedy is the default. Settings that make sessions
wait are for the signatures of those waits: commit_delay, jit_above_cost, checkpoint_timeout.
"""

from __future__ import annotations

from pgdyno.diagnose._cpu_uses import cpu_parts, cpu_uses, ratio_without, response_share
from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.costly import Costly, costly_settings
from pgdyno.numbers import percent
from pgdyno.record.finding import Evidence, Proposal
from pgdyno.spec.change import Change
from pgdyno.spec.setting_defaults import DEFAULTS

COST_SHARE = 0.05
WAL_BUFFERS = "16MB"


def examine(s: Situation) -> Found | Cleared:
    """Examine the settings that differ from their defaults, and what they cost."""
    found, share = costly_settings(s), response_share(s, "costly-settings")
    evidence = _evidence(s, found, share)
    if not found or share < COST_SHARE:
        return Cleared(f"settings cost {percent(share)} of the response time", evidence)
    worst, part = found[0], cpu_uses(s)["costly-settings"]
    return Found(
        sentence=(
            f"{worst.setting} = {worst.value} takes about {percent(part)} of the server's CPU time:"
            f" {worst.why}"
        ),
        parts=cpu_parts(s),
        share=share,
        liftable=ratio_without(s, part).lifted,
        confidence=0.6,
        evidence=evidence,
        proposals=_resets(s, found, part),
    )


def _resets(s: Situation, found: list[Costly], part: float) -> list[Proposal]:
    cores = sum(each.cores for each in found)
    proposals = []
    for each in found:
        default = DEFAULTS.get(each.setting)
        remedy = "reset-setting" if default is not None else "wal-buffers"
        change = Change(settings={each.setting: default or WAL_BUFFERS})
        ratio = ratio_without(s, part * each.cores / cores)
        proposals.append(
            Proposal(
                remedy_id=remedy,
                change=change,
                predicted_ratio=ratio,
                why=f"now {each.why}",
                specific=True,
            )
        )
    return [p for p in proposals if p.predicted_ratio >= WORTHWHILE_RATIO]


def _evidence(s: Situation, found: list[Costly], share: float) -> list[Evidence]:
    bar = f"at least {percent(COST_SHARE)}"
    evidence = [s.evidence("settings / response time (estimate)", share, "share", bar)]
    for each in found:
        name = f"{each.setting} = {each.value} (estimate)"
        evidence.append(s.evidence(name, each.cores, "cores"))
    return evidence


SIGNATURE = Signature(
    id="costly-settings",
    false_positives="a log that is wanted; images that a slow disk could not take uncompressed",
    examine=examine,
)
