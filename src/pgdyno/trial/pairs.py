"""A trial: pairs of slices, unchanged (a) and changed (b), in random order within each pair.

The replicate is the pair, not the second (Abedi & Brecht, ICPE 2017). At least six pairs are
measured, then more while the interval is wider than the required precision and time is left; their
number never depends on the effect. A pair with a void slice is measured again.
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
from pgdyno.diagnose.failures import Failures, failures, not_comparable
from pgdyno.dimension import fields_with
from pgdyno.errors import TrustError
from pgdyno.record import RunFile
from pgdyno.record.void import NOTHING_DONE
from pgdyno.results.common import Measure
from pgdyno.spec import Change, ClientGroup, Spec
from pgdyno.stats import (
    EFFECT_MATTERS,
    PAIRS_MIN,
    Effect,
    NoiseFloor,
    Verdict,
    decide,
    geometric_mean,
    needs_more_pairs,
    paired_effect,
)
from pgdyno.stats.words import ratio_words, rounded
from pgdyno.trial.question import Question

LATENCY_MATTERS = 0.10
"""The smallest change of p99 at a fixed rate that matters; tails are noisier than means."""
RATE_SLACK = 0.01
"""Share of the intended transactions that may be missing while the rate still counts as held."""


@dataclass(frozen=True)
class Answer:
    """The answer of a trial."""

    trial_id: int
    throughput: Effect
    latency_p99: Effect
    measure: Measure
    """The figure that the verdict is about."""
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
            return ratio_words(self.throughput.ratio)
        return f"p99 {ratio_words(self.latency_p99.ratio)} at the held rate"


@dataclass(frozen=True)
class Noise:
    """The noise floor of each measure."""

    throughput: NoiseFloor
    latency_p99: NoiseFloor
    measure: Measure
    """The figure that identical slices were compared by."""

    def of(self, measure: Measure) -> NoiseFloor:
        """Return the floor for a verdict about ``measure``."""
        return self.throughput if measure == "throughput" else self.latency_p99


@dataclass(frozen=True)
class _GroupCounts:
    """Transactions of a client group, over some slices."""

    intended: int = 0
    done: int = 0
    backlog_growth: int = 0
    """Growth of the backlog between the start and the end of the slices."""

    def __add__(self, other: _GroupCounts) -> _GroupCounts:
        return _GroupCounts(
            self.intended + other.intended,
            self.done + other.done,
            self.backlog_growth + other.backlog_growth,
        )

    def held(self, clients: int) -> bool:
        """True if the rate was held: nearly all intended transactions were done.

        Each of the ``clients`` may have one transaction under way.
        """
        slack = RATE_SLACK * self.intended
        missing = self.intended - self.done - self.backlog_growth
        return missing <= slack and self.backlog_growth <= max(clients, slack)


@dataclass(frozen=True)
class _Measured:
    """The figures of one slice."""

    slice_id: int
    seconds: float
    done: int
    groups: Mapping[str, _GroupCounts]
    latency_p99_ns: float


@dataclass
class _Side:
    slices: list[int] = field(default_factory=list)
    tps: list[float] = field(default_factory=list)
    latency_p99_ns: list[float] = field(default_factory=list)
    groups: dict[str, _GroupCounts] = field(default_factory=dict)

    def add(self, measured: _Measured) -> None:
        """Add a slice."""
        self.slices.append(measured.slice_id)
        self.tps.append(measured.done / measured.seconds)
        self.latency_p99_ns.append(measured.latency_p99_ns)
        for name, counts in measured.groups.items():
            self.groups[name] = self.groups.get(name, _GroupCounts()) + counts

    def held(self, group: ClientGroup) -> bool:
        """True if the group held its rate."""
        return self.groups.get(group.name, _GroupCounts()).held(group.count)


def run_trial(
    session: Session,
    question: Question,
    *,
    noise: Noise | None,
    deadline_s: float,
    rng: random.Random,
) -> Answer:
    """Measure pairs until the interval is narrow enough or the deadline (monotonic) has passed.

    ``noise`` is the floor below which nothing is called an effect; ``None`` for the trial that
    measures it. Raises TrustError if so many slices are void that there is no verdict.
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
            pair = _measure_pair(session, question, trial_id, number, rng)
        except VoidSlice as void:
            voids.append(void.why)
            if _gives_up(voids, question, deadline_s):
                break
            session.wait_served()
            continue
        for side, measured in pair.items():
            sides[side].add(measured)
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
    """Raised when a void slice was measured."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def _measure_pair(
    session: Session, question: Question, trial_id: int, pair: int, rng: random.Random
) -> dict[str, _Measured]:
    """Measure both sides in random order. Raises VoidSlice at the first void slice."""
    return {
        side: _measure(session, question, trial_id=trial_id, pair=pair, side=side)
        for side in rng.sample(["a", "b"], 2)
    }


def _gives_up(voids: list[str], question: Question, deadline_s: float) -> bool:
    """Return whether void pairs are no longer repeated: after the deadline and at least six."""
    return len(voids) >= PAIRS_MIN and time.monotonic() + question.pair_seconds > deadline_s


def _too_many_void(question: Question, voids: list[str]) -> TrustError:
    reasons = Counter(voids).most_common()
    words = "; ".join(f"{why} ({times}x)" if times > 1 else why for why, times in reasons)
    if all(why.startswith(NOTHING_DONE) for why in voids):
        words += "; transactions that take so long need longer slices (--slice, --budget)"
    return TrustError(
        f"{question.title}: {len(voids)} slices are void, and the {PAIRS_MIN} pairs that a verdict"
        f" needs could not be measured: {words}",
        code="void-slices",
    )


def _measure(
    session: Session, question: Question, *, trial_id: int, pair: int, side: str
) -> _Measured:
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
        # At a very low rate no transaction was due; a throughput of 0 has no logarithm.
        raise VoidSlice(f"{NOTHING_DONE}, and nothing was due")
    return _Measured(
        slice_id=slice_id,
        seconds=run.seconds([slice_id]),
        done=ledger.done,
        groups=_counts_by_group(run, slice_id),
        latency_p99_ns=max(run.histogram("response", [slice_id]).percentile(99), 1),
    )


def _counts_by_group(run: RunFile, slice_id: int) -> dict[str, _GroupCounts]:
    names = dict.fromkeys(row.client_group for row in run.group_intervals([slice_id]))
    ledgers = {name: run.ledger([slice_id], group=name) for name in names}
    return {
        name: _GroupCounts(each.intended, each.done, each.backlog - each.carried_in)
        for name, each in ledgers.items()
    }


def _measure_of(spec: Spec, sides: Mapping[str, _Side]) -> Measure:
    """Return the figure by which the sides are compared.

    If every group is an open loop and both sides held the rate of each, their throughput is equal
    by construction, and latency at that rate is compared. If a rate was not held, throughput is
    compared: it is then the server's maximum.
    """
    working = [group for group in spec.clients if not group.idle]
    held = all(side.held(group) for side in sides.values() for group in working)
    fixed = all(group.open_loop for group in working)
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
    same = same_rate(session.spec, question.a, question.b)
    verdict = _verdict(_effect(sides, measure), noise, measure, same_rate=same)
    if why := not_comparable(run, a.slices, b.slices):
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


def same_rate(spec: Spec, a: Change, b: Change) -> bool:
    """Return whether both changes of ``spec`` have the same rates, so that throughput is equal if
    the rates are held."""
    # Fields, not a spec: one of an existing server has no settings.
    sides = (fields_with(spec, side)["clients"] for side in (a, b))
    of_a, of_b = ([group.get("arrival") for group in groups] for groups in sides)
    return of_a == of_b


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
        "throughput_ratio": rounded(throughput.ratio),
        "throughput_ratio_lo": rounded(throughput.lo),
        "throughput_ratio_hi": rounded(throughput.hi),
        "latency_p99_ratio": rounded(latency.ratio),
        "latency_p99_ratio_lo": rounded(latency.lo),
        "latency_p99_ratio_hi": rounded(latency.hi),
        "baseline_tps": geometric_mean(answer.tps_a),
        "changed_tps": geometric_mean(answer.tps_b),
        "compared": answer.measure,
        "verdict": answer.verdict.outcome,
        "pairs_needed": answer.verdict.pairs_needed,
        "sentence": answer.verdict.sentence,
    }
