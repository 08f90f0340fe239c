"""Records each remedy's trial and decision, in the investigation's progress and in the run file."""

from __future__ import annotations

from pgdyno import numbers
from pgdyno.conduct import Session
from pgdyno.investigate._outcome import InvestigationOutcome
from pgdyno.investigate._progress import Progress, Undecided
from pgdyno.investigate._proposals import AssessedProposal
from pgdyno.investigate._trials import interval_columns, proof_of
from pgdyno.record import TrialDecision, TrialKind
from pgdyno.results.common import Postponed
from pgdyno.results.investigate import Decision, NotMeasured, Proof, Step, TriedRemedy
from pgdyno.stats.prediction import rounded_interval, tolerated
from pgdyno.trial.noise import failures_by_side
from pgdyno.trial.pairs import TrialAnswer
from pgdyno.trial.question import not_measurable
from pgdyno.trial.recorded import postponed
from pgdyno.trial.result import effect_of


class Records:
    """The records of one investigation."""

    def __init__(self, session: Session, progress: Progress, outcome: InvestigationOutcome) -> None:
        self._session = session
        self._progress = progress
        self._outcome = outcome

    def step(
        self,
        proposal: AssessedProposal,
        answer: TrialAnswer,
        decision: Decision,
        *,
        again: int | None = None,
    ) -> None:
        """Record the decision about a measured remedy, and the proof of the finding.

        ``again`` is the index of the step whose trial was extended; its record is replaced.
        """
        proof = proof_of(proposal, answer)
        shown = {} if proof is None else {"proof": proof.status, "proof_why": proof.why}
        self._session.recorder.update_trial(answer.trial_id, decision=decision, **shown)
        if proof is not None:
            self._finding(proposal.finding, proof)
        charged = postponed(self._session.reader(), answer.slices_a, answer.slices_b)
        step = step_of(proposal, answer, decision, proof, charged)
        self._place(step, proposal, again)
        effect = answer.throughput if answer.measure == "throughput" else answer.latency_p99
        interval = numbers.interval(effect.lo, effect.hi)
        self._session.watcher.note(f"{proposal.title}: {answer.gain} {interval} {decision}")

    def _place(self, step: Step, proposal: AssessedProposal, again: int | None) -> None:
        """Put a step in its place, and note if its trial, the last one, is inconclusive."""
        progress = self._progress
        if again is None:
            progress.steps.append(step)
        else:
            progress.steps[again] = step
        place = len(progress.steps) - 1 if again is None else again
        progress.undecided.pop(place, None)
        if step.decision == "inconclusive":
            progress.undecided[place] = Undecided(proposal, progress.trials[-1])

    def _finding(self, finding_id: str, proof: Proof) -> None:
        """Record the proof of a finding; one that was proved remains so."""
        proved = self._outcome.proved
        rows = self._progress.finding_rows
        for row in [row for row, each in rows.items() if each.id == finding_id]:
            if row not in proved:
                self._session.recorder.update_finding(row, status=proof.status)
            if proof.status == "proved":
                proved.add(row)

    def left_out(self, proposal: AssessedProposal, why: str) -> None:
        """Record that a remedy was not measured, and why."""
        self._left_out(proposal, TrialDecision.NOT_MEASURED, why)

    def not_measurable(self, proposal: AssessedProposal, slice_s: float, minutes: int) -> None:
        """Record that a remedy needs slices of ``slice_s``, for which the budget is too short."""
        why = not_measurable(slice_s, minutes)
        self._left_out(proposal, TrialDecision.NOT_MEASURABLE, why, minutes)

    def _left_out(
        self,
        proposal: AssessedProposal,
        decision: TrialDecision,
        why: str,
        minutes: int | None = None,
    ) -> None:
        progress = self._progress
        progress.tried.add(progress.tried_key(proposal))
        self._outcome.unmeasured.append(
            NotMeasured(
                remedy=proposal.remedy.id, title=proposal.title, why=why, minutes_needed=minutes
            )
        )
        self._session.recorder.add_trial(
            kind=TrialKind.REMEDY,
            title=proposal.title,
            change=proposal.change.to_json(),
            step=len(progress.steps) + 1,
            finding=proposal.finding,
            remedy=proposal.remedy.id,
            durability_class=proposal.durability_class,
            predicted_ratio=_float(proposal.prediction),
            **interval_columns(proposal.prediction),
            predicted_response_ratio=proposal.predicted_response_ratio,
            decision=decision,
            sentence=why,
        )


def step_of(
    proposal: AssessedProposal,
    answer: TrialAnswer,
    decision: Decision,
    proof: Proof | None,
    charged: tuple[Postponed, ...],
) -> Step:
    """Return a measured remedy with its decision, as results have it."""
    return Step(
        finding=proposal.finding,
        remedy=TriedRemedy(
            id=proposal.remedy.id,
            title=proposal.title,
            change=proposal.change.to_json(),
            durability_class=proposal.durability_class,
        ),
        specific=proposal.specific,
        predicted_ratio=_rounded(proposal.prediction),
        predicted_interval=(
            rounded_interval(proposal.predicted_ratio) if proposal.is_predicted else None
        ),
        predicted_response_ratio=(
            None
            if proposal.predicted_response_ratio is None
            else numbers.rounded(proposal.predicted_response_ratio)
        ),
        tolerance=_tolerance(proposal),
        set_by=dict(answer.set_by),
        effect=effect_of(answer.throughput),
        latency_p99_ratio=numbers.rounded(answer.latency_p99.ratio),
        compared=answer.measure,
        failures=failures_by_side(answer),
        postponed=charged,
        against=answer.verdict.against,
        verdict=answer.verdict.outcome,
        pairs_needed=answer.verdict.pairs_needed,
        decision=decision,
        proof=proof,
    )


def _float(ratio: float | None) -> float | None:
    """Return a prediction as a plain number."""
    return None if ratio is None else float(ratio)


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(float(ratio), 3)


def _tolerance(proposal: AssessedProposal) -> tuple[float, float] | None:
    """Return the ratios of throughput that count as predicted; None if no gain was predicted."""
    shortens = proposal.predicted_response_ratio is not None
    if proposal.remedy.guards or shortens or not proposal.is_predicted:
        return None
    low, high = tolerated(proposal.predicted_ratio)
    return numbers.rounded(low), numbers.rounded(high)
