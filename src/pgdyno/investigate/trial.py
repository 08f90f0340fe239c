"""A trial: pairs of slices, as it was (a) and changed (b), in random order within each pair.

The replicate is the pair, not the second (Abedi & Brecht, ICPE 2017). At least six pairs are
measured, then more while the interval is wider than the precision asked for and time is left; never
fewer or more because of what they show.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pgdyno.conduct import Session
from pgdyno.spec import Change, Spec
from pgdyno.stats import (
    EFFECT_MATTERS,
    PAIRS_MIN,
    Effect,
    NoiseFloor,
    Verdict,
    decide,
    paired_effect,
    wants_more,
)
from pgdyno.stats.words import kept, ratio_words

PAIRS_MAX = 60
LATENCY_MATTERS = 0.10
"""A change of p99 at a fixed rate that is worth knowing; tails are noisier than means."""
RATE_SLACK = 0.01
"""Part of what came due that may not be done although the rate is held."""

Measure = Literal["throughput", "latency_p99"]
# What a slice costs beside its seconds: the change, settling, reading the probes at both edges.
SLICE_OVERHEAD_SECONDS = 0.6


@dataclass(frozen=True)
class Question:
    """What a trial is to answer: does ``b`` differ from ``a``?"""

    kind: str
    """noise, compare, remedy or recheck."""
    title: str
    a: Change
    b: Change
    seconds: float
    """Length of one slice."""
    predicted_ratio: float | None = None
    """What was predicted beforehand; it sets how closely the effect need be known."""
    pairs_max: int = PAIRS_MAX
    checkpoint_bound: bool = False
    """Slices begin right after a checkpoint and pay for the one that they leave due."""
    labels: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of the trial's row: step, finding, remedy, …"""

    @property
    def pair_seconds(self) -> float:
        """What a pair takes, about."""
        checkpoints = 1.0 if self.checkpoint_bound else 0.0
        return 2 * (self.seconds + SLICE_OVERHEAD_SECONDS + checkpoints)


@dataclass(frozen=True)
class Answer:
    """What a trial found."""

    trial_id: int
    throughput: Effect
    latency_p99: Effect
    measure: Measure
    """What the verdict is about."""
    verdict: Verdict
    tps_a: tuple[float, ...]
    tps_b: tuple[float, ...]
    latency_p99_a: tuple[float, ...]
    latency_p99_b: tuple[float, ...]
    slices_a: tuple[int, ...]
    slices_b: tuple[int, ...]

    @property
    def gain(self) -> str:
        """What the change gave, in a few words."""
        if self.measure == "throughput":
            return ratio_words(self.throughput.ratio)
        return f"p99 {ratio_words(self.latency_p99.ratio)} at the held rate"


@dataclass(frozen=True)
class Noise:
    """How far identical slices lie apart, by either measure."""

    throughput: NoiseFloor
    latency_p99: NoiseFloor
    measure: Measure
    """What identical slices were compared by."""

    def of(self, measure: Measure) -> NoiseFloor:
        """The floor for a verdict about ``measure``."""
        return self.throughput if measure == "throughput" else self.latency_p99


@dataclass
class _Side:
    slices: list[int] = field(default_factory=list)
    tps: list[float] = field(default_factory=list)
    latency_p99_ns: list[float] = field(default_factory=list)
    intended: int = 0
    done: int = 0
    grown: int = 0
    """By how much more was due and not done at the ends of the slices than at their starts."""

    def held(self, under_way: int) -> bool:
        """Whether nearly all that came due was done; ``under_way`` can be at one moment."""
        slack = RATE_SLACK * self.intended
        lost = self.intended - self.done - self.grown
        return lost <= slack and self.grown <= max(under_way, slack)


def run_trial(
    session: Session,
    question: Question,
    *,
    noise: Noise | None,
    deadline_s: float,
    rng: random.Random,
) -> Answer:
    """Measure pairs until the interval is narrow enough or the deadline (monotonic) has come.

    ``noise`` is the floor below which nothing is called an effect; ``None`` for the trial that
    measures it.
    """
    trial_id = session.recorder.add_trial(
        kind=question.kind,
        title=question.title,
        change=question.b.to_json(),
        predicted_ratio=question.predicted_ratio,
        **question.labels,
    )
    sides = {"a": _Side(), "b": _Side()}
    for pair in range(1, question.pairs_max + 1):
        for side in rng.sample(["a", "b"], 2):
            _measure(session, question, sides[side], trial_id=trial_id, pair=pair, side=side)
        session.watcher.progress(question.title, pair, max(PAIRS_MIN, pair))
        measure = _measure_of(session.spec, sides)
        if pair >= PAIRS_MIN and _enough(sides, question, measure, deadline_s):
            break
    answer = _answer(trial_id, sides, noise, _measure_of(session.spec, sides), question)
    session.recorder.update_trial(trial_id, **_columns(answer))
    return answer


def _measure(
    session: Session, question: Question, into: _Side, *, trial_id: int, pair: int, side: str
) -> None:
    bound = question.checkpoint_bound
    session.put_in_force(question.a if side == "a" else question.b, checkpoint=bound)
    slice_id = session.slice(
        question.seconds,
        kind="noise" if question.kind == "noise" else "trial",
        trial_id=trial_id,
        pair=pair,
        side=side,
        closing_checkpoint=bound,
    )
    run = session.reader()
    seconds = max(run.seconds([slice_id]), 1e-6)
    # A slice in which nothing was done counts as half a transaction, so that it has a logarithm.
    ledger = run.ledger([slice_id])
    into.slices.append(slice_id)
    into.tps.append(max(ledger.done, 0.5) / seconds)
    into.intended += ledger.intended
    into.done += ledger.done
    into.grown += ledger.backlog - ledger.carried_in
    into.latency_p99_ns.append(max(run.histogram("response", [slice_id]).percentile(99), 1))


def _measure_of(spec: Spec, sides: Mapping[str, _Side]) -> Measure:
    """What the sides are to be compared by.

    Where every group is an open loop and both sides held its rate, their throughput is equal by
    construction, and latency at that rate is what differs. A rate that was not held is compared by
    throughput: it is then what the server could do.
    """
    at_work = [group for group in spec.clients if not group.idle]
    under_way = sum(group.count for group in at_work)
    held = all(side.held(under_way) for side in sides.values())
    fixed = all(group.open_loop for group in at_work)
    return "latency_p99" if fixed and held else "throughput"


def _effect(sides: Mapping[str, _Side], measure: Measure) -> Effect:
    a, b = sides["a"], sides["b"]
    if measure == "throughput":
        return paired_effect(a.tps, b.tps)
    return paired_effect(a.latency_p99_ns, b.latency_p99_ns)


def _enough(
    sides: Mapping[str, _Side], question: Question, measure: Measure, deadline_s: float
) -> bool:
    effect = _effect(sides, measure)
    predicted = question.predicted_ratio if measure == "throughput" else None
    matters = EFFECT_MATTERS if measure == "throughput" else LATENCY_MATTERS
    if not wants_more(effect, effect_matters=matters, predicted_ratio=predicted):
        return True
    return time.monotonic() + question.pair_seconds > deadline_s


def _answer(
    trial_id: int,
    sides: Mapping[str, _Side],
    noise: Noise | None,
    measure: Measure,
    question: Question,
) -> Answer:
    a, b = sides["a"], sides["b"]
    return Answer(
        trial_id=trial_id,
        throughput=_effect(sides, "throughput"),
        latency_p99=_effect(sides, "latency_p99"),
        measure=measure,
        verdict=_verdict(_effect(sides, measure), noise, measure, same_rate=same_rate(question)),
        tps_a=tuple(a.tps),
        tps_b=tuple(b.tps),
        latency_p99_a=tuple(a.latency_p99_ns),
        latency_p99_b=tuple(b.latency_p99_ns),
        slices_a=tuple(a.slices),
        slices_b=tuple(b.slices),
    )


def same_rate(question: Question) -> bool:
    """Whether both sides ask for the same rate, so that holding it makes throughput equal."""
    a, b = question.a, question.b
    keys = {key for change in (a, b) for key in change.spec}
    return a.rate == b.rate and not any("arrival" in key.split(".") for key in keys)


def _verdict(
    effect: Effect, noise: Noise | None, measure: Measure, *, same_rate: bool = True
) -> Verdict:
    floor = noise.of(measure) if noise else None
    if measure == "throughput":
        return decide(effect, floor)
    verdict = decide(effect, floor, effect_matters=LATENCY_MATTERS, higher_is_better=False)
    held = (
        "both sides held the rate, so throughput is equal by construction; p99"
        if same_rate
        else "each side held its own rate; p99"
    )
    return replace(verdict, sentence=f"{held} {verdict.sentence}")


def _columns(answer: Answer) -> dict[str, Any]:
    throughput, latency = answer.throughput, answer.latency_p99
    return {
        "pairs": throughput.pairs,
        "throughput_ratio": kept(throughput.ratio),
        "throughput_ratio_lo": kept(throughput.lo),
        "throughput_ratio_hi": kept(throughput.hi),
        "latency_p99_ratio": kept(latency.ratio),
        "latency_p99_ratio_lo": kept(latency.lo),
        "latency_p99_ratio_hi": kept(latency.hi),
        "baseline_tps": _mean(answer.tps_a),
        "changed_tps": _mean(answer.tps_b),
        "compared": answer.measure,
        "verdict": answer.verdict.outcome,
        "pairs_needed": answer.verdict.pairs_needed,
        "sentence": answer.verdict.sentence,
    }


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)
