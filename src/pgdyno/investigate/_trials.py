"""The trials of an investigation: the question that each asks (a remedy, a remedy taken back,
everything kept), the decision that follows, and whether the answer proves the finding.

An inconclusive trial is a decision of its own: it neither rejects a remedy, nor shows that a kept
one still earns.

A finding is proved by a remedy that acts on its cause alone and moved the figures as predicted
(``stats.prediction``). Any other remedy that improves them only helped: it may have relieved a
limit with another cause.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pgdyno.investigate._progress import Kept, together
from pgdyno.investigate._proposals import SHORTER_RATIO, AssessedProposal
from pgdyno.record import TrialKind
from pgdyno.remedy import Circumstances, assess
from pgdyno.results.investigate import Decision, Proof
from pgdyno.spec import Change
from pgdyno.stats import PAIRS_MIN
from pgdyno.stats.prediction import as_predicted, overlap, rounded_interval, tolerance_words
from pgdyno.trial.pairs import TrialAnswer
from pgdyno.trial.question import Question, question_of

EVERYTHING = "everything kept"
"""Title of the trial of the final state against the spec as it was."""
PAIRS_MAX = 2 * PAIRS_MIN


def remedy_question(
    proposal: AssessedProposal, state: Change, *, slice_s: float, step: int
) -> Question:
    """Return the question of the effect of ``proposal`` on top of ``state``."""
    return question_of(
        proposal.assessment,
        kind=TrialKind.REMEDY,
        title=proposal.title,
        state=state,
        seconds=proposal.slice_seconds(slice_s),
        predicted_ratio=None if proposal.remedy.guards else proposal.prediction,
        pairs_max=PAIRS_MAX,
        labels={
            "step": step,
            "finding": proposal.finding,
            "remedy": proposal.remedy.id,
            "specific": proposal.specific,
            "predicted_response_ratio": proposal.predicted_response_ratio,
            **interval_columns(proposal.prediction),
        },
    )


def interval_columns(predicted_ratio: float | None) -> dict[str, float | None]:
    """Return the interval of a prediction as columns of the table ``trial``."""
    known = None if predicted_ratio is None else rounded_interval(predicted_ratio)
    low, high = known or (None, None)
    return {"predicted_ratio_lo": low, "predicted_ratio_hi": high}


def recheck_question(kept: Kept, others: Sequence[Kept], asked: Question) -> Question:
    """Return the question of the effect of a kept remedy on top of ``others``, which were kept
    after it; ``asked`` is the remedy's question on top of the current state."""
    return replace(
        asked,
        kind=TrialKind.RECHECK,
        title=f"without {kept.proposal.title}",
        a=together([other.proposal for other in others]),
        predicted_ratio=kept.answer.throughput.ratio,
    )


def total_question(
    kept: Sequence[AssessedProposal], server: Circumstances, *, slice_s: float
) -> Question:
    """Return the question of the effect of everything kept on the spec as it was, for which
    ``server`` stands."""
    return question_of(
        assess(together(kept), server),
        kind=TrialKind.TOTAL,
        title=EVERYTHING,
        seconds=max((each.slice_seconds(slice_s) for each in kept), default=slice_s),
        pairs_max=PAIRS_MAX,
    )


def improves(answer: TrialAnswer) -> bool:
    """Return whether a trial's change is worth keeping: more throughput, or a much lower p99
    without a loss of throughput, as by fewer clients or without stalls; at a fixed rate that both
    sides hold, a lower p99."""
    if answer.verdict.outcome == "better":
        return (
            answer.measure == "throughput" or answer.throughput.lo >= 1 - answer.matters.throughput
        )
    loses = (
        answer.verdict.outcome in ("worse", "mixed", "not comparable")
        or answer.throughput.lo < 1 - answer.matters.throughput
    )
    return not loses and answer.p99_is_shorter and answer.latency_p99.hi < SHORTER_RATIO


def decision_of(proposal: AssessedProposal, answer: TrialAnswer, *, may_keep: bool) -> Decision:
    """Return the decision about a proposal; with ``may_keep`` it is within the durability limit.

    A remedy that guards the server is kept, or offered if it has a cost; the user decides about
    that.
    """
    if proposal.remedy.guards:
        return "offered" if answer.verdict.outcome == "worse" or not may_keep else "kept"
    if improves(answer):
        return "kept" if may_keep else "offered"
    return "inconclusive" if answer.verdict.outcome == "inconclusive" else "rejected"


def recheck_decision_of(answer: TrialAnswer) -> Decision:
    """Return the decision about a kept remedy from a trial with and without it."""
    if improves(answer):
        return "still earns"
    return "inconclusive" if answer.verdict.outcome == "inconclusive" else "taken back"


def proof_of(proposal: AssessedProposal, answer: TrialAnswer) -> Proof | None:
    """Return the proof of the finding by the trial; None if the remedy did not improve the figures,
    or was not meant to."""
    if proposal.remedy.guards or not improves(answer):
        return None
    if not proposal.specific:
        return Proof(status="helped", why="not specific to this cause")
    if answer.measure != "throughput":
        return Proof(status="helped", why="the prediction is not of p99")
    effect, predicted = answer.throughput, proposal.predicted_ratio
    covered = tolerance_words(predicted)
    if not as_predicted(effect, predicted, answer.matters.throughput):
        return Proof(status="helped", why=f"not as predicted, within {covered}")
    met = overlap(effect, predicted)
    why = "as predicted: the intervals overlap" if met else f"as predicted, within {covered}"
    return Proof(status="proved", why=why)
