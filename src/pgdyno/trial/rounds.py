"""Variants measured in rounds: each against the first, paired by round.

The replicate is the round: all variants of a round follow each other, and what disturbs the machine
for longer than one measurement disturbs several of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pgdyno.dimension import spec_with
from pgdyno.record import RunFile
from pgdyno.spec import Change, Spec
from pgdyno.stats import PairedEffect, geometric_mean, paired_effect
from pgdyno.trial._arms import Arm, SliceFigures, working
from pgdyno.trial._judging import Judged, Matters, judge, same_rate

CONFIDENCE = 0.95


class Rounds(Struct, frozen=True):
    """A variant and its slices, one for each round, in the order of the rounds."""

    change: Change
    slice_ids: Sequence[int]


def judge_rounds(
    run: RunFile, spec: Spec, first: Rounds, other: Rounds, *, comparisons: int
) -> Judged:
    """Return the verdict about a variant, of which there are ``comparisons`` with the first: the
    level is divided among them."""
    specs = [spec_with(spec, each.change) for each in (first, other)]
    closed = (each for each in specs if any(group.open_loop is None for group in working(each)))
    return judge(
        next(closed, specs[0]),
        {"a": _side(run, first.slice_ids), "b": _side(run, other.slice_ids)},
        1 - (1 - CONFIDENCE) / comparisons,
        matters=Matters.given(spec.load.matters),
        same_rate=same_rate(spec, first.change, other.change),
    )


def throughputs_tps(run: RunFile, spec: Spec, of: Rounds) -> list[float]:
    """Return the throughput of each slice of a variant."""
    return _side(run, of.slice_ids).tps(spec_with(spec, of.change))


def effect_within(before: Sequence[float], after: Sequence[float]) -> PairedEffect | None:
    """Return the effect from one part of the same measurements to the next; None without them."""
    return paired_effect(before, after, confidence=CONFIDENCE) if len(before) > 1 else None


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the geometric mean; None if there are no values, or if one is not known."""
    known = [value for value in values if value]
    return geometric_mean(known) if known and len(known) == len(values) else None


def _side(run: RunFile, ids: Sequence[int]) -> Arm:
    return Arm([SliceFigures.of(run, slice_id) for slice_id in ids])
