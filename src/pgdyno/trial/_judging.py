"""The verdict of a trial: the compared figure, with its guards.

Two guards stand beside the figure, and each can veto it. A closed loop does more transactions if
more of them fail early, and the sum over client groups rises if one group starves the others. A
change that fails transactions, or that costs a client group, is therefore *mixed* at best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pgdyno import numbers
from pgdyno.dimension import fields_with
from pgdyno.results.common import Measure
from pgdyno.spec import Change, ClientGroup, Spec
from pgdyno.stats import (
    EFFECT_MATTERS,
    PairedEffect,
    TrialVerdict,
    decide,
    mean_bounds,
    paired_effect,
)
from pgdyno.trial._arms import Arm, SliceFigures, group_measure, measure_of, working

LATENCY_MATTERS = 0.10
"""The smallest change of p99 at a fixed rate that matters by default; tails are noisier than
means."""
FAILURES_MATTER = 0.001
"""Rise of the share of failed transactions above which a change is not called better. A tenth of
the failures that make a measurement untrustworthy by default."""


class Matters(Struct, frozen=True):
    """The smallest effects that matter, as fractions."""

    throughput: float = EFFECT_MATTERS
    latency_p99: float = LATENCY_MATTERS

    @staticmethod
    def given(share: float | None) -> Matters:
        """Return the margins for ``--matters``, which holds for each figure."""
        return Matters() if share is None else Matters(share, share)

    def of(self, measure: Measure) -> float:
        """Return the margin of a figure."""
        return self.throughput if measure == "throughput" else self.latency_p99


class Noise(Struct, frozen=True):
    """Identical slices compared with themselves, for each measure.

    Their ratio is a check of the procedure. Their spread plans the trials, and no effect that is
    smaller than what as many of their pairs can show is called one.
    """

    throughput: PairedEffect
    latency_p99: PairedEffect
    measure: Measure
    """The figure that identical slices were compared by."""

    def of(self, measure: Measure) -> PairedEffect:
        """Return the ratio of identical slices in ``measure``."""
        return self.throughput if measure == "throughput" else self.latency_p99


class JudgedGroup(Struct, frozen=True):
    """The effect on one client group."""

    name: str
    measure: Measure
    effect: PairedEffect
    verdict: TrialVerdict


class Judged(Struct, frozen=True):
    """The verdict of a trial at one look."""

    throughput: PairedEffect
    latency_p99: PairedEffect
    measure: Measure
    groups: tuple[JudgedGroup, ...]
    """The effect on each client group, if there are several."""
    verdict: TrialVerdict


def judge(
    spec: Spec,
    sides: Mapping[str, Arm],
    confidence: float,
    *,
    matters: Matters,
    noise: Noise | None = None,
    same_rate: bool = True,
) -> Judged:
    """Return the verdict about all pairs, with intervals of ``confidence``."""
    a, b = sides["a"], sides["b"]
    measure = measure_of(spec, (a, b))
    throughput = paired_effect(a.tps(spec), b.tps(spec), confidence=confidence)
    latency = paired_effect(a.latency_p99_ns, b.latency_p99_ns, confidence=confidence)
    groups = _group_effects(working(spec), (a, b), confidence, matters, noise)
    compared = throughput if measure == "throughput" else latency
    verdict = verdict_of(compared, measure, matters, noise=noise, same_rate=same_rate)
    against = [*_losses(groups), *_failing(a, b, confidence)]
    return Judged(throughput, latency, measure, groups, guarded(verdict, against))


def verdict_of(
    effect: PairedEffect,
    measure: Measure,
    matters: Matters,
    *,
    noise: Noise | None = None,
    same_rate: bool = True,
) -> TrialVerdict:
    """Return the verdict about the compared figure alone."""
    verdict = decided(effect, measure, matters, noise)
    if measure == "throughput":
        return verdict
    held = (
        "both sides held the rate, so throughput is equal by construction; p99"
        if same_rate
        else "each side held its own rate; p99"
    )
    return replace(verdict, sentence=f"{held} {verdict.sentence}")


def decided(
    effect: PairedEffect, measure: Measure, matters: Matters, noise: Noise | None
) -> TrialVerdict:
    """Return the verdict of the pairs on one figure, of all clients or of one group."""
    return decide(
        effect,
        effect_matters=matters.of(measure),
        higher_is_better=measure == "throughput",
        noise=noise.of(measure) if noise else None,
    )


def guarded(verdict: TrialVerdict, against: Sequence[str]) -> TrialVerdict:
    """Return the verdict with what speaks against the change, which turns any but *worse* into
    *mixed*."""
    if not against:
        return verdict
    words = "; ".join(against)
    if verdict.outcome == "worse":
        return replace(verdict, sentence=f"{verdict.sentence}; {words}", against=tuple(against))
    return TrialVerdict(
        "mixed", None, f"mixed: {words}; in total {verdict.sentence}", tuple(against)
    )


def same_rate(spec: Spec, a: Change, b: Change) -> bool:
    """Return whether both changes of ``spec`` have the same rates, so that throughput is equal if
    the rates are held."""
    # Fields, not a spec: one of an existing server has no settings.
    sides = (fields_with(spec, side)["clients"] for side in (a, b))
    of_a, of_b = ([group.get("arrival") for group in groups] for groups in sides)
    return of_a == of_b


def _group_effects(
    groups: Sequence[ClientGroup],
    sides: tuple[Arm, Arm],
    confidence: float,
    matters: Matters,
    noise: Noise | None,
) -> tuple[JudgedGroup, ...]:
    """Return the effect on each of several groups, at a level divided among them. None is less
    noisy than all of them together."""
    if len(groups) < 2:
        return ()
    each = 1 - (1 - confidence) / len(groups)
    return tuple(_group_effect(group, sides, each, matters, noise) for group in groups)


def _group_effect(
    group: ClientGroup,
    sides: tuple[Arm, Arm],
    confidence: float,
    matters: Matters,
    noise: Noise | None,
) -> JudgedGroup:
    measure = group_measure(group, *sides)
    of_a, of_b = (_figures(side, group, measure) for side in sides)
    effect = paired_effect(of_a, of_b, confidence=confidence)
    return JudgedGroup(group.name, measure, effect, decided(effect, measure, matters, noise))


def _figures(side: Arm, group: ClientGroup, measure: Measure) -> list[float]:
    parts = side.of_group(group.name)
    if measure == "latency_p99":
        return [part.latency_p99_ns for part in parts]
    served = (part.served(open_loop=group.open_loop is not None) for part in parts)
    return [each / slice_.seconds for each, slice_ in zip(served, side.slices, strict=True)]


def _losses(groups: Sequence[JudgedGroup]) -> list[str]:
    """Return a sentence for each client group that loses."""
    return [
        f"client group {each.name} loses: {_figure(each)}"
        for each in groups
        if each.verdict.outcome == "worse"
    ]


def _figure(each: JudgedGroup) -> str:
    effect = numbers.effect(each.effect.ratio, each.effect.lo, each.effect.hi)
    return effect if each.measure == "throughput" else f"p99 {effect} at the held rate"


def _failing(a: Arm, b: Arm, confidence: float) -> list[str]:
    """Return a sentence if more transactions fail with the change, in all pairs together."""
    shares_a, shares_b = ([_failed_share(each) for each in s.slices] for s in (a, b))
    rises = [after - before for before, after in zip(shares_a, shares_b, strict=True)]
    mean = sum(rises) / len(rises)
    if mean <= FAILURES_MATTER or mean_bounds(rises, confidence)[0] <= 0:
        return []
    before, after = (numbers.percent(sum(shares) / len(shares)) for shares in (shares_a, shares_b))
    return [f"{after} of the transactions fail with the change, {before} without"]


def _failed_share(measured: SliceFigures) -> float:
    failed = sum(part.failed for part in measured.groups.values())
    ended = measured.done + failed
    return failed / ended if ended else 0.0
