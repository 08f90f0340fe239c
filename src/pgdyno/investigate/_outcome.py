"""The result of an investigation: levels before and after, the verdict, and omissions; of a load
by HTTP also the figures of the front end and the database behind the web server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from pgdyno import numbers
from pgdyno.dimension import title_of
from pgdyno.facts.slices import Facts
from pgdyno.facts.unusual import JudgedSetting
from pgdyno.investigate._progress import Kept, Progress, together
from pgdyno.investigate._trials import improves
from pgdyno.json_types import Fields
from pgdyno.record import RunFile, UnusualSetting, throughput_tps
from pgdyno.record.finding import Skip
from pgdyno.results import common
from pgdyno.results.common import BothSides, Measure, Verdict
from pgdyno.results.investigate import InvestigateResult, NotMeasured, Total
from pgdyno.results.knee import Capacity
from pgdyno.results.run_parts import DatabaseBehind, FrontBehind, Web, WebSide
from pgdyno.spec import Change
from pgdyno.spec.durability import DurabilityClass
from pgdyno.stats import EFFECT_MATTERS, geometric_mean
from pgdyno.trial.noise import failures_by_side, noise_of
from pgdyno.trial.pairs import Noise, TrialAnswer
from pgdyno.trial.recorded import postponed
from pgdyno.trial.result import effect_of, head, latency, latency_effect_of, unusual_settings_of


class ResetTrial(Struct, frozen=True):
    """A trial of settings at their built-in values."""

    names: tuple[str, ...]
    answer: TrialAnswer


@dataclass
class SettingsTried:
    """The unusual settings that were tried at their built-in values, together and in groups."""

    left_out: Mapping[str, str]
    """Those that were not, by name, with the reason."""
    trials: dict[str, ResetTrial] = field(default_factory=dict)
    """The last trial of each of the others."""

    def note(self, names: Iterable[str], answer: TrialAnswer | None) -> None:
        """Note the trial of the settings ``names``, unless it has no answer."""
        names = tuple(names)
        if answer is not None:
            self.trials |= dict.fromkeys(names, ResetTrial(names, answer))

    def lack_time(self, settings: Iterable[UnusualSetting]) -> None:
        """Note settings for which there is no time."""
        lacking = {each.name: "the time budget is too short" for each in settings}
        self.left_out = {**self.left_out, **lacking}


@dataclass
class InvestigationOutcome:
    """The results of an investigation apart from its progress."""

    allow: DurabilityClass
    noise: Noise
    baseline: list[int] = field(default_factory=list)
    """Slices before the trials."""
    unmeasured: list[NotMeasured] = field(default_factory=list)
    proved: set[int] = field(default_factory=set)
    """Rows of the findings that were proved."""
    out_of_time: bool = False
    total_absent: str | None = None
    """The reason why everything kept was not measured together."""
    no_verdict: str | None = None
    """The reason why a trial has no verdict; it ended the investigation."""
    elapsed_s: float = 0.0
    judged: Sequence[JudgedSetting] | None = None
    """The unusual settings at the start, as they were judged then; None: not known."""
    settings: SettingsTried | None = None
    """None: they were not tried together."""
    capacity: Capacity | None = None
    """The most that the server takes with everything kept; None: not looked for."""


def result_of(run: RunFile, progress: Progress, outcome: InvestigationOutcome) -> InvestigateResult:
    """Return the result of an investigation that ended."""
    total = _total(run, progress)
    absent = None if total or not progress.state else outcome.total_absent or outcome.no_verdict
    steps = progress.steps
    compared: Measure = steps[-1].compared if steps else outcome.noise.measure
    return InvestigateResult(
        **dict(head(run, progress.findings, no_verdict=outcome.no_verdict)),
        steps=tuple(steps),
        not_measured=tuple(outcome.unmeasured),
        allow=outcome.allow,
        kept=progress.state.to_json(),
        total=total,
        total_absent=absent,
        **_levels(run, outcome.baseline, total, changed=bool(progress.state)),
        noise_floor=noise_of(outcome.noise, compared),
        matters=(run.run.spec.get("load") or {}).get("matters") or EFFECT_MATTERS,
        next_limit=progress.limit,
        latency_budget=progress.latency_budget,
        unusual_settings=_unusual_settings(outcome),
        out_of_time=outcome.out_of_time,
        elapsed_s=round(outcome.elapsed_s, 1),
        verdict=_verdict(progress, absent, run.run.spec),
        **_web(run, progress, outcome.baseline),
        **({"capacity": outcome.capacity} if outcome.capacity else {}),
    )


def _unusual_settings(
    outcome: InvestigationOutcome,
) -> tuple[common.UnusualSetting, ...] | None:
    """Return the unusual settings, with the trial of all together."""
    judged = unusual_settings_of(outcome.judged)
    if judged is None or outcome.settings is None:
        return judged
    return tuple(_with_trial(each, outcome.settings) for each in judged)


def _with_trial(each: common.UnusualSetting, tried: SettingsTried) -> common.UnusualSetting:
    trial = tried.trials.get(each.setting)
    if trial is not None:
        effect = trial.answer.throughput
        others = tuple(name for name in trial.names if name != each.setting)
        figures = numbers.effect(effect.ratio, effect.lo, effect.hi)
        others_said = numbers.counted(len(others), "other", "others")
        said = "at its built-in value" + (f" with {others_said}" if others else "")
        update = {
            "judged": "in a trial",
            "effect": effect_of(effect),
            "reset_with": others,
            "sentence": f"{said}: throughput {figures}",
        }
        return each.model_copy(update=update)
    why = tried.left_out.get(each.setting)
    if each.judged == "not" and why is not None:
        return each.model_copy(update={"sentence": f"not tried: {why}"})
    return each


def _web(run: RunFile, progress: Progress, baseline: list[int]) -> dict[str, object]:
    """Return the load by HTTP at the start and at the end, as far as it was measured."""
    trial = progress.trial_of_everything() if progress.state else None
    before = web_side(run, baseline if trial is None else list(trial.answer.slices_a))
    after = None if trial is None else web_side(run, list(trial.answer.slices_b))
    return {} if before is None else {"web": Web(before=before, after=after)}


def _total(run: RunFile, progress: Progress) -> Total | None:
    """Return the trial of everything kept against the spec as it was."""
    trial = progress.trial_of_everything() if progress.state else None
    if trial is None:
        return None
    answer = trial.answer
    return Total(
        trial=answer.trial_id,
        effect=effect_of(answer.throughput),
        latency_p99=latency_effect_of(answer.latency_p99),
        compared=answer.measure,
        throughput_tps=BothSides(before=answer.baseline_tps, after=answer.changed_tps),
        latency_ms_p99=BothSides(
            before=_mean_ms(answer.latency_p99_a), after=_mean_ms(answer.latency_p99_b)
        ),
        failures=failures_by_side(answer),
        postponed=postponed(run, answer.slices_a, answer.slices_b),
        verdict=answer.verdict.outcome,
        pairs_needed=answer.verdict.pairs_needed,
        sentence=answer.verdict.sentence,
    )


def _mean_ms(latencies_ns: tuple[float, ...]) -> float:
    return round(geometric_mean(latencies_ns) / 1e6, 3)


def _levels(
    run: RunFile, baseline: list[int], total: Total | None, *, changed: bool
) -> dict[str, object]:
    """Return throughput and p99 at the start and at the end: of the total's sides, else of the
    ``baseline`` slices, and at the end only if nothing changed."""
    if total is not None:
        tps, p99 = total.throughput_tps, total.latency_ms_p99
    else:
        before_tps = round(throughput_tps(run, baseline), 2)
        before_ms = round(run.histogram("response", baseline).percentile(99) / 1e6, 3)
        tps = BothSides(before=before_tps, after=before_tps)
        p99 = BothSides(before=before_ms, after=before_ms)
    known = total is not None or not changed
    return {
        "baseline_tps": tps.before,
        "final_tps": tps.after if known else None,
        "baseline_latency_ms_p99": p99.before,
        "final_latency_ms_p99": p99.after if known else None,
    }


def _verdict(progress: Progress, total_absent: str | None, spec: Fields) -> Verdict:
    """Return the investigation in one sentence; ``spec``: as it was, without changes."""
    limit = progress.limit
    if not progress.kept:
        return limit
    trial = progress.trial_of_everything()
    gains = _gain_words(progress, trial.answer if trial else None, total_absent, spec)
    first = progress.kept[0].proposal.finding
    return Verdict(finding=first, sentence=f"{gains}; next limit: {limit.sentence}")


def _gain_words(
    progress: Progress, total: TrialAnswer | None, absent: str | None, spec: Fields
) -> str:
    """Return the benefit of all kept remedies together, and what those that guard prevent. A value
    that was changed more than once is named with the first and the last one."""
    guards = [_guard_words(each) for each in progress.kept if each.proposal.remedy.guards]
    if not progress.gaining:
        return "; ".join(guards)
    name = title_of(together([each.proposal for each in progress.gaining]), spec)
    if total is None:
        return "; ".join([f"{name}: not measured together: {absent}", *guards])
    if total.verdict.outcome != "better":
        return "; ".join([f"{name}: {total.verdict.sentence}{_tail_words(total)}", *guards])
    effect = total.throughput if total.measure == "throughput" else total.latency_p99
    verb = "gives" if _in_force(progress.gaining) == 1 else "together give"
    interval = numbers.interval(effect.lo, effect.hi)
    return "; ".join([f"{name} {verb} {total.gain} {interval}", *guards])


def _in_force(kept: Sequence[Kept]) -> int:
    """Return how many remedies are in force: those that later ones do not replace as a whole."""
    count, later = 0, Change()
    for each in reversed(kept):
        count += bool(each.proposal.change.without(later))
        later = later.over(each.proposal.change)
    return count


def _tail_words(total: TrialAnswer) -> str:
    """Return the effect on p99, if that and not throughput is what was gained."""
    p99 = total.latency_p99
    if not improves(total):
        return ""
    return f"; p99 {numbers.effect(p99.ratio, p99.lo, p99.hi)}"


def _guard_words(kept: Kept) -> str:
    return f"{kept.proposal.title}: {kept.proposal.remedy.summary}"


def web_side(run: RunFile, slice_ids: list[int]) -> WebSide | None:
    """Return the figures of ``slice_ids``, slices under one change; None without requests."""
    facts = Facts(run, slice_ids)
    sent = sum(total.requests for total in run.http_totals(slice_ids))
    if not facts.is_http or not sent:
        return None
    return WebSide(
        requests_s=round(sent / facts.seconds, 2),
        latency_ms=latency(run.histogram("response", slice_ids)),
        front=_front(facts),
        database=_database(facts),
    )


def _front(facts: Facts) -> FrontBehind | None:
    if facts.front is None:
        return None
    try:
        load = facts.front_load
    except Skip:
        return None
    return FrontBehind(
        pool=facts.front.pool_title,
        pool_max=round(load.pool_max),
        pool_active=round(load.pool_active, 2),
        pool_waiting=round(load.waiting, 2),
        pool_ms=round(load.mean("pool_ms"), 3),
        application_ms=round(load.mean("application_ms"), 3),
        threads_busy=round(load.threads_busy, 2),
        threads_max=round(load.threads_max),
        jvm_cores=round(load.jvm_cores, 2),
        collecting=round(load.collecting, 4),
    )


def _database(facts: Facts) -> DatabaseBehind | None:
    if not facts.run.run.server.get("version"):
        return None
    committed = facts.run.delta("metric_database", "xact_commit", facts.slice_ids)
    each_ms = statements = None
    try:
        at_work: float | None = round(facts.sessions_at_work, 2)
        if facts.front is not None:
            each_ms = round(facts.front_load.mean("database_ms"), 3)
            statements = round(facts.front_load.mean("statements"), 2)
    except Skip:
        at_work = None
    return DatabaseBehind(
        transactions_s=None if committed is None else round(committed / facts.seconds, 2),
        ms_per_request=each_ms,
        statements_per_request=statements,
        sessions_at_work=at_work,
    )
