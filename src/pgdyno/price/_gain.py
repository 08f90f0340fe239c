"""The gain of a candidate: pairs of slices against the same server without it, on a real disk."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence

from msgspec import Struct

from pgdyno import numbers
from pgdyno.conduct import Session
from pgdyno.errors import SetupError, TrustError, UsageError
from pgdyno.price.candidates import Candidate
from pgdyno.record import TrialKind
from pgdyno.results.common import Postponed
from pgdyno.results.price import Gain, NotMeasured
from pgdyno.spec import Change, Spec
from pgdyno.stats import PAIRS_MIN
from pgdyno.trial.noise import WARM_UP_SECONDS, failures_by_side, measure_noise
from pgdyno.trial.pairs import Noise, TrialAnswer, run_trial
from pgdyno.trial.question import SLICE_OVERHEAD_SECONDS, Question, not_measurable, question_of
from pgdyno.trial.recorded import postponed
from pgdyno.trial.result import ci95

_SLICE_SECONDS_RANGE = (0.8, 20.0)
_SHARE_MAX = 0.5
"""Largest share of the budget for a candidate that needs longer slices than the others."""


class GainTrial(Struct, frozen=True):
    """The outcome of a candidate's trial."""

    answer: TrialAnswer | None
    why_none: str = ""
    """The reason for the missing answer."""
    void: bool = False
    """True if slices were void, which says nothing about the candidate."""
    postponed: tuple[Postponed, ...] = ()

    def as_result(self) -> Gain | NotMeasured:
        """Return the gain as results have it."""
        if self.answer is None:
            return NotMeasured(measured=False, why=self.why_none)
        answer = self.answer
        return Gain(
            measured=True,
            set_by=dict(answer.set_by),
            throughput_ratio=numbers.rounded(answer.throughput.ratio),
            ci95=ci95(answer.throughput),
            latency_p99_ratio=numbers.rounded(answer.latency_p99.ratio),
            latency_p99_ci95=ci95(answer.latency_p99),
            pairs=answer.throughput.pairs,
            compared=answer.measure,
            verdict=answer.verdict.outcome,
            against=answer.verdict.against,
            failures=failures_by_side(answer),
            postponed=self.postponed,
            baseline_tps=answer.baseline_tps,
            changed_tps=answer.changed_tps,
        )


def check_real_disk(spec: Spec) -> None:
    """Raise :class:`UsageError` if gains would be measured on an emulated disk or in memory."""
    for role in ("data", "wal"):
        disk = str(getattr(spec.disk, role))
        if disk.partition(":")[0] not in ("plain", "data"):
            raise UsageError(
                f"disk.{role} = {disk}: gains are measured only on the machine's own disk",
                code="emulated-disk",
                hint=f"leave disk.{role} out; WAL in memory can be priced:"
                " --candidate disk.wal=tmpfs:1GB",
            )


def slice_seconds(candidates: Sequence[Candidate], budget_s: float) -> float:
    """Return the usual length of a slice, with which the noise floor and six pairs of each
    candidate fill the budget. Candidates whose effect takes longer have slices of their own."""
    longer_s = [each.assessment.effect_after_s for each in candidates if not each.is_baseline]
    seconds = _usual_seconds(candidates, budget_s, [0.0] * len(longer_s))
    return _usual_seconds(candidates, budget_s, [max(0.0, each - seconds) for each in longer_s])


def _usual_seconds(
    candidates: Sequence[Candidate], budget_s: float, extra_s: Sequence[float]
) -> float:
    """Return the length if the slices of each candidate are longer by ``extra_s``."""
    trials = 1 + len(extra_s)
    overhead_s = sum(PAIRS_MIN * _pair_overhead_s(candidate) for candidate in candidates)
    overhead_s += PAIRS_MIN * 2 * SLICE_OVERHEAD_SECONDS + WARM_UP_SECONDS
    overhead_s += 2 * PAIRS_MIN * sum(extra_s)
    slices = 2 * PAIRS_MIN * trials
    low, high = _SLICE_SECONDS_RANGE
    return min(max((budget_s - overhead_s) / slices, low), high)


def _pair_overhead_s(candidate: Candidate) -> float:
    """Return the time of a pair in addition to its two slices."""
    if candidate.is_baseline:
        return 0.0
    question = price_question(candidate, 0.0)
    return question.pair_seconds - 2 * question.seconds


def too_long(candidate: Candidate, budget_s: float) -> str | None:
    """Return the reason if a candidate needs slices that are too long for the budget."""
    question = price_question(candidate, 0.0)
    needed_s = PAIRS_MIN * question.pair_seconds
    if not question.seconds or needed_s <= _SHARE_MAX * budget_s:
        return None
    return not_measurable(question.seconds, math.ceil(needed_s / _SHARE_MAX / 60))


def least_gain_seconds(candidates: Sequence[Candidate], budget_s: float) -> float:
    """Return how long the noise floor and six pairs of each candidate take on an idle machine,
    without those that the budget is too short for, which are not measured."""
    low, _ = _SLICE_SECONDS_RANGE
    identical = Question(kind=TrialKind.NOISE, title="", a=Change(), b=Change(), seconds=low)
    questions = [
        price_question(each, low)
        for each in candidates
        if not each.is_baseline and too_long(each, budget_s) is None
    ]
    pairs_s = sum(each.pair_seconds_least for each in (identical, *questions))
    return WARM_UP_SECONDS + PAIRS_MIN * pairs_s


def begin_gains(session: Session, seconds: float, rng: random.Random) -> Noise:
    """Start the load and measure the noise floor with slices of ``seconds``."""
    session.watcher.phase("warming up")
    session.start_load()
    session.wait_connected()
    session.wait(WARM_UP_SECONDS)
    return measure_noise(session, seconds, rng)


def measure_gains(
    session: Session,
    candidates: Sequence[Candidate],
    seconds: float,
    noise: Noise,
    deadline_s: float,
    rng: random.Random,
) -> Iterator[tuple[Candidate, GainTrial]]:
    """Measure and yield the gain of each candidate; stop the running load at the end.

    Candidates share the time until ``deadline_s`` (monotonic). A candidate that this server or
    machine refuses has the reason instead of an answer.
    """
    to_measure = [candidate for candidate in candidates if not candidate.is_baseline]
    budget_s = deadline_s - time.monotonic()
    for number, candidate in enumerate(to_measure):
        left_s = deadline_s - time.monotonic()
        share_s = time.monotonic() + left_s / (len(to_measure) - number)
        if why := too_long(candidate, budget_s):
            trial = GainTrial(None, why)
        else:
            trial = _measure(session, candidate, seconds, noise, share_s, rng)
        session.watcher.step(_step_words(candidate, trial))
        yield candidate, trial
    session.stop_load()


def price_question(candidate: Candidate, seconds: float) -> Question:
    """Return the question of the gain of ``candidate``, with slices of at least ``seconds``."""
    return question_of(
        candidate.assessment,
        kind=TrialKind.PRICE,
        title=candidate.title,
        state=candidate.base,
        seconds=max(seconds, candidate.assessment.effect_after_s),
        pairs_max=2 * PAIRS_MIN,
    )


def _measure(
    session: Session,
    candidate: Candidate,
    seconds: float,
    noise: Noise,
    deadline_s: float,
    rng: random.Random,
) -> GainTrial:
    session.watcher.phase(f"measuring the gain of {candidate.title}")
    question = price_question(candidate, seconds)
    try:
        session.provide(candidate.in_force(), checkpoint=question.checkpoint_bound)
        answer = run_trial(session, question, noise=noise, deadline_s=deadline_s, rng=rng)
    except TrustError as problem:
        return GainTrial(None, f"no verdict: {problem.message}", void=True)
    except (SetupError, UsageError) as problem:
        return GainTrial(None, f"not measured: {problem.message}")
    charged = postponed(session.reader(), answer.slices_a, answer.slices_b)
    return GainTrial(answer, postponed=charged)


def _step_words(candidate: Candidate, trial: GainTrial) -> str:
    if trial.answer is None:
        return f"{candidate.title}: {trial.why_none}"
    effect = trial.answer.throughput
    return f"{candidate.title}: {numbers.effect(effect.ratio, effect.lo, effect.hi)}"
