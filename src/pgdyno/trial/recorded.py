"""The ratios of the single pairs of a recorded trial, by the figures that its effect is made of."""

from __future__ import annotations

from pgdyno.record import RunFile
from pgdyno.results.common import Measure
from pgdyno.trial._sides import Measured


def pair_ratios(run: RunFile, trial_id: int, measure: Measure) -> dict[int, float]:
    """Return by number the ratio, changed to unchanged, of each pair without a void slice. A slice
    of an open loop counts no more transactions than became due in it."""
    loops = {
        group["name"]: isinstance(group.get("arrival"), dict)
        for group in run.run.spec.get("clients") or []
    }
    values = [
        tuple(_figure(Measured.of(run, side.id), measure, loops) for side in pair)
        for pair in run.pairs(trial_id)
    ]
    return {number: b / a for number, (a, b) in enumerate(values, start=1) if a and b}


def _figure(measured: Measured, measure: Measure, loops: dict[str, bool]) -> float:
    if not measured.done:
        return 0.0
    return measured.latency_p99_ns if measure == "latency_p99" else measured.tps(loops)
