"""Decisions about trials of remedies.

An inconclusive trial is a decision of its own: it neither rejects a remedy, nor shows that a kept
one still earns.
"""

from __future__ import annotations

from pgdyno.investigate._proposals import SHORTER_RATIO, AssessedProposal
from pgdyno.results.investigate import Decision
from pgdyno.trial.pairs import Answer


def improves(answer: Answer) -> bool:
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
    return not loses and answer.latency_p99.hi < SHORTER_RATIO


def decision_of(proposal: AssessedProposal, answer: Answer, *, may_keep: bool) -> Decision:
    """Return the decision about a proposal; with ``may_keep`` it is within the durability limit.

    A remedy that guards the server is kept, or offered if it has a cost; the user decides about
    that.
    """
    if proposal.remedy.guards:
        return "offered" if answer.verdict.outcome == "worse" or not may_keep else "kept"
    if improves(answer):
        return "kept" if may_keep else "offered"
    return "inconclusive" if answer.verdict.outcome == "inconclusive" else "rejected"


def recheck_decision_of(answer: Answer) -> Decision:
    """Return the decision about a kept remedy from a trial with and without it."""
    if improves(answer):
        return "still earns"
    return "inconclusive" if answer.verdict.outcome == "inconclusive" else "taken back"
