"""The loop of ``pgdyno investigate``: load, diagnose, try the most promising remedy, keep or
reject.

Every remedy is proved by a trial against the state that it would change. A kept remedy may change
the bottleneck, so the slices of its trial are diagnosed again. A later step may turn the gain of an
earlier one into a loss, so before the end each kept remedy is taken back in turn and kept only if
it still gains. Remedies above the durability limit are measured against the final state and offered
with their price, but never kept. What time is left goes into trials that were inconclusive. The
last trial is the headline: the spec as it was against everything kept. Its time and that of taking
back are set aside, except from a remedy that promises twice the throughput or more. In time of
their own follow, with ``--knee``, how much the server takes then, and a long ramp of the spec once
more, with everything kept.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from pgdyno.compare.profile_check import units_of
from pgdyno.compare.taking_back import TakingBack, seconds_within
from pgdyno.conduct import Session
from pgdyno.diagnose import UNEXPLAINED, Finding
from pgdyno.errors import SetupError, TrustError
from pgdyno.investigate._baseline import Baseline
from pgdyno.investigate._diagnosing import record_diagnosis
from pgdyno.investigate._outcome import InvestigationOutcome, SettingsTried, result_of
from pgdyno.investigate._progress import AnsweredTrial, Kept, Progress, Undecided, with_kept
from pgdyno.investigate._proposals import (
    AssessedProposal,
    ProposalLimits,
    assessed_proposals,
    guarded_settings,
    obstacle,
)
from pgdyno.investigate._records import Records
from pgdyno.investigate._suspects import Suspects, reset_of, suspects_of
from pgdyno.investigate._times import TimeBudget
from pgdyno.investigate._trials import (
    EVERYTHING,
    PAIRS_MAX,
    decision_of,
    improves,
    recheck_decision_of,
    recheck_question,
    remedy_question,
    total_question,
)
from pgdyno.record import TrialKind, UnusualSetting
from pgdyno.remedy import circumstances
from pgdyno.results import store
from pgdyno.results.investigate import InvestigateResult
from pgdyno.search.knee import KneeRequest, find_capacity
from pgdyno.spec.durability import DurabilityClass, within
from pgdyno.stats import PairedEffect
from pgdyno.trial.noise import measure_noise
from pgdyno.trial.pairs import Noise, TrialAnswer, resume_trial, run_trial
from pgdyno.trial.question import Question
from pgdyno.trial.result import budget_of, limit_of

KNEE_SECONDS = 90.0
"""Time of the search for the knee at the end, in addition to the budget."""
_NO_TIME = "not measured: the time budget ended"
_SETTINGS_FIRST = ("server-cpu", UNEXPLAINED)
"""Limits for which any setting may be the cause, so that all are tried before other remedies."""


def investigate(
    session: Session,
    *,
    budget_s: float,
    allow: DurabilityClass,
    may_apply: bool,
    knee_group: str | None = None,
) -> InvestigateResult:
    """Investigate within ``budget_s`` of load; record and return the result. With ``knee_group``,
    look at the end, in further ``KNEE_SECONDS``, for the knee by the clients of that group."""
    return _Investigation(session, budget_s, ProposalLimits(allow, may_apply), knee_group).run()


class _Investigation:
    def __init__(
        self, session: Session, budget_s: float, limits: ProposalLimits, knee_group: str | None
    ) -> None:
        self._session = session
        self._knee_group = knee_group
        self._limits = limits
        self._times = TimeBudget(budget_s)
        self._rng = random.Random(session.spec.load.seed)
        self._server = circumstances(session.spec, session.target.facts["settings"])
        self._progress = Progress()
        not_measured = PairedEffect(1.0, 1.0, 1.0, pairs=0, log_sd=0.0)
        no_noise = Noise(not_measured, not_measured, "throughput")
        self._outcome = InvestigationOutcome(limits.allow, no_noise)
        self._records = Records(session, self._progress, self._outcome)
        self._baseline = Baseline(session, self._times.baseline_s)
        self._guarded: dict[str, str] = {}
        """Settings that no other remedy may change, with the reason."""

    def run(self) -> InvestigateResult:
        outcome = self._outcome
        outcome.baseline = self._baseline.measure()
        self._progress.state_slices = list(outcome.baseline)
        self._progress.finding_rows = self._diagnose(outcome.baseline, step=0)
        try:
            if self._times.ends_before_trials():
                outcome.out_of_time = True
                self._session.watcher.note(self._times.too_short_words())
            else:
                outcome.noise = measure_noise(self._session, self._times.slice_s, self._rng)
            self._try_remedies()
            self._take_back_in_turn()
            self._offer()
            self._resume()
            self._measure_total()
            self._find_knee()
            self._baseline.ramp_again(self._progress.state)
        except TrustError as problem:
            outcome.no_verdict = problem.message
        self._session.stop_load()
        outcome.elapsed_s = self._times.elapsed_s
        result = result_of(self._session.reader(), self._progress, outcome)
        store(self._session.recorder, result)
        return result

    def _try_remedies(self) -> None:
        """Try remedies within the durability limit, and keep those that help, until none is left;
        and the unusual settings, once."""
        if self._progress.limit.finding in _SETTINGS_FIRST:
            self._try_settings()
        while (proposal := self._next_proposal()) is not None:
            if not self._fits_if_kept(proposal):
                if self._outcome.out_of_time:
                    return
                continue
            self._try(proposal)
        if not self._progress.kept:
            self._try_settings()

    def _try_settings(self) -> None:
        """Try all unusual settings at their built-in values in one trial, unless that was done; if
        it gains, keep those that make the difference."""
        if self._outcome.settings is not None:
            return
        suspects = self._suspects()
        tried = self._outcome.settings = SettingsTried(suspects.left_out)
        chosen = self._affordable(suspects.tried, tried)
        if not chosen:
            return
        proposal = self._reset_of(chosen)
        self._progress.tried.add(self._progress.tried_key(proposal))
        self._session.watcher.phase(f"trying {proposal.title}")
        answer = self._answer_of(proposal, self._question(proposal))
        if answer is None:
            return
        tried.note(proposal.change.settings, answer)
        if improves(answer):
            self._keep_those_that_matter(chosen, proposal, answer, tried)
        else:
            self._records.step(proposal, answer, decision_of(proposal, answer, may_keep=True))
            self._progress.state_slices.extend(answer.slices_a)

    def _suspects(self) -> Suspects:
        return suspects_of(
            self._outcome.judged or (),
            self._session,
            self._limits,
            state=self._progress.state,
            server=self._server,
            guarded=self._guarded,
        )

    def _reset_of(self, settings: Sequence[UnusualSetting]) -> AssessedProposal:
        return reset_of(settings, self._session.spec, self._progress.state, self._server)

    def _affordable(
        self, settings: Sequence[UnusualSetting], tried: SettingsTried
    ) -> Sequence[UnusualSetting]:
        """Return the settings that the time is enough to try together: all, or those that need no
        restart; note the others in ``tried``."""
        quick = [each for each in settings if not each.needs_restart]
        for chosen in (settings, quick) if len(quick) < len(settings) else (settings,):
            if not chosen:
                continue
            proposal = self._reset_of(chosen)
            if self._times.enough_for(
                [self._question(proposal)], reserved_s=self._reserved_s(proposal)
            ):
                tried.lack_time(each for each in settings if each not in chosen)
                return chosen
        tried.lack_time(settings)
        return ()

    def _keep_those_that_matter(
        self,
        settings: Sequence[UnusualSetting],
        whole: AssessedProposal,
        answer: TrialAnswer,
        tried: SettingsTried,
    ) -> None:
        """Keep the settings that make the difference of ``whole``, by a trial of their own; or the
        whole, if that does not show the gain."""
        several = len(settings) > 1
        mattering = self._mattering(settings, whole, tried) if several else settings
        if 0 < len(mattering) < len(settings) and self._kept_alone(mattering):
            return
        self._records.step(whole, answer, "kept")
        self._keep(whole, answer)

    def _mattering(
        self, settings: Sequence[UnusualSetting], whole: AssessedProposal, tried: SettingsTried
    ) -> Sequence[UnusualSetting]:
        """Take settings back in groups, as far as there is time; note the trials in ``tried``, and
        return the settings that are left."""
        units = units_of(whole.change.settings)
        reserved_s = self._times.trial_s([self._question(whole)]) + self._reserved_s(whole)
        seconds = seconds_within(units, self._times.left_s - reserved_s, self._times.slice_s)
        search = TakingBack(
            session=self._session,
            settings=whole.change.settings,
            units=units,
            server=self._server,
            noise=self._outcome.noise,
            seconds=max(seconds, whole.assessment.effect_after_s),
            rng=self._rng,
            state=self._progress.state,
            pairs_max=PAIRS_MAX,
        )
        left = search.search(self._times.deadline_s - reserved_s)
        for taken in search.taken:
            tried.note(taken.names, taken.answer)
        return [each for each in settings if each.name not in left.gone]

    def _kept_alone(self, settings: Sequence[UnusualSetting]) -> bool:
        """Try some settings at their built-in values; return whether that is kept."""
        before = len(self._progress.kept)
        self._try(self._reset_of(settings))
        return len(self._progress.kept) > before

    def _next_proposal(self) -> AssessedProposal | None:
        """Return the best untried proposal within the durability limit that can be measured."""
        for proposal in self._untried():
            if not within(proposal.durability_class, self._limits.allow):
                continue
            why_not = self._obstacle(proposal)
            if why_not is None:
                return proposal
            self._records.left_out(proposal, why_not)
        return None

    def _fits_if_kept(self, proposal: AssessedProposal) -> bool:
        """Return whether the time is enough for a proposal that may be kept; if not, record the
        reason."""
        set_aside_s = self._times.set_aside_s(
            self._question(proposal), self._reserved_s(proposal), proposal.prediction
        )
        return self._fits(proposal, set_aside_s)

    def _fits(self, proposal: AssessedProposal, reserved_s: float) -> bool:
        """Return whether the time is enough for a proposal; if not, record the reason."""
        question = self._question(proposal)
        if self._times.enough_for([question], reserved_s=reserved_s):
            return True
        if minutes := self._times.minutes_beyond(question):
            self._records.not_measurable(proposal, question.seconds, minutes)
        else:
            self._outcome.out_of_time = True
            self._records.left_out(proposal, _NO_TIME)
        return False

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
        decision = decision_of(proposal, answer, may_keep=True)
        self._records.step(proposal, answer, decision)
        if decision == "kept":
            self._keep(proposal, answer)
        else:
            progress.state_slices.extend(answer.slices_a)

    def _keep(self, proposal: AssessedProposal, answer: TrialAnswer) -> None:
        progress = self._progress
        progress.kept = with_kept(progress.kept, Kept(proposal, answer))
        self._session.recorder.add_event("step", f"kept: {proposal.title}")
        self._diagnose_again(answer.slices_b)

    def _answer_of(self, proposal: AssessedProposal, question: Question) -> TrialAnswer | None:
        """Return the trial's answer. If the server refuses the change (a missing right, a value
        that only its start can check), record the reason and return None."""
        try:
            return self._run(question)
        except SetupError as problem:
            self._records.left_out(proposal, f"not measured: {problem.message}")
            return None

    def _diagnose_again(self, slices: tuple[int, ...]) -> None:
        progress = self._progress
        progress.state_slices = list(slices)
        progress.finding_rows = self._diagnose(progress.state_slices, step=len(progress.steps))

    def _diagnose(self, slices: list[int], *, step: int) -> dict[int, Finding]:
        recorded = record_diagnosis(self._session, slices, step=step, allow=self._limits.allow)
        self._progress.limit = limit_of(recorded.diagnosis)
        if step == 0:
            self._outcome.judged = recorded.diagnosis.settings
        self._progress.latency_budget = budget_of(recorded.diagnosis)
        return recorded.rows

    def _take_back_in_turn(self) -> None:
        """Check that each kept remedy still gains with those that were kept after it.

        The last one needs no check: its trial was against the final state without it.
        """
        for kept in self._progress.kept[:-1]:
            others = [other for other in self._progress.kept if other is not kept]
            replaced = len(others) == len(self._progress.kept)
            if replaced or kept.proposal.remedy.guards:  # which need not gain
                continue
            question = recheck_question(kept, others, self._question(kept.proposal))
            if self._times.enough_for([question], reserved_s=self._total_s()):
                self._recheck(kept, question)
            else:
                self._outcome.out_of_time = True

    def _recheck(self, kept: Kept, question: Question) -> None:
        """Take a remedy back if it no longer gains; then try remedies again."""
        proposal = kept.proposal
        self._session.watcher.phase(f"taking back {proposal.title}")
        answer = self._run(question)
        decision = recheck_decision_of(answer)
        self._records.step(proposal, answer, decision)
        if decision == "taken back":
            self._take_back(proposal, answer)
        else:
            self._progress.state_slices = list(answer.slices_b)

    def _take_back(self, proposal: AssessedProposal, answer: TrialAnswer) -> None:
        """Continue without a remedy that no longer gains."""
        progress = self._progress
        progress.kept = [each for each in progress.kept if each.proposal is not proposal]
        self._session.recorder.add_event("step", f"taken back: {proposal.title}")
        self._diagnose_again(answer.slices_a)
        progress.tried.add(progress.tried_key(proposal))
        self._try_remedies()

    def _offer(self) -> None:
        """Measure remedies above the durability limit on the final state; keep none of them."""
        for proposal in self._untried():
            if within(proposal.durability_class, self._limits.allow):
                continue
            if (why_not := self._obstacle(proposal)) is not None:
                self._records.left_out(proposal, why_not)
                continue
            if not self._fits(proposal, self._total_s()):
                continue
            self._session.watcher.phase(f"pricing {proposal.title}")
            answer = self._answer_of(proposal, self._question(proposal))
            if answer is None:
                continue
            self._progress.state_slices.extend(answer.slices_a)
            self._records.step(proposal, answer, decision_of(proposal, answer, may_keep=False))

    def _resume(self) -> None:
        """Spend the time that is left on inconclusive trials about the current state."""
        for step, undecided in self._progress.resumable().items():
            if undecided.concerns(self._progress.state):
                self._extend(step, undecided)

    def _extend(self, step: int, undecided: Undecided) -> None:
        """Measure more pairs of an inconclusive trial, and decide again."""
        proposal, question = undecided.proposal, undecided.trial.question
        recheck = question.kind is TrialKind.RECHECK
        may_keep = within(proposal.durability_class, self._limits.allow)
        self._session.watcher.phase(f"measuring more pairs of {question.title}")
        answer = resume_trial(
            self._session,
            undecided.trial.answer,
            deadline_s=self._times.deadline_s - self._reserved_to_extend_s(undecided),
            rng=self._rng,
        )
        if answer is undecided.trial.answer:
            return
        self._progress.trials.append(AnsweredTrial(question, answer))
        decision = (
            recheck_decision_of(answer)
            if recheck
            else decision_of(proposal, answer, may_keep=may_keep)
        )
        self._records.step(proposal, answer, decision, again=step)
        if decision == "kept":
            self._keep(proposal, answer)
            self._try_remedies()
        elif decision == "taken back":
            self._take_back(proposal, answer)

    def _reserved_to_extend_s(self, undecided: Undecided) -> float:
        """Return the time to leave for the total after an extended trial, whose decision may change
        the final state."""
        proposal = undecided.proposal
        if undecided.trial.question.kind is TrialKind.RECHECK:
            return self._times.trial_s([self._total_question()])
        if within(proposal.durability_class, self._limits.allow):
            return self._reserved_s(proposal)
        return self._total_s()

    def _measure_total(self) -> None:
        """Measure the spec as it was against everything kept, unless a trial did so already."""
        if not self._progress.state or self._progress.trial_of_everything():
            return
        question = self._total_question()
        if not self._times.enough_for_last(question):
            self._outcome.out_of_time = True
            self._outcome.total_absent = "the time budget ended"
            return
        self._session.watcher.phase(f"measuring {EVERYTHING} against the state at the start")
        answer = self._run(question)
        more = resume_trial(self._session, answer, deadline_s=self._times.deadline_s, rng=self._rng)
        self._progress.trials.append(AnsweredTrial(question, more))

    def _find_knee(self) -> None:
        """Find how much the server takes with everything kept, if that was asked for."""
        if self._knee_group is None:
            return
        request = KneeRequest(self._knee_group, (), None, KNEE_SECONDS, self._progress.state)
        self._outcome.capacity = find_capacity(self._session, request).capacity

    def _total_question(self, more: AssessedProposal | None = None) -> Question:
        """Return the question of everything kept, with ``more`` if that will be kept as well."""
        kept = [each.proposal for each in self._progress.kept]
        kept = [*kept, more] if more else kept
        return total_question(kept, self._server, slice_s=self._times.slice_s)

    def _total_s(self) -> float:
        """Return the time to set aside for the total."""
        due = self._progress.state and not self._progress.trial_of_everything()
        return self._times.trial_s([self._total_question()]) if due else 0.0

    def _reserved_s(self, proposal: AssessedProposal) -> float:
        """Return the time to leave if ``proposal`` is tried and kept: for the total, and for taking
        back each of those that were kept before it."""
        progress = self._progress
        if not progress.kept:
            return 0.0
        rechecks_s = len(progress.gaining) * self._times.plain_trial_s
        return self._times.trial_s([self._total_question(proposal)]) + rechecks_s

    def _question(self, proposal: AssessedProposal) -> Question:
        progress = self._progress
        return remedy_question(
            proposal, progress.state, slice_s=self._times.slice_s, step=len(progress.steps) + 1
        )

    def _run(self, question: Question) -> TrialAnswer:
        """Run a trial. More than six pairs are measured only if enough time is left for the
        others."""
        measurable = [each for each in self._untried() if not self._obstacle(each)]
        open_trials = len(self._progress.gaining[:-1]) + len(measurable)
        left_s = self._times.left_s - (0.0 if question.kind is TrialKind.TOTAL else self._total_s())
        share_s = max(left_s / (1 + open_trials), self._times.trial_s([question]))
        began_s = time.monotonic()
        answer = run_trial(
            self._session,
            question,
            noise=self._outcome.noise,
            deadline_s=time.monotonic() + share_s,
            rng=self._rng,
            resumable=True,
        )
        self._times.learn(question, (time.monotonic() - began_s) / max(1, len(answer.tps_a)))
        self._progress.trials.append(AnsweredTrial(question, answer))
        return answer
