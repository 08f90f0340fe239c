"""Decisions about trials of remedies: keep, offer or reject."""

from __future__ import annotations

from pgdyno.investigate._proposals import AssessedProposal
from pgdyno.results.investigate import Decision
from pgdyno.stats import EFFECT_MATTERS
from pgdyno.trial.pairs import Answer

_TAIL_GAIN_RATIO = 0.9
"""Largest ratio of p99 for which a remedy is kept without more throughput, if none is lost:
remedies of stalls affect the tail."""


def improves(answer: Answer) -> bool:
    """Return whether a trial's change is worth keeping: more throughput, or a much lower p99
    without a loss of throughput; at a fixed rate that both sides hold, a lower p99."""
    if answer.verdict.outcome == "better":
        return answer.measure == "throughput" or answer.throughput.lo >= 1 - EFFECT_MATTERS
    loses = answer.verdict.outcome == "worse" or answer.throughput.lo < 1 - EFFECT_MATTERS
    return not loses and answer.latency_p99.hi < _TAIL_GAIN_RATIO


def decision_of(proposal: AssessedProposal, answer: Answer) -> Decision:
    """Return the decision about a proposal within the durability limit. A remedy that guards the
    server is kept, or offered if it has a cost; the user decides about that."""
    if proposal.remedy.guards:
        return "offered" if answer.verdict.outcome == "worse" else "kept"
    return "kept" if improves(answer) else "rejected"
