"""Reasons to distrust a measurement: other programs, other load, and gaps of the probes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pgdyno.diagnose.facts.other_load import foreign_load
from pgdyno.diagnose.facts.other_programs import other_programs
from pgdyno.diagnose.words import percent
from pgdyno.probe.gaps import NOT_SAMPLED, Probe
from pgdyno.record import RunFile

GAPS_SHARE_MAX = 0.1
"""Largest share of the measured time for which a probe may have no data. A signature needs a share
of at least 15 %, so a shorter gap cannot hide one."""
_NOT_MEASURED = frozenset({"ramp"})
"""Kinds of slices that are in no figure."""


def doubts(run: RunFile) -> list[str]:
    """Return the reasons, over all measured slices; empty if there are none."""
    measured = [part.id for part in run.slices() if part.kind not in _NOT_MEASURED]
    if not measured:
        return []
    return [*_of_programs(run, measured), *_of_load(run, measured), *_of_gaps(run, measured)]


def _of_programs(run: RunFile, slice_ids: list[int]) -> list[str]:
    others = other_programs(run, slice_ids)
    if others is None or not others.causes_distrust:
        return []
    several = len({part.kind for part in run.slices() if part.id in set(slice_ids)}) > 1
    return [f"{'over all slices, ' if several else ''}{others.sentence}"]


def _of_load(run: RunFile, slice_ids: list[int]) -> list[str]:
    load = foreign_load(run, slice_ids)
    return [load.sentence] if load is not None and load.causes_distrust else []


def _of_gaps(run: RunFile, slice_ids: list[int]) -> list[str]:
    """Return a sentence for each probe without data for too much of the measured time."""
    spans = [
        (part.started_ms, part.ended_ms)
        for part in run.slices()
        if part.id in set(slice_ids) and part.ended_ms is not None
    ]
    measured_ms = sum(ended - started for started, ended in spans)
    lost_ms: dict[Probe, float] = {}
    reasons: dict[Probe, str] = {}
    for probe, gap, reason in _gaps(run):
        lost_ms[probe] = lost_ms.get(probe, 0.0) + sum(_overlap(gap, span) for span in spans)
        reasons[probe] = reason
    return [
        f"{NOT_SAMPLED[probe]} for {percent(ms / measured_ms)} of the measured time:"
        f" {reasons[probe]}"
        for probe, ms in lost_ms.items()
        if ms > GAPS_SHARE_MAX * measured_ms
    ]


def _gaps(run: RunFile) -> Iterator[tuple[Probe, tuple[float, float], str]]:
    """Yield the probe, the period in ms and the reason of each gap; a gap without an end lasts
    until the end of the run."""
    still_open: dict[Probe, tuple[float, str]] = {}
    for event in run.events("probe"):
        probe, away_ms = event.detail.get("probe"), event.detail.get("away_ms")
        if probe not in NOT_SAMPLED:
            continue
        reason = event.detail.get("reason") or event.label
        if event.label == f"{probe} away":
            still_open[probe] = event.at_ms, reason
        elif away_ms is not None:
            still_open.pop(probe, None)
            yield probe, (event.at_ms - away_ms, event.at_ms), reason
    for probe, (began_ms, reason) in still_open.items():
        yield probe, (began_ms, math.inf), reason


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> float:
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))
