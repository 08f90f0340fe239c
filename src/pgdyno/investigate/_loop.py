"""The loop of ``pgdyno investigate``: load, diagnose, try the most promising remedy, keep or
reject.

Every remedy is proved by a trial against the state that it would change. A kept remedy may change
the bottleneck, so the slices of its trial are diagnosed again. A later step may turn the gain of an
earlier one into a loss, so before the end each kept remedy is taken back in turn and kept only if
it still gains. Remedies above the durability limit are measured against the final state and offered
with their price, but never kept.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, replace

from pgdyno.conduct import Session
from pgdyno.diagnose import Finding
from pgdyno.errors import SetupError, TrustError
from pgdyno.investigate._decisions import decision_of, improves
from pgdyno.investigate._proposals import (
    AssessedProposal,
    Limits,
    assessed_proposals,
    guarded_settings,
    obstacle,
)
from pgdyno.investigate.observe import record_diagnosis
from pgdyno.record import RunFile, throughput_tps
from pgdyno.remedy import circumstances
from pgdyno.results import store
from pgdyno.results.common import Measure, Verdict
from pgdyno.results.investigate import (
    Decision,
    InvestigateResult,
    NotMeasured,
    Step,
    TriedRemedy,
)
from pgdyno.spec import Change
from pgdyno.spec.durability import DurabilityClass, within
from pgdyno.stats import PAIRS_MIN, NoiseFloor, geometric_mean, words
from pgdyno.trial.compare import WARM_UP_SECONDS, failures_by_side, measure_noise, noise_of
from pgdyno.trial.pairs import Answer, Noise, run_trial
from pgdyno.trial.question import SLICE_OVERHEAD_SECONDS, Question, question_of
from pgdyno.trial.result import effect_of, head, limit_of

# Shares of the time budget. A trial with six pairs of slices takes about a seventh of it, so a
# noise floor, four trials and a recheck fit. Calibrated with budgets of 2 and 5 minutes.
_SLICE_SHARE = 1 / 110
_SLICE_SECONDS_RANGE = (0.8, 30.0)
_BASELINE_SHARE = 1 / 14
_BASELINE_SECONDS_RANGE = (5.0, 120.0)
_BASELINE_TRIES = 3
_NO_TIME = "not measured: the time budget ended"
_CYCLE_SLICE_SECONDS_MAX = 60.0
"""Maximum length of a slice for an effect that comes with checkpoints. It spans two cycles if they
are short enough; otherwise the closing checkpoint accounts for postponed writes."""


@dataclass
class Kept:
    """A kept remedy, with its trial."""

    proposal: AssessedProposal
    answer: Answer


@dataclass
class Progress:
    """The state of an investigation."""

    kept: list[Kept] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)
    finding_rows: dict[int, Finding] = field(default_factory=dict)
    """Findings in the current state, by row id in the run file."""
    state_slices: list[int] = field(default_factory=list)
    """Slices under the current state, for the next diagnosis."""
    first_kept: Answer | None = None
    """The trial of the first change that was kept; its unchanged side is the state at the start."""
    throughput_ratio: float = 1.0
    latency_p99_ratio: float = 1.0
    """The current state relative to that at the start: the product of the trials between them."""

    @property
    def findings(self) -> list[Finding]:
        """Findings in the current state, the bottleneck first."""
        return list(self.finding_rows.values())

    @property
    def state(self) -> Change:
        """All kept changes together."""
        return _together(self.kept)

    def tried_key(self, proposal: AssessedProposal) -> str:
        """Return the identity of a proposal and the state: it may be tried again in another
        state."""
        return f"{self.state.to_json()} + {proposal.key}"


def investigate(
    session: Session, *, budget_s: float, allow: DurabilityClass, may_apply: bool
) -> InvestigateResult:
    """Investigate within ``budget_s`` of load; record and return the result."""
    return _Investigation(session, budget_s, Limits(allow, may_apply)).run()


class _Investigation:
    def __init__(self, session: Session, budget_s: float, limits: Limits) -> None:
        self._session = session
        self._limits = limits
        self._began_s = time.monotonic()
        self._deadline_s = self._began_s + budget_s
        self._slice_s = _within_range(budget_s * _SLICE_SHARE, _SLICE_SECONDS_RANGE)
        self._baseline_s = _within_range(budget_s * _BASELINE_SHARE, _BASELINE_SECONDS_RANGE)
        self._rng = random.Random(session.spec.load.seed)
        self._server = circumstances(session.spec, session.target.facts["settings"])
        self._progress = Progress()
        self._unmeasured: list[tuple[AssessedProposal, str]] = []
        self._out_of_time = False
        self._guarded: dict[str, str] = {}
        """Settings that no other remedy may change, with the reason."""
        self._no_verdict: str | None = None
        """The reason why a trial has no verdict; it ends the investigation."""
        no_noise = NoiseFloor(1.0, 1.0, 0.0)
        self._noise = Noise(no_noise, no_noise, "throughput")

    def run(self) -> InvestigateResult:
        baseline = self._measure_baseline()
        try:
            self._noise = measure_noise(
                self._session, self._slice_s, self._rng, deadline_s=self._deadline_s
            )
            self._try_remedies()
            self._take_back_in_turn()
            self._offer()
        except TrustError as problem:
            self._no_verdict = problem.message
        self._session.stop_load()
        result = self._result(baseline)
        store(self._session.recorder, result)
        return result

    def _measure_baseline(self) -> list[int]:
        session = self._session
        ramp_s = session.spec.load.ramp_ms / 1000
        session.start_load(scheduled=ramp_s > 0)
        if ramp_s:
            session.watcher.phase(f"ramping up over {ramp_s:g} s")
            with session.measured("ramp"):
                session.wait(ramp_s)
        else:
            session.watcher.phase("warming up")
            session.wait(WARM_UP_SECONDS)
        session.watcher.phase("measuring the baseline")
        slices = [self._baseline_slice()]
        self._progress.state_slices = list(slices)
        self._progress.finding_rows = self._diagnose(slices, step=0)
        return slices

    def _baseline_slice(self) -> int:
        """Measure a slice of the baseline that is not void; return its id. Raises TrustError."""
        voids = []
        for _ in range(_BASELINE_TRIES):
            slice_id = self._session.slice(self._baseline_s, kind="baseline")
            why = self._session.reader().slice(slice_id).void
            if why is None:
                return slice_id
            voids.append(why)
            self._session.wait_served()
        raise TrustError(
            f"the baseline could not be measured: {'; '.join(dict.fromkeys(voids))}",
            code="void-slices",
        )

    def _try_remedies(self) -> None:
        """Try remedies within the durability limit, and keep those that help, until none is
        left."""
        while (proposal := self._next_proposal()) is not None:
            if not self._time_for(self._question(proposal), spare_trials=self._rechecks_due()):
                self._out_of_time = True
                self._leave_out(proposal, _NO_TIME)
                return
            self._try(proposal)

    def _next_proposal(self) -> AssessedProposal | None:
        """Return the best untried proposal within the durability limit that can be measured."""
        for proposal in self._untried():
            if not within(proposal.durability_class, self._limits.allow):
                continue
            why_not = self._obstacle(proposal)
            if why_not is None:
                return proposal
            self._leave_out(proposal, why_not)
        return None

    def _obstacle(self, proposal: AssessedProposal) -> str | None:
        """Return the reason why the proposal cannot be measured; ``None`` if it can."""
        if not proposal.remedy.guards:
            for name in proposal.change.settings:
                if name in self._guarded:
                    return self._guarded[name]
        return obstacle(proposal, self._session, self._limits)

    def _untried(self) -> list[AssessedProposal]:
        progress = self._progress
        found = assessed_proposals(
            progress.findings, progress.state, self._session.spec, self._server
        )
        # Until the end: a setting that prevents a failure of the server is not changed later.
        self._guarded |= guarded_settings(found)
        return [each for each in found if progress.tried_key(each) not in progress.tried]

    def _try(self, proposal: AssessedProposal) -> None:
        progress, session = self._progress, self._session
        progress.tried.add(progress.tried_key(proposal))
        session.watcher.phase(f"trying {proposal.title}")
        answer = self._answer_of(proposal, self._question(proposal))
        if answer is None:
            return
        decision = decision_of(proposal, answer)
        self._record_step(proposal, answer, decision)
        if decision != "kept":
            progress.state_slices.extend(answer.slices_a)
            return
        progress.kept = [*_without(progress.kept, proposal), Kept(proposal, answer)]
        progress.first_kept = progress.first_kept or answer
        progress.throughput_ratio *= answer.throughput.ratio
        progress.latency_p99_ratio *= answer.latency_p99.ratio
        session.recorder.add_event("step", f"kept: {proposal.title}")
        self._diagnose_again(answer.slices_b)

    def _answer_of(self, proposal: AssessedProposal, question: Question) -> Answer | None:
        """Return the trial's answer. If the server refuses the change (a missing right, a value
        that only its start can check), record the reason and return None."""
        try:
            return self._run(question)
        except SetupError as problem:
            self._leave_out(proposal, f"not measured: {problem.message}")
            return None

    def _diagnose_again(self, slices: tuple[int, ...]) -> None:
        progress = self._progress
        progress.state_slices = list(slices)
        progress.finding_rows = self._diagnose(progress.state_slices, step=len(progress.steps))

    def _diagnose(self, slices: list[int], *, step: int) -> dict[int, Finding]:
        return record_diagnosis(self._session, slices, step=step, allow=self._limits.allow)

    def _take_back_in_turn(self) -> None:
        """Check that each kept remedy still gains with those that were kept after it.

        The last one needs no check: its trial was against the final state without it.
        """
        progress = self._progress
        for kept in progress.kept[:-1]:
            others = [other for other in progress.kept if other is not kept]
            replaced = len(others) == len(progress.kept)
            if replaced or kept.proposal.remedy.guards:  # which need not gain
                continue
            question = self._recheck_question(kept, others)
            if self._time_for(question):
                self._recheck(kept, others, question)
            else:
                self._out_of_time = True

    def _recheck_question(self, kept: Kept, others: list[Kept]) -> Question:
        """Return the question of the effect of a kept remedy on top of the others."""
        return replace(
            self._question(kept.proposal),
            kind="recheck",
            title=f"without {kept.proposal.title}",
            a=_together(others),
            b=self._progress.state,
            predicted_ratio=kept.answer.throughput.ratio,
        )

    def _recheck(self, kept: Kept, others: list[Kept], question: Question) -> None:
        """Take a remedy back if it no longer gains; then try remedies again."""
        progress, proposal = self._progress, kept.proposal
        self._session.watcher.phase(f"taking back {proposal.title}")
        answer = self._run(question)
        if improves(answer) or answer.verdict.outcome == "inconclusive":
            self._record_step(proposal, answer, "still earns")
            progress.state_slices = list(answer.slices_b)
            return
        progress.kept = others
        progress.throughput_ratio /= answer.throughput.ratio
        progress.latency_p99_ratio /= answer.latency_p99.ratio
        self._record_step(proposal, answer, "taken back")
        self._session.recorder.add_event("step", f"taken back: {proposal.title}")
        self._diagnose_again(answer.slices_a)
        progress.tried.add(progress.tried_key(proposal))
        self._try_remedies()

    def _offer(self) -> None:
        """Measure remedies above the durability limit on the final state; keep none of them."""
        for proposal in self._untried():
            if within(proposal.durability_class, self._limits.allow):
                continue
            why_not = self._obstacle(proposal)
            question = self._question(proposal)
            if why_not is None and not self._time_for(question):
                self._out_of_time = True
                why_not = _NO_TIME
            if why_not is not None:
                self._leave_out(proposal, why_not)
                continue
            self._session.watcher.phase(f"pricing {proposal.title}")
            answer = self._answer_of(proposal, question)
            if answer is None:
                continue
            self._progress.state_slices.extend(answer.slices_a)
            self._record_step(proposal, answer, "offered" if improves(answer) else "rejected")

    def _question(self, proposal: AssessedProposal) -> Question:
        progress = self._progress
        return remedy_question(
            proposal, progress.state, slice_s=self._slice_s, step=len(progress.steps) + 1
        )

    def _run(self, question: Question) -> Answer:
        """Run a trial. More than six pairs are measured only if enough time is left for the
        others."""
        measurable = [each for each in self._untried() if not self._obstacle(each)]
        open_trials = self._rechecks_due() + len(measurable)
        left_s = self._deadline_s - time.monotonic()
        share_s = max(left_s / (1 + open_trials), question.pair_seconds * PAIRS_MIN)
        return run_trial(
            self._session,
            question,
            noise=self._noise,
            deadline_s=time.monotonic() + share_s,
            rng=self._rng,
        )

    def _time_for(self, question: Question, *, spare_trials: int = 0) -> bool:
        needed_s = PAIRS_MIN * (question.pair_seconds + spare_trials * self._plain_pair_s)
        return time.monotonic() + needed_s <= self._deadline_s

    @property
    def _plain_pair_s(self) -> float:
        """Approximate time of a pair of slices of the usual length."""
        return 2 * (self._slice_s + SLICE_OVERHEAD_SECONDS)

    def _rechecks_due(self) -> int:
        """Return the number of trials to leave time for: each kept remedy except the last one is
        taken back once."""
        return sum(not each.proposal.remedy.guards for each in self._progress.kept[:-1])

    def _record_step(self, proposal: AssessedProposal, answer: Answer, decision: Decision) -> None:
        recorder = self._session.recorder
        recorder.update_trial(answer.trial_id, decision=decision)
        if improves(answer) and not proposal.remedy.guards:
            for row, finding in self._progress.finding_rows.items():
                if finding.id == proposal.finding:
                    recorder.update_finding(row, status="proved")
        self._progress.steps.append(_step(proposal, answer, decision))
        effect = answer.throughput if answer.measure == "throughput" else answer.latency_p99
        interval = words.interval_words(effect.lo, effect.hi)
        self._session.watcher.note(f"{proposal.title}: {answer.gain} {interval} {decision}")

    def _leave_out(self, proposal: AssessedProposal, why: str) -> None:
        """Record that a remedy was not measured, and why."""
        progress = self._progress
        progress.tried.add(progress.tried_key(proposal))
        self._unmeasured.append((proposal, why))
        self._session.recorder.add_trial(
            kind="remedy",
            title=proposal.title,
            change=proposal.change.to_json(),
            step=len(progress.steps) + 1,
            finding=proposal.finding,
            remedy=proposal.remedy.id,
            durability_class=proposal.durability_class,
            predicted_ratio=proposal.predicted_ratio,
            decision="not measured",
            sentence=why,
        )

    def _result(self, baseline: list[int]) -> InvestigateResult:
        run = self._session.reader()
        progress = self._progress
        return InvestigateResult(
            **dict(head(run, progress.findings, no_verdict=self._no_verdict)),
            steps=tuple(progress.steps),
            not_measured=tuple(
                NotMeasured(remedy=proposal.remedy.id, title=proposal.title, why=why)
                for proposal, why in self._unmeasured
            ),
            allow=self._limits.allow,
            kept=progress.state.to_json(),
            **self._levels(run, baseline),
            noise_floor=noise_of(self._noise, self._compared),
            next_limit=limit_of(progress.findings),
            out_of_time=self._out_of_time,
            elapsed_s=round(time.monotonic() - self._began_s, 1),
            verdict=self._verdict(),
        )

    def _levels(self, run: RunFile, baseline: list[int]) -> dict[str, float]:
        """Return throughput and p99 at the start and at the end. Both are from the trials, and
        without a kept change both are those of the ``baseline`` slices."""
        progress = self._progress
        first = progress.first_kept
        if first is None or not progress.kept:
            tps, p99_ms, tps_ratio, p99_ratio = (
                throughput_tps(run, baseline), _p99_ms(run, baseline), 1.0, 1.0
            )  # fmt: skip
        else:
            tps, p99_ms = first.baseline_tps, geometric_mean(first.latency_p99_a) / 1e6
            tps_ratio, p99_ratio = progress.throughput_ratio, progress.latency_p99_ratio
        return {
            "baseline_tps": round(tps, 2),
            "final_tps": round(tps * tps_ratio, 2),
            "baseline_latency_ms_p99": round(p99_ms, 3),
            "final_latency_ms_p99": round(p99_ms * p99_ratio, 3),
        }

    @property
    def _compared(self) -> Measure:
        """The figure that decided the last trial, or that the noise floor was measured by."""
        steps = self._progress.steps
        return steps[-1].compared if steps else self._noise.measure

    def _verdict(self) -> Verdict:
        """Return the investigation in one sentence."""
        kept = self._progress.kept
        limit = limit_of(self._progress.findings)
        if not kept:
            return limit
        gains = "; ".join(_gain_words(each) for each in kept)
        first = kept[0].proposal.finding
        return Verdict(finding=first, sentence=f"{gains}; next limit: {limit.sentence}")


def remedy_question(
    proposal: AssessedProposal, state: Change, *, slice_s: float, step: int
) -> Question:
    """Return the question of the effect of ``proposal`` on top of ``state``."""
    bound = proposal.assessment.checkpoint_bound
    cycles_s = min(2 * (proposal.cycle_s or 0.0), _CYCLE_SLICE_SECONDS_MAX) if bound else 0.0
    return question_of(
        proposal.assessment,
        kind="remedy",
        title=proposal.title,
        state=state,
        seconds=max(slice_s, cycles_s),
        predicted_ratio=None if proposal.remedy.guards else proposal.predicted_ratio,
        pairs_max=2 * PAIRS_MIN,
        labels={"step": step, "finding": proposal.finding, "remedy": proposal.remedy.id},
    )


def _step(proposal: AssessedProposal, answer: Answer, decision: Decision) -> Step:
    """Return a measured remedy with its decision, as results have it."""
    return Step(
        finding=proposal.finding,
        remedy=TriedRemedy(
            id=proposal.remedy.id,
            title=proposal.title,
            change=proposal.change.to_json(),
            durability_class=proposal.durability_class,
        ),
        predicted_ratio=round(proposal.predicted_ratio, 3),
        set_by=dict(answer.set_by),
        effect=effect_of(answer.throughput),
        latency_p99_ratio=words.rounded(answer.latency_p99.ratio),
        compared=answer.measure,
        failures=failures_by_side(answer),
        verdict=answer.verdict.outcome,
        decision=decision,
    )


def _gain_words(kept: Kept) -> str:
    """Return the benefit of a kept remedy in words."""
    proposal = kept.proposal
    if proposal.remedy.guards:
        return f"{proposal.title}: {proposal.remedy.summary}"
    return f"{proposal.title} gives {kept.answer.gain}"


def _together(kept: list[Kept]) -> Change:
    state = Change()
    for each in kept:
        state = each.proposal.change.over(state)
    return state


def _without(kept: list[Kept], proposal: AssessedProposal) -> list[Kept]:
    """Return the others: a remedy that is tried again with another value replaces itself."""
    return [each for each in kept if each.proposal.remedy.id != proposal.remedy.id]


def _within_range(value: float, bounds: tuple[float, float]) -> float:
    return min(max(value, bounds[0]), bounds[1])


def _p99_ms(run: RunFile, slices: list[int]) -> float:
    return run.histogram("response", slices).percentile(99) / 1e6
