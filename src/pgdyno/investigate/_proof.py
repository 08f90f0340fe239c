"""Evidence of a trial of a remedy about the finding that suggested it.

A finding is proved by a remedy that acts on its cause alone and moved the figures as predicted
(``stats.prediction``). Any other remedy that improves them only helped: it may have relieved a
limit with another cause.
"""

from __future__ import annotations

from pgdyno.investigate._decisions import improves
from pgdyno.investigate._proposals import AssessedProposal
from pgdyno.results.investigate import Proof
from pgdyno.stats.prediction import as_predicted, overlap, tolerance_words
from pgdyno.trial.pairs import Answer


def proof_of(proposal: AssessedProposal, answer: Answer) -> Proof | None:
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
