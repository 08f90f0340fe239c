"""The figures of single slices and pairs of a recorded trial, of which its effect is made."""

from __future__ import annotations

from pgdyno.record import RunFile
from pgdyno.results.common import Measure
from pgdyno.trial._arms import SliceFigures


def pair_ratios(run: RunFile, trial_id: int, measure: Measure) -> dict[int, float]:
    """Return by number the ratio, changed to unchanged, of each pair without a void slice. A slice
    of an open loop counts no more transactions than became due in it."""
    loops = _open_loops(run)
    values = [
        tuple(_figure(SliceFigures.of(run, side.id), measure, loops) for side in pair)
        for pair in run.pairs(trial_id)
    ]
    return {number: b / a for number, (a, b) in enumerate(values, start=1) if a and b}


def slice_figures(run: RunFile, slice_id: int) -> tuple[float, float | None]:
    """Return throughput and p99 in ms of a slice, as its trial counts them; no p99 of nothing."""
    measured = SliceFigures.of(run, slice_id)
    if not measured.done:
        return 0.0, None
    return measured.tps(_open_loops(run)), measured.latency_p99_ns / 1e6


def _open_loops(run: RunFile) -> dict[str, bool]:
    groups = run.run.spec.get("clients") or []
    return {group["name"]: isinstance(group.get("arrival"), dict) for group in groups}


def _figure(measured: SliceFigures, measure: Measure, loops: dict[str, bool]) -> float:
    if not measured.done:
        return 0.0
    return measured.latency_p99_ns if measure == "latency_p99" else measured.tps(loops)
