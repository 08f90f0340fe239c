"""The trial of ``pgdyno compare``: the effect of one change."""

from __future__ import annotations

import random
import time

from pgdyno.conduct import Session
from pgdyno.dimension import title_of
from pgdyno.errors import TrustError, UsageError
from pgdyno.remedy import Circumstances, assess, circumstances
from pgdyno.results import store
from pgdyno.results.common import FailuresBySide, Measure, NoiseFloor
from pgdyno.results.compare import BothSides, Catalogue, CompareResult, LatencyEffect
from pgdyno.spec import Change
from pgdyno.spec.units import format_duration
from pgdyno.stats import PAIRS_MIN, noise_floor
from pgdyno.stats.words import rounded
from pgdyno.trial.pairs import Answer, Noise, run_trial
from pgdyno.trial.question import PAIRS_MAX, Question, question_of
from pgdyno.trial.result import ci95, effect_of, failures_of, head

WARM_UP_SECONDS = 2.0
_SLICE_SECONDS_MIN = 0.8
_SLICE_SECONDS_MAX = 60.0


def compare(
    session: Session,
    change: Change,
    *,
    title: str | None = None,
    budget_s: float,
    slice_s: float | None = None,
    pairs_max: int | None = None,
) -> CompareResult:
    """Compare the session's spec with itself under ``change``, and record the result.

    ``title`` is that of the change by default.

    The noise floor is measured first, from pairs of identical slices; it may take at most half of
    ``budget_s``. A result without a verdict has the reason. If something that the trial needs is
    missing, raises PgdynoError before the load begins.
    """
    began_s = time.monotonic()
    rng = random.Random(session.spec.load.seed)
    title = title or title_of(change, session.spec)
    seconds = slice_s or slice_seconds(budget_s)
    server = circumstances(session.spec, session.target.facts["settings"])
    question = compare_question(change, server, title=title, seconds=seconds, pairs_max=pairs_max)
    session.provide(change, checkpoint=question.checkpoint_bound)
    session.watcher.phase("warming up")
    session.start_load()
    session.wait_connected()
    session.wait(WARM_UP_SECONDS)
    try:
        noise = measure_noise(session, seconds, rng, deadline_s=began_s + budget_s / 2)
        session.watcher.phase(title)
        answer = run_trial(session, question, noise=noise, deadline_s=began_s + budget_s, rng=rng)
    except TrustError as problem:
        session.stop_load()
        return _record(session, _without_verdict(session, question, problem.message))
    session.stop_load()
    return _record(session, _with_verdict(session, answer, noise, question))


def check_times(slice_ms: int | None, budget_ms: int) -> None:
    """Raise UsageError if the time is too short for a single pair of slices."""
    if slice_ms and 2 * slice_ms > budget_ms:
        raise UsageError(
            f"a pair of slices takes {format_duration(2 * slice_ms)}, and the budget is"
            f" {format_duration(budget_ms)}",
            code="contradiction",
            hint="a verdict requires at least 6 pairs, and as many to measure the noise",
        )


def compare_question(
    change: Change,
    server: Circumstances,
    *,
    title: str,
    seconds: float,
    pairs_max: int | None = None,
) -> Question:
    """Return the question of the effect of ``change`` on a server described by ``server``."""
    return question_of(
        assess(change, server),
        kind="compare",
        title=title,
        seconds=seconds,
        pairs_max=pairs_max or PAIRS_MAX,
    )


def slice_seconds(budget_s: float) -> float:
    """Return the length of a slice with which the noise floor and six pairs fill the budget."""
    slices = 2 * 2 * PAIRS_MIN
    return min(max(budget_s / slices - 1.0, _SLICE_SECONDS_MIN), _SLICE_SECONDS_MAX)


def measure_noise(
    session: Session, seconds: float, rng: random.Random, *, deadline_s: float
) -> Noise:
    """Measure the noise floor: the difference between identical slices."""
    session.watcher.phase("measuring the noise floor")
    question = Question(
        kind="noise",
        title="identical slices",
        a=Change(),
        b=Change(),
        seconds=seconds,
        pairs_max=PAIRS_MIN,
    )
    answer = run_trial(session, question, noise=None, deadline_s=deadline_s, rng=rng)
    return Noise(
        noise_floor(answer.tps_a, answer.tps_b),
        noise_floor(answer.latency_p99_a, answer.latency_p99_b),
        answer.measure,
    )


def noise_of(noise: Noise, measure: Measure) -> NoiseFloor:
    """Return the noise floor for verdicts about ``measure``, as results have it."""
    return NoiseFloor(of=measure, ci95=ci95(noise.of(measure)))


def failures_by_side(answer: Answer) -> FailuresBySide:
    """Return the failures in a trial's slices without and with the change."""
    return FailuresBySide(
        before=failures_of(answer.failures_a), after=failures_of(answer.failures_b)
    )


def _record(session: Session, result: CompareResult) -> CompareResult:
    store(session.recorder, result)
    return result


def _catalogue(question: Question) -> Catalogue:
    """Return the catalogue's assessment of the change, as results have it."""
    assert question.assessment is not None, "a comparison is of a change"
    return Catalogue.model_validate(question.assessment.to_json())


def _without_verdict(session: Session, question: Question, why: str) -> CompareResult:
    """Return a result without a verdict, because too many slices were void."""
    run = session.reader()
    return CompareResult(
        **dict(head(run, [], no_verdict=why)),
        change=question.b.to_json(),
        catalogue=_catalogue(question),
        set_by=next((dict(t.set_by) for t in run.trials() if t.kind == "compare"), {}),
        effect=None,
        latency_p99=None,
        compared=None,
        noise_floor=None,
        decision="no verdict",
        sentence=f"no verdict: {why}",
        pairs_needed=None,
        throughput_tps=None,
        failures=None,
    )


def _with_verdict(
    session: Session, answer: Answer, noise: Noise, question: Question
) -> CompareResult:
    withheld = answer.verdict.outcome == "not comparable"
    no_verdict = answer.verdict.sentence if withheld else None
    return CompareResult(
        **dict(head(session.reader(), [], no_verdict=no_verdict)),
        change=question.b.to_json(),
        catalogue=_catalogue(question),
        set_by=dict(answer.set_by),
        effect=effect_of(answer.throughput),
        latency_p99=LatencyEffect(
            ratio=rounded(answer.latency_p99.ratio), ci95=ci95(answer.latency_p99)
        ),
        compared=answer.measure,
        noise_floor=noise_of(noise, answer.measure),
        decision=answer.verdict.outcome,
        sentence=answer.verdict.sentence,
        pairs_needed=answer.verdict.pairs_needed,
        throughput_tps=BothSides(before=answer.baseline_tps, after=answer.changed_tps),
        failures=failures_by_side(answer),
    )
