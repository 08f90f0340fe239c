"""Decisions about trials of remedies, and what they show about the finding that suggested them.

An inconclusive trial is a decision of its own: it neither rejects a remedy, nor shows that a kept
one still earns.

A finding is proved by a remedy that acts on its cause alone and moved the figures as predicted
(``stats.prediction``). Any other remedy that improves them only helped: it may have relieved a
limit with another cause.
"""

from __future__ import annotations

from pgdyno.investigate._proposals import SHORTER_RATIO, AssessedProposal
from pgdyno.results.investigate import Decision, Proof
from pgdyno.stats.prediction import as_predicted, overlap, tolerance_words
from pgdyno.trial.pairs import TrialAnswer


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
    """Return what the trial shows about the finding; None if the remedy did not improve the
    figures, or was not meant to."""
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
