"""Figures of a recorded trial, from the run file: of single slices and pairs, of which its effect
is made, and of the work that its slices postponed and did at their end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import get_args

from pgdyno.record import Event, RunFile
from pgdyno.record.events import own_events
from pgdyno.results.common import Measure, Postponed, PostponedSide
from pgdyno.spec.change import Debt
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


def postponed(
    run: RunFile, slices_a: Collection[int], slices_b: Collection[int]
) -> tuple[Postponed, ...]:
    """Return the work of each kind, without and with the change; empty if no slice did any."""
    sides = [own_events(run, slices) for slices in (slices_a, slices_b)]
    found = []
    for debt in get_args(Debt):
        before, after = ([e for e in events if e.detail.get("debt") == debt] for events in sides)
        if before and after:
            found.append(
                Postponed(
                    work=debt,
                    unit=str(after[0].detail.get("unit", "")),
                    before=_mean(before),
                    after=_mean(after),
                )
            )
    return tuple(found)


def _mean(events: Sequence[Event]) -> PostponedSide:
    amounts = [each.detail.get("amount") for each in events]
    known = [amount for amount in amounts if amount is not None]
    return PostponedSide(
        amount=round(sum(known) / len(known)) if known else None,
        ms=round(sum(each.duration_ms or 0.0 for each in events) / len(events), 3),
    )
