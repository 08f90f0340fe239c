"""The noise floor, which identical slices show, and parts of an answer as results have them."""

from __future__ import annotations

import random
import time

from pgdyno import numbers
from pgdyno.conduct import Session
from pgdyno.record import TrialKind
from pgdyno.results import common
from pgdyno.results.common import FailuresBySide, Measure, NoiseFloor
from pgdyno.spec import Change
from pgdyno.stats import PAIRS_MIN
from pgdyno.trial._judging import JudgedGroup
from pgdyno.trial.pairs import Noise, TrialAnswer, run_trial
from pgdyno.trial.question import Question
from pgdyno.trial.result import ci95, failures_of

WARM_UP_SECONDS = 2.0


def measure_noise(
    session: Session, seconds: float, rng: random.Random, *, like: Question | None = None
) -> Noise:
    """Compare identical slices of ``seconds`` in six pairs; with the checkpoints, reloads and
    restarts of the trial ``like`` it, if that is known."""
    session.watcher.phase("measuring the noise floor")
    question = Question(
        kind=TrialKind.NOISE,
        title="identical slices",
        a=Change(),
        b=Change(),
        seconds=seconds,
        like=like.b if like else None,
        like_checkpoint_bound=like.checkpoint_bound if like else False,
    )
    # All six are measured, however long they take.
    answer = run_trial(session, question, noise=None, deadline_s=time.monotonic(), rng=rng)
    return Noise(answer.throughput, answer.latency_p99, answer.measure)


def noise_of(noise: Noise, measure: Measure) -> NoiseFloor:
    """Return the comparison of identical slices by ``measure``, as results have it."""
    effect = noise.of(measure)
    shows = numbers.rounded(effect.can_show(PAIRS_MIN)) if effect.pairs else None
    return NoiseFloor(of=measure, ci95=ci95(effect), pairs=effect.pairs, six_pairs_show=shows)


def failures_by_side(answer: TrialAnswer) -> FailuresBySide:
    """Return the failures in a trial's slices without and with the change."""
    return FailuresBySide(
        before=failures_of(answer.failures_a), after=failures_of(answer.failures_b)
    )


def group_effect_of(each: JudgedGroup) -> common.GroupEffect:
    """Return the effect on a client group as results have it."""
    return common.GroupEffect(
        group=each.name,
        compared=each.measure,
        ratio=numbers.rounded(each.effect.ratio),
        ci95=ci95(each.effect),
        verdict=each.verdict.outcome,
    )
