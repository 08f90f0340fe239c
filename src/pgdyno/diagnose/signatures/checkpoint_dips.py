"""Checkpoint dips: the throughput falls during checkpoints, without stopping.

Trigger: intervals below ``DIP_SHARE`` of the median throughput, but above the ``DROP_SHARE`` at
which a stall begins, that overlap a checkpoint; together they lose at least ``LOST_SHARE``, and at
least ``MOST`` of what such dips lose is lost while a checkpoint runs.

Thresholds: calibrated by injection, checkpoints on a disk that writes 16 MB/s, against bursts of
arrivals and loads of few transactions, whose dips do not follow checkpoints.
"""

from __future__ import annotations

from pgdyno.diagnose._drops import DROP_SHARE, Drop, Drops, find_drops
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import duration, percent
from pgdyno.record.finding import Evidence, Proposal
from pgdyno.spec.change import Change
from pgdyno.spec.setting_defaults import DEFAULTS

DIP_SHARE = 0.5
LOST_SHARE = 0.02
MOST = 0.6
SAVED = 0.5
"""Part of the loss that spreading the writes is trusted to save."""
_TARGET = "checkpoint_completion_target"
_SHOWN = 5


def examine(s: Situation) -> Found | Cleared:
    """Compare the throughput during checkpoints with the median."""
    drops = find_drops(s, below=DIP_SHARE)
    shallow = [d for d in drops.all if d.done_tps >= DROP_SHARE * drops.median_tps]
    dips = [d for d in shallow if d.in_checkpoint]
    lost = _lost(dips, drops)
    evidence = _evidence(s, dips, lost)
    if lost < LOST_SHARE or lost < MOST * _lost(shallow, drops):
        return Cleared("throughput does not follow the checkpoints", evidence)
    lowest = min(dip.done_tps for dip in dips)
    return Found(
        sentence=(
            f"throughput falls to {percent(lowest / drops.median_tps)} of its median while a"
            f" checkpoint runs, {duration(sum(d.duration_ms for d in dips) / 1000)} in all"
        ),
        share=lost,
        liftable=1.0,
        momentary=True,
        confidence=0.6,
        evidence=evidence,
        causes=("checkpoint-fpi",),
        proposals=_spread(s, lost),
        advice="" if _spread(s, lost) else "fewer checkpoints, or a disk that writes faster",
    )


def _lost(dips: list[Drop], drops: Drops) -> float:
    return sum(dip.lost for dip in dips) / drops.expected if drops.expected else 0.0


def _spread(s: Situation, lost: float) -> list[Proposal]:
    target = s.settings.number(_TARGET)
    if target is None or target >= float(DEFAULTS[_TARGET]):
        return []
    ratio = 1.0 / (1.0 - min(0.9, SAVED * lost))
    change = Change(settings={_TARGET: DEFAULTS[_TARGET]})
    why = "a checkpoint's writes would be spread over most of the time to the next"
    return [
        Proposal(
            remedy_id="checkpoint-spread",
            change=change,
            predicted_ratio=ratio,
            why=why,
            specific=True,
        )
    ]


def _evidence(s: Situation, dips: list[Drop], lost: float) -> list[Evidence]:
    bar = f"at least {percent(LOST_SHARE)}"
    shown = sorted(dips, key=lambda dip: -dip.lost)[:_SHOWN]
    return [
        s.evidence("throughput lost in dips during checkpoints", lost, "share", bar),
        s.evidence("dips during checkpoints", len(dips), "count"),
        *(dip.evidence("dip") for dip in shown),
    ]


SIGNATURE = Signature(
    id="checkpoint-dips",
    false_positives=(
        "a machine that does other work at the same moments; checkpoints that last most of the"
        " run, with which any dip coincides"
    ),
    examine=examine,
)
