"""A trial: pairs of slices, as it was (a) and changed (b), in random order within each pair.

The replicate is the pair, not the second (Abedi & Brecht, ICPE 2017). At least six pairs are
measured, then more while the interval is wider than the precision asked for and time is left; never
fewer or more because of what they show. A pair with a void slice is measured again.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from pgdyno.conduct import Session
from pgdyno.diagnose.failures import Failures, failures, failures_max, not_comparable
from pgdyno.errors import TrustError
from pgdyno.record.void import NOTHING_DONE
from pgdyno.results.common import Measure
from pgdyno.spec import Spec
from pgdyno.stats import (
    EFFECT_MATTERS,
    PAIRS_MIN,
    Effect,
    NoiseFloor,
    Verdict,
    decide,
    needs_more_pairs,
    paired_effect,
)
from pgdyno.stats.words import kept, ratio_words
from pgdyno.trial.question import Question

LATENCY_MATTERS = 0.10
"""A change of p99 at a fixed rate that is worth knowing; tails are noisier than means."""
RATE_SLACK = 0.01
"""Part of what came due that may not be done although the rate is held."""


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
    failures_a: Failures
    failures_b: Failures
    set_by: Mapping[str, str]
    """Setting in which the sides differ → sessions, reload or restart."""

    @property
    def baseline_tps(self) -> float:
        """Mean throughput without the change, as results have it."""
        return round(_mean(self.tps_a), 2)

    @property
    def changed_tps(self) -> float:
        """Mean throughput with the change, as results have it."""
        return round(_mean(self.tps_b), 2)

    @property
    def gain(self) -> str:
        """The gain of the change, in a few words."""
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


@dataclass(frozen=True)
class _Piece:
    """What one slice gave."""

    slice_id: int
    seconds: float
    intended: int
    done: int
    grown: int
    """By how much more was due and not done at its end than at its start."""
    latency_p99_ns: float


@dataclass
class _Side:
    slices: list[int] = field(default_factory=list)
    tps: list[float] = field(default_factory=list)
    latency_p99_ns: list[float] = field(default_factory=list)
    intended: int = 0
    done: int = 0
    grown: int = 0

    def take(self, piece: _Piece) -> None:
        """Count a slice in."""
        self.slices.append(piece.slice_id)
        self.tps.append(piece.done / piece.seconds)
        self.latency_p99_ns.append(piece.latency_p99_ns)
        self.intended += piece.intended
        self.done += piece.done
        self.grown += piece.grown

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
    measures it. Raises TrustError when so many slices are void that there is no verdict.
    """
    set_by = session.set_by(question.b.settings_differing_from(question.a))
    trial_id = session.recorder.add_trial(
        kind=question.kind,
        set_by=set_by,
        title=question.title,
        change=question.b.to_json(),
        predicted_ratio=question.predicted_ratio,
        **question.labels,
    )
    sides = {"a": _Side(), "b": _Side()}
    voids: list[str] = []
    for number in count(1):
        try:
            measured = _measure_pair(session, question, trial_id, number, rng)
        except VoidSlice as void:
            voids.append(void.why)
            if _out_of_patience(voids, question, deadline_s):
                break
            session.wait_served()
            continue
        for side, piece in measured.items():
            sides[side].take(piece)
        pairs = number - len(voids)
        session.watcher.progress(question.title, pairs, max(PAIRS_MIN, pairs))
        measure = _measure_of(session.spec, sides)
        if pairs >= question.pairs_max:
            break
        if pairs >= PAIRS_MIN and _enough(sides, question, measure, deadline_s):
            break
    if len(sides["a"].slices) < PAIRS_MIN:
        problem = _too_many_void(question, voids)
        session.recorder.update_trial(trial_id, sentence=problem.message)
        raise problem
    answer = replace(_answer(session, trial_id, sides, noise, question), set_by=set_by)
    session.recorder.update_trial(trial_id, **_columns(answer))
    return answer


class VoidSlice(Exception):
    """A slice that decides nothing was measured."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def _measure_pair(
    session: Session, question: Question, trial_id: int, pair: int, rng: random.Random
) -> dict[str, _Piece]:
    """Both sides in random order; raises VoidSlice at the first that is void."""
    return {
        side: _measure(session, question, trial_id=trial_id, pair=pair, side=side)
        for side in rng.sample(["a", "b"], 2)
    }


def _out_of_patience(voids: list[str], question: Question, deadline_s: float) -> bool:
    """Void pairs are repeated while time is left, and as often as a trial has pairs at least."""
    return len(voids) >= PAIRS_MIN and time.monotonic() + question.pair_seconds > deadline_s


def _too_many_void(question: Question, voids: list[str]) -> TrustError:
    reasons = Counter(voids).most_common()
    told = "; ".join(f"{why} ({times}x)" if times > 1 else why for why, times in reasons)
    if all(why.startswith(NOTHING_DONE) for why in voids):
        told += "; transactions that take so long need longer slices (--slice, --budget)"
    return TrustError(
        f"{question.title}: {len(voids)} slices are void, and the {PAIRS_MIN} pairs that a verdict"
        f" needs could not be measured: {told}",
        code="void-slices",
    )


def _measure(
    session: Session, question: Question, *, trial_id: int, pair: int, side: str
) -> _Piece:
    bound = question.checkpoint_bound
    session.apply(question.a if side == "a" else question.b, checkpoint=bound)
    slice_id = session.slice(
        question.seconds,
        kind="noise" if question.kind == "noise" else "trial",
        trial_id=trial_id,
        pair=pair,
        side=side,
        closing_checkpoint=bound,
    )
    run = session.reader()
    if (why := run.slice(slice_id).void) is not None:
        raise VoidSlice(why)
    ledger = run.ledger([slice_id])
    if not ledger.done:
        # Nothing was due either, of a rate as low as that; it has no logarithm.
        raise VoidSlice(f"{NOTHING_DONE}, and nothing was due")
    return _Piece(
        slice_id=slice_id,
        seconds=run.seconds([slice_id]),
        intended=ledger.intended,
        done=ledger.done,
        grown=ledger.backlog - ledger.carried_in,
        latency_p99_ns=max(run.histogram("response", [slice_id]).percentile(99), 1),
    )


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
    if not needs_more_pairs(effect, effect_matters=matters, predicted_ratio=predicted):
        return True
    return time.monotonic() + question.pair_seconds > deadline_s


def _answer(
    session: Session,
    trial_id: int,
    sides: Mapping[str, _Side],
    noise: Noise | None,
    question: Question,
) -> Answer:
    a, b = sides["a"], sides["b"]
    measure = _measure_of(session.spec, sides)
    run = session.reader()
    failed_a, failed_b = failures(run, a.slices), failures(run, b.slices)
    verdict = _verdict(_effect(sides, measure), noise, measure, same_rate=same_rate(question))
    if why := not_comparable(failed_a, failed_b, failures_max(run)):
        verdict = Verdict("not comparable", None, f"not comparable: {why}")
    return Answer(
        trial_id=trial_id,
        throughput=_effect(sides, "throughput"),
        latency_p99=_effect(sides, "latency_p99"),
        measure=measure,
        verdict=verdict,
        failures_a=failed_a,
        failures_b=failed_b,
        tps_a=tuple(a.tps),
        tps_b=tuple(b.tps),
        latency_p99_a=tuple(a.latency_p99_ns),
        latency_p99_b=tuple(b.latency_p99_ns),
        slices_a=tuple(a.slices),
        slices_b=tuple(b.slices),
        set_by={},
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
