"""A trial: pairs of slices, as it was (a) and changed (b), in random order within each pair.

The replicate is the pair, not the second (Abedi & Brecht, ICPE 2017). At least six pairs are
measured, then more while the interval is wider than the precision asked for and time is left; never
fewer or more because of what they show.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pgdyno.conduct import Session
from pgdyno.spec import Change
from pgdyno.stats import (
    PAIRS_MIN,
    Effect,
    NoiseFloor,
    Verdict,
    decide,
    paired_effect,
    wants_more,
)

PAIRS_MAX = 60
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
    verdict: Verdict
    tps_a: tuple[float, ...]
    tps_b: tuple[float, ...]
    slices_a: tuple[int, ...]
    slices_b: tuple[int, ...]


@dataclass
class _Side:
    slices: list[int] = field(default_factory=list)
    tps: list[float] = field(default_factory=list)
    latency_p99_ns: list[float] = field(default_factory=list)


def run_trial(
    session: Session,
    question: Question,
    *,
    noise: NoiseFloor | None,
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
        if pair >= PAIRS_MIN and _enough(sides, question, deadline_s):
            break
    answer = _answer(trial_id, sides, noise)
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
    done = max(run.ledger([slice_id]).done, 0.5)
    into.slices.append(slice_id)
    into.tps.append(done / seconds)
    into.latency_p99_ns.append(max(run.histogram("response", [slice_id]).percentile(99), 1))


def _enough(sides: Mapping[str, _Side], question: Question, deadline_s: float) -> bool:
    effect = paired_effect(sides["a"].tps, sides["b"].tps)
    if not wants_more(effect, predicted_ratio=question.predicted_ratio):
        return True
    return time.monotonic() + question.pair_seconds > deadline_s


def _answer(trial_id: int, sides: Mapping[str, _Side], noise: NoiseFloor | None) -> Answer:
    a, b = sides["a"], sides["b"]
    effect = paired_effect(a.tps, b.tps)
    return Answer(
        trial_id=trial_id,
        throughput=effect,
        latency_p99=paired_effect(a.latency_p99_ns, b.latency_p99_ns),
        verdict=decide(effect, noise),
        tps_a=tuple(a.tps),
        tps_b=tuple(b.tps),
        slices_a=tuple(a.slices),
        slices_b=tuple(b.slices),
    )


def _columns(answer: Answer) -> dict[str, Any]:
    throughput, latency = answer.throughput, answer.latency_p99
    return {
        "pairs": throughput.pairs,
        "throughput_ratio": throughput.ratio,
        "throughput_ratio_lo": throughput.lo,
        "throughput_ratio_hi": throughput.hi,
        "latency_p99_ratio": latency.ratio,
        "latency_p99_ratio_lo": latency.lo,
        "latency_p99_ratio_hi": latency.hi,
        "baseline_tps": _mean(answer.tps_a),
        "changed_tps": _mean(answer.tps_b),
        "verdict": answer.verdict.outcome,
        "pairs_needed": answer.verdict.pairs_needed,
        "sentence": answer.verdict.sentence,
    }


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)
