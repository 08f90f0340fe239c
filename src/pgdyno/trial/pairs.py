"""A trial: pairs of slices, unchanged (a) and changed (b), in random order within each pair.

The replicate is the pair, not the second (Abedi & Brecht, ICPE 2017). The number of pairs is
planned before the first one, from the spread of identical slices; an inconclusive trial may be
extended once, at once or later (``stats/_plan.py``). A pair with a void slice is measured again.
Each slice is entered from the other side, so that both are prepared alike, and begins without a
queue.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from pgdyno import numbers
from pgdyno.conduct import Session, warm_up_seconds_max
from pgdyno.errors import TrustError
from pgdyno.facts.failures import FailedTransactions, failures, not_comparable
from pgdyno.record import SliceKind, TrialKind
from pgdyno.record.void import IncidentCause, VoidReason
from pgdyno.results.common import Measure
from pgdyno.stats import (
    PAIRS_MIN,
    SIX_PAIRS,
    PairedEffect,
    PairPlan,
    PairSequence,
    TrialVerdict,
    geometric_mean,
    plan_pairs,
)
from pgdyno.trial._arms import Arm, SliceFigures
from pgdyno.trial._judging import Judged, JudgedGroup, Matters, decided, judge, same_rate
from pgdyno.trial._judging import Noise as Noise
from pgdyno.trial.question import PAIRS_MAX, Question


class TrialAnswer(Struct, frozen=True):
    """The answer of a trial."""

    trial_id: int
    throughput: PairedEffect
    latency_p99: PairedEffect
    measure: Measure
    """The figure that the verdict is about."""
    verdict: TrialVerdict
    tps_a: tuple[float, ...]
    tps_b: tuple[float, ...]
    latency_p99_a: tuple[float, ...]
    latency_p99_b: tuple[float, ...]
    slices_a: tuple[int, ...]
    slices_b: tuple[int, ...]
    failures_a: FailedTransactions
    failures_b: FailedTransactions
    set_by: Mapping[str, str]
    """Setting in which the sides differ → sessions, reload or restart."""
    groups: tuple[JudgedGroup, ...] = ()
    """The effect on each client group, if there are several."""
    matters: Matters = Matters()
    """The smallest effects that matter."""
    noise: Noise | None = None
    trial: PairedTrial | None = None
    """The trial, which :func:`resume_trial` continues."""

    @property
    def can_resume(self) -> bool:
        """True if the trial is inconclusive and its plan has more pairs."""
        return self.trial is not None and self.trial.sequence.can_extend

    @property
    def p99_is_shorter(self) -> bool:
        """True if p99 fell, by the rule of the compared figure."""
        p99 = decided(self.latency_p99, "latency_p99", self.matters, self.noise)
        return p99.outcome == "better"

    @property
    def baseline_tps(self) -> float:
        """Throughput without the change, as results have it: the geometric mean of the slices."""
        return round(geometric_mean(self.tps_a), 2)

    @property
    def changed_tps(self) -> float:
        """Throughput with the change, as results have it: the geometric mean of the slices."""
        return round(geometric_mean(self.tps_b), 2)

    @property
    def gain(self) -> str:
        """The gain of the change, in a few words."""
        if self.measure == "throughput":
            return numbers.ratio(self.throughput.ratio)
        return f"p99 {numbers.ratio(self.latency_p99.ratio)} at the held rate"


class VoidSliceError(Exception):
    """Raised when a void slice was measured."""

    def __init__(self, reason: VoidReason) -> None:
        super().__init__(reason.sentence)
        self.reason = reason


def run_trial(
    session: Session,
    question: Question,
    *,
    noise: Noise | None,
    deadline_s: float,
    rng: random.Random,
    resumable: bool = False,
    plan: PairPlan | None = None,
) -> TrialAnswer:
    """Measure the planned pairs, as far as there is time until the deadline (monotonic); at least
    six.

    ``noise`` plans them, unless there is a ``plan``, and bounds what is called an effect; ``None``
    for the trial that measures it, which has six. A ``resumable`` trial may be extended by
    :func:`resume_trial` later. Raises TrustError if so many slices are void that there is no
    verdict.
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
    matters = Matters.given(session.spec.load.matters)
    if plan is None:
        seconds = deadline_s - time.monotonic()
        plan = plan_of(question, noise, matters, seconds, resumable=resumable)
    rates_are_equal = same_rate(session.spec, question.a, question.b)
    trial = PairedTrial(trial_id, question, set_by, matters, rates_are_equal, noise)
    trial.begin(session, plan)
    return trial.go_on(session, deadline_s, rng)


def resume_trial(
    session: Session, answer: TrialAnswer, *, deadline_s: float, rng: random.Random
) -> TrialAnswer:
    """Extend an inconclusive trial: measure more pairs until the deadline (monotonic), in the same
    row of the run file. Returns ``answer`` if the plan has none, or there is no time for them."""
    trial = answer.trial
    if trial is None or not trial.sequence.extend(trial.pairs, trial.pairs_until(deadline_s)):
        return answer
    return trial.go_on(session, deadline_s, rng)


def plan_of(
    question: Question,
    noise: Noise | None,
    matters: Matters,
    seconds: float,
    *,
    resumable: bool = False,
) -> PairPlan:
    """Return the plan of a trial for which there are ``seconds``."""
    if noise is None:
        return SIX_PAIRS
    identical = noise.of(noise.measure)
    by_throughput = noise.measure == "throughput"
    return plan_pairs(
        identical.log_sd,
        identical.pairs,
        pairs_max=question.pairs_max,
        pairs_in_time=int(seconds / question.pair_seconds),
        effect_matters=matters.of(noise.measure),
        predicted_ratio=question.predicted_ratio if by_throughput else None,
        resumable=resumable,
    )


@dataclass
class PairedTrial:
    """A trial under way, or one that may be extended."""

    trial_id: int
    question: Question
    set_by: Mapping[str, str]
    matters: Matters
    same_rate: bool
    noise: Noise | None
    sides: dict[str, Arm] = field(default_factory=lambda: {"a": Arm(), "b": Arm()})
    voids: list[VoidReason] = field(default_factory=list)
    pair_seconds: float = 0.0
    """The longest time of a pair so far."""
    sequence: PairSequence = field(init=False)
    judged: Judged = field(init=False)

    def begin(self, session: Session, plan: PairPlan) -> None:
        """Start the sequence of pairs by ``plan``."""
        self._session = session
        self.sequence = PairSequence(plan, self._look)

    @property
    def pairs(self) -> int:
        """Number of pairs measured."""
        return len(self.sides["a"].slices)

    def pairs_until(self, deadline_s: float) -> int:
        """Return the number of pairs for which there is time."""
        pair_s = max(self.pair_seconds, self.question.pair_seconds)
        if math.isinf(deadline_s):
            return PAIRS_MAX
        return max(0, int((deadline_s - time.monotonic()) / pair_s))

    def go_on(self, session: Session, deadline_s: float, rng: random.Random) -> TrialAnswer:
        """Measure pairs until the sequence ends; record and return the answer."""
        goes_on = True
        while goes_on:
            began_s = time.monotonic()
            try:
                pair = self._measure_pair(session, rng)
            except VoidSliceError as void:
                self.voids.append(void.reason)
                if self._gives_up(deadline_s):
                    break
                session.wait_served()
                continue
            self.pair_seconds = max(self.pair_seconds, time.monotonic() - began_s)
            for side, measured in pair.items():
                self.sides[side].slices.append(measured)
            planned = max(self.sequence.target, self.pairs)
            session.watcher.progress(self.question.title, self.pairs, planned)
            goes_on = self.sequence.goes_on(self.pairs, self.pairs_until(deadline_s))
        if goes_on:
            self._end_early(session)
        answer = self._answer(session)
        session.recorder.update_trial(self.trial_id, **_columns(answer))
        return answer

    def _end_early(self, session: Session) -> None:
        """Decide about the pairs that could be measured, if these are enough for a verdict."""
        if self.pairs < PAIRS_MIN:
            problem = _too_many_void(self.question, self.voids)
            session.recorder.update_trial(self.trial_id, sentence=problem.message)
            raise problem
        self.sequence.goes_on(self.pairs, 0)

    def _measure_pair(self, session: Session, rng: random.Random) -> dict[str, SliceFigures]:
        """Measure both sides in random order. Raises VoidSliceError at the first void slice."""
        number = self.pairs + len(self.voids) + 1
        return {
            side: _measure(session, self.question, self.trial_id, number, side)
            for side in rng.sample(["a", "b"], 2)
        }

    def _gives_up(self, deadline_s: float) -> bool:
        """Return whether void pairs are no longer repeated: after the deadline and six of them."""
        return len(self.voids) >= PAIRS_MIN and not self.pairs_until(deadline_s)

    def _look(self, confidence: float) -> TrialVerdict:
        """Return the verdict about the pairs so far."""
        session, a, b = self._session, self.sides["a"], self.sides["b"]
        self.judged = judge(
            session.spec,
            self.sides,
            confidence,
            matters=self.matters,
            noise=self.noise,
            same_rate=self.same_rate,
        )
        if why := not_comparable(session.reader(), a.ids, b.ids):
            return TrialVerdict("not comparable", None, f"not comparable: {why}")
        return self.judged.verdict

    def _answer(self, session: Session) -> TrialAnswer:
        a, b, judged = self.sides["a"], self.sides["b"], self.judged
        run, verdict = session.reader(), self.sequence.verdict
        assert verdict is not None, "a sequence ends with a look"
        return TrialAnswer(
            trial_id=self.trial_id,
            throughput=judged.throughput,
            latency_p99=judged.latency_p99,
            measure=judged.measure,
            verdict=verdict,
            failures_a=failures(run, a.ids),
            failures_b=failures(run, b.ids),
            tps_a=tuple(a.tps(session.spec)),
            tps_b=tuple(b.tps(session.spec)),
            latency_p99_a=tuple(a.latency_p99_ns),
            latency_p99_b=tuple(b.latency_p99_ns),
            slices_a=tuple(a.ids),
            slices_b=tuple(b.ids),
            set_by=self.set_by,
            groups=judged.groups,
            matters=self.matters,
            noise=self.noise,
            trial=self,
        )


def _too_many_void(question: Question, voids: list[VoidReason]) -> TrustError:
    reasons = Counter(each.sentence for each in voids).most_common()
    words = "; ".join(f"{why} ({times}x)" if times > 1 else why for why, times in reasons)
    if all(each.cause is IncidentCause.NOTHING_DONE for each in voids):
        words += "; transactions that take so long need longer slices (--slice, --budget)"
    return TrustError(
        f"{question.title}: {len(voids)} slices are void, and the {PAIRS_MIN} pairs that a verdict"
        f" needs could not be measured: {words}",
        code="void-slices",
    )


def _measure(
    session: Session, question: Question, trial_id: int, pair: int, side: str
) -> SliceFigures:
    bound = question.checkpoint_bound
    session.drain()
    this, other = (question.a, question.b) if side == "a" else (question.b, question.a)
    session.apply(
        this,
        checkpoint=bound,
        by_way_of=question.like or other,
        warm_up_s_max=warm_up_seconds_max(question.seconds),
    )
    slice_id = session.slice(
        question.seconds,
        kind=SliceKind.NOISE if question.kind is TrialKind.NOISE else SliceKind.TRIAL,
        trial_id=trial_id,
        pair=pair,
        side=side,
        debts=question.debts,
    )
    run = session.reader()
    if (reason := session.voids.get(slice_id)) is not None:
        raise VoidSliceError(reason)
    measured = SliceFigures.of(run, slice_id)
    if not measured.done:
        # At a very low rate no transaction was due; a throughput of 0 has no logarithm.
        raise VoidSliceError(
            VoidReason(IncidentCause.NOTHING_DONE, "nothing was done, and nothing was due")
        )
    return measured


def _columns(answer: TrialAnswer) -> dict[str, object]:
    throughput, latency = answer.throughput, answer.latency_p99
    return {
        "pairs": throughput.pairs,
        "throughput_ratio": numbers.rounded(throughput.ratio),
        "throughput_ratio_lo": numbers.rounded(throughput.lo),
        "throughput_ratio_hi": numbers.rounded(throughput.hi),
        "latency_p99_ratio": numbers.rounded(latency.ratio),
        "latency_p99_ratio_lo": numbers.rounded(latency.lo),
        "latency_p99_ratio_hi": numbers.rounded(latency.hi),
        "baseline_tps": geometric_mean(answer.tps_a),
        "changed_tps": geometric_mean(answer.tps_b),
        "compared": answer.measure,
        "verdict": answer.verdict.outcome,
        "pairs_needed": answer.verdict.pairs_needed,
        "sentence": answer.verdict.sentence,
    }
