"""``pgdyno compare``: the effect of one change, of any kind."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping
from statistics import median
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from pgdyno import numbers
from pgdyno.conduct import Session
from pgdyno.conduct.plan_look import look_at_sides
from pgdyno.dimension import title_of
from pgdyno.dimension.kinds.scripts import MADE, UNDONE
from pgdyno.errors import TrustError, UsageError
from pgdyno.facts.periods import SECONDS_MIN
from pgdyno.facts.replanned import PlannedSide, compared_plans
from pgdyno.record import RunFile, TrialKind
from pgdyno.record.events import own_events
from pgdyno.remedy import Circumstances, Need, assess, circumstances
from pgdyno.results import store
from pgdyno.results.common import BothSides
from pgdyno.results.compare import Catalogue, ComparedSql, CompareResult
from pgdyno.results.plans import ComparedPlans
from pgdyno.spec import Change, Spec
from pgdyno.spec.units import format_duration
from pgdyno.stats import PAIRS_MIN
from pgdyno.trial.noise import (
    WARM_UP_SECONDS,
    failures_by_side,
    group_effect_of,
    measure_noise,
    noise_of,
)
from pgdyno.trial.pairs import Noise, TrialAnswer, run_trial
from pgdyno.trial.question import PAIRS_MAX, Question, not_measurable, question_of
from pgdyno.trial.recorded import postponed
from pgdyno.trial.result import effect_of, head, latency_effect_of

_SLICE_SECONDS_MIN = 0.8
_SLICE_SECONDS_MAX = 60.0
_STEPS: Mapping[Need, str] = {
    "restart": "restarts of the server",
    "index": "other indexes",
    "rewrite": "rewritten tables",
    "layout": "changes of disks or standbys",
    "machine": "changes of the kernel's parameters",
    "sql": "runs of the SQL",
}


class Further(Protocol):
    """More of a comparison than one trial."""

    def members(self) -> Mapping[str, object]:
        """Return members of the result that are known before anything is measured."""

    def after(
        self,
        session: Session,
        answer: TrialAnswer,
        noise: Noise,
        seconds: float,
        rng: random.Random,
    ) -> Mapping[str, object]:
        """Measure more after the trial, under the same load in slices of ``seconds``; return
        members of the result."""


def compare(
    session: Session,
    change: Change,
    *,
    title: str | None = None,
    budget_s: float,
    slice_s: float | None = None,
    pairs_max: int | None = None,
    further: Further | None = None,
    budget_given: bool = False,
) -> CompareResult:
    """Compare the session's spec with itself under ``change``, and record the result.

    ``title`` is that of the change by default. Slices are long enough for its effect, unless
    ``slice_s`` is given; if the budget is too short for that, there is no verdict. ``further`` goes
    on after the trial, and adds to the result. SQL of the user's is tried and timed before the
    load; if the budget, ``budget_given`` by the user, is too short for it, that is a UsageError.

    Six pairs of identical slices are measured first, in the same way. A result without a verdict
    has the reason. If something that the trial needs is missing, raises PgdynoError before the load
    begins.
    """
    began_s = time.monotonic()
    rng = random.Random(session.spec.load.seed)
    title = title or title_of(change, session.spec)
    server = circumstances(session.spec, session.target.facts["settings"])
    seconds = slice_s or slice_seconds(budget_s)
    question = compare_question(change, server, title=title, seconds=seconds, pairs_max=pairs_max)
    if slice_s is None:
        seconds = _fitting_seconds(question, budget_s)
        question = replace(question, seconds=max(seconds, assess(change, server).effect_after_s))
    known = further.members() if further else {}
    if question.seconds > seconds and (why := _too_long(question, budget_s)):
        return _record(session, _without_verdict(session, question, why), known)
    session.provide(change, checkpoint=question.checkpoint_bound)
    if change.sql:
        took = _sql_times(session.reader())
        question = replace(question, change_seconds=took.seconds)
        known = {**known, "sql": took.result(change)}
        if budget_given:
            _require_budget(question, budget_s, shorter=slice_s is None)
    _note_excess(session, question, budget_s)
    session.watcher.phase("warming up")
    session.start_load()
    session.wait_connected()
    session.wait(WARM_UP_SECONDS)
    try:
        noise = measure_noise(session, question.seconds, rng, like=question)
        session.watcher.phase(title)
        answer = run_trial(session, question, noise=noise, deadline_s=began_s + budget_s, rng=rng)
    except TrustError as problem:
        session.stop_load()
        return _record(session, _without_verdict(session, question, problem.message), known)
    more = further.after(session, answer, noise, question.seconds, rng) if further else {}
    session.stop_load()
    plans = _compared_plans(session, answer, question)
    if change.sql:
        known = {**known, "sql": _sql_times(session.reader()).result(change)}
    result = _with_verdict(session, answer, noise, question)
    return _record(session, result, {**known, **more, "plans": plans})


def _compared_plans(
    session: Session, answer: TrialAnswer, question: Question
) -> ComparedPlans | None:
    """Look at the plans of both sides, and return those that differ; None if they were not looked
    at."""
    slices = answer.slices_a, answer.slices_b
    look_at_sides(session, [*zip((question.a, question.b), slices, strict=True)])
    run = session.reader()
    return compared_plans(*(PlannedSide(run, ids) for ids in slices))


def _too_long(question: Question, budget_s: float) -> str | None:
    """Return the reason if six pairs and as many identical ones do not fit into the budget."""
    needed_s = round(_least_seconds(question))
    if needed_s <= budget_s:
        return None
    return not_measurable(question.seconds, math.ceil(needed_s / 60))


def _fitting_seconds(question: Question, budget_s: float) -> float:
    """Return the length of slices that fit with restarts and checkpoints, if any does."""
    seconds = question.seconds
    while seconds > _SLICE_SECONDS_MIN:
        if _needed_seconds(replace(question, seconds=seconds)) <= budget_s:
            break
        seconds = max(_SLICE_SECONDS_MIN, 0.95 * seconds)
    return seconds


def _needed_seconds(question: Question) -> float:
    """Return about how long six pairs and as many identical ones take."""
    return WARM_UP_SECONDS + 2 * PAIRS_MIN * question.pair_seconds


def _least_seconds(question: Question) -> float:
    """Return how long six pairs and as many identical ones take on an idle machine."""
    return WARM_UP_SECONDS + 2 * PAIRS_MIN * question.pair_seconds_least


def _note_excess(session: Session, question: Question, budget_s: float) -> None:
    """Warn that the default time budget will be exceeded."""
    if _least_seconds(question) > budget_s:
        session.watcher.note(
            f"the budget of {format_duration(round(1000 * budget_s))} will be exceeded:"
            f" {_least_words(question)}"
        )


def _least_words(question: Question) -> str:
    """Return "a verdict needs about 75 s: …", with what takes the time."""
    assessment = question.assessment
    needs = assessment.needs if assessment is not None else ()
    steps = [words for need, words in _STEPS.items() if need in needs]
    steps += ["new sessions"] if question.renews_sessions and not steps else []
    steps += ["checkpoints"] if question.checkpoint_bound else []
    if question.change_seconds >= 1:
        took = format_duration(round(1000 * question.change_seconds))
        steps = [
            f"{each} ({took} with the undo)" if each == _STEPS["sql"] else each for each in steps
        ]
    between = f", with {' and '.join(steps)} in between" if steps else ""
    return (
        f"a verdict needs about {_least_seconds(question):.0f} s: {PAIRS_MIN} pairs of slices and"
        f" as many identical ones, each slice {format_duration(round(1000 * question.seconds))}"
        f"{between}"
    )


def check_budget(
    spec: Spec,
    change: Change,
    *,
    budget_ms: int,
    slice_ms: int | None,
    in_force: Mapping[str, str] | None = None,
) -> None:
    """Raise UsageError if the least that a verdict on ``change`` needs is longer than the budget.

    ``in_force`` are the settings of the running server; without them, those of the spec count.
    """
    server, budget_s = circumstances(spec, in_force), budget_ms / 1000
    seconds = slice_ms / 1000 if slice_ms else slice_seconds(budget_s)
    question = compare_question(change, server, title="", seconds=seconds)
    least_s = _SLICE_SECONDS_MIN
    if not slice_ms:
        least_s = max(least_s, assess(change, server).effect_after_s)
        seconds = max(_fitting_seconds(question, budget_s), least_s)
        question = replace(question, seconds=seconds)
    _require_budget(question, budget_s, shorter=question.seconds > least_s)


def _require_budget(question: Question, budget_s: float, *, shorter: bool) -> None:
    """Raise UsageError if the least that a verdict needs is longer than the budget; with
    ``shorter`` shorter slices would also do."""
    if round(_least_seconds(question)) <= budget_s:
        return
    enough_s = 5 * math.ceil(_least_seconds(question) / 5)
    raise UsageError(
        f"--budget {format_duration(round(1000 * budget_s))}: {_least_words(question)}",
        code="contradiction",
        hint=f"--budget {enough_s}s{', or shorter slices (--slice)' if shorter else ''}",
    )


def check_times(slice_ms: int | None, budget_ms: int) -> None:
    """Raise UsageError if the slices are too short for a verdict, or the time for a pair."""
    if slice_ms and PAIRS_MIN * slice_ms < 1000 * SECONDS_MIN:
        raise UsageError(
            f"{PAIRS_MIN} slices of {format_duration(slice_ms)} measure less than {SECONDS_MIN} s,"
            " which is too short for a verdict",
            code="contradiction",
            hint=f"--slice {math.ceil(100 * SECONDS_MIN / PAIRS_MIN) * 10}ms or more",
        )
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
        kind=TrialKind.COMPARE,
        title=title,
        seconds=seconds,
        pairs_max=pairs_max or PAIRS_MAX,
    )


def slice_seconds(budget_s: float) -> float:
    """Return the length of a slice with which the noise floor and six pairs fill the budget."""
    slices = 2 * 2 * PAIRS_MIN
    return min(max(budget_s / slices - 1.0, _SLICE_SECONDS_MIN), _SLICE_SECONDS_MAX)


def _record(session: Session, result: CompareResult, more: Mapping[str, object]) -> CompareResult:
    """Record and return the result with ``more`` members."""
    members = {name: getattr(result, name) for name in result.model_fields_set}
    result = CompareResult(**{**members, **more})
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
        set_by=next((dict(t.set_by) for t in run.trials() if t.kind is TrialKind.COMPARE), {}),
        effect=None,
        latency_p99=None,
        compared=None,
        noise_floor=None,
        matters=None,
        decision="no verdict",
        sentence=f"no verdict: {why}",
        pairs_needed=None,
        throughput_tps=None,
        failures=None,
        postponed=(),
    )


def _with_verdict(
    session: Session, answer: TrialAnswer, noise: Noise, question: Question
) -> CompareResult:
    withheld = answer.verdict.outcome == "not comparable"
    no_verdict = answer.verdict.sentence if withheld else None
    return CompareResult(
        **dict(head(session.reader(), [], no_verdict=no_verdict)),
        change=question.b.to_json(),
        catalogue=_catalogue(question),
        set_by=dict(answer.set_by),
        effect=effect_of(answer.throughput),
        latency_p99=latency_effect_of(answer.latency_p99),
        compared=answer.measure,
        noise_floor=noise_of(noise, answer.measure),
        matters=answer.matters.of(answer.measure),
        decision=answer.verdict.outcome,
        sentence=answer.verdict.sentence,
        pairs_needed=answer.verdict.pairs_needed,
        throughput_tps=BothSides(before=answer.baseline_tps, after=answer.changed_tps),
        failures=failures_by_side(answer),
        postponed=postponed(session.reader(), answer.slices_a, answer.slices_b),
        against=answer.verdict.against,
        groups=tuple(group_effect_of(each) for each in answer.groups),
    )


class _SqlTimes(Struct, frozen=True):
    """The times that SQL of the user's has taken as a change, in milliseconds: of each time that it
    was made, or undone."""

    made_ms: tuple[float, ...]
    undone_ms: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """The time of making it once and undoing it."""
        return sum(median(each) / 1000 for each in (self.made_ms, self.undone_ms) if each)

    def result(self, change: Change) -> ComparedSql:
        """Return it as results have it."""
        return ComparedSql(
            make=change.sql["make"],
            undo=change.sql["undo"],
            make_ms=numbers.rounded(median(self.made_ms)) if self.made_ms else None,
            undo_ms=numbers.rounded(median(self.undone_ms)) if self.undone_ms else None,
            times=len(self.made_ms),
        )


def _sql_times(run: RunFile) -> _SqlTimes:
    """Return the times that are recorded."""
    found: dict[str, list[float]] = {MADE: [], UNDONE: []}
    for event in own_events(run):
        if (what := event.detail.get("sql")) in found:
            found[what].append(event.duration_ms or 0.0)
    return _SqlTimes(tuple(found[MADE]), tuple(found[UNDONE]))
