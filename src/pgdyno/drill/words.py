"""Cuts in words, for progress and reports."""

from __future__ import annotations

from pgdyno.drill.model import Cut, figure


def in_words(cut: Cut) -> str:
    """One cut in a line: what came of it, and by what that was seen."""
    if "disturbed" in cut.facts:
        return f"counts for nothing: {cut.proof.sentence}"
    if cut.outcome == "no-fault":
        return f"the fault did not happen: {cut.proof.sentence}"
    assert cut.verified is not None
    verified, variant = cut.verified, f"{cut.variant}: " if cut.variant else ""
    recovered = (
        "" if verified.recovery_s is None else f", up again after {verified.recovery_s:.2f} s"
    )
    if verified.outcome == "refused":
        return f"{variant}refused to start: {verified.server_said or verified.seen_by}"
    if verified.outcome == "corrupt":
        return f"{variant}corrupt, seen by {verified.seen_by}{recovered}"
    ledger = cut.ledger
    if ledger is None:
        return f"{variant}{verified.outcome}{recovered}"
    if ledger.lost:
        return (
            f"{variant}lost {ledger.lost:,} of {ledger.acked:,} acknowledged commits, the oldest"
            f" from {figure(ledger.lost_ms)} ms before{recovered}"
        )
    return f"{variant}all of {ledger.acked:,} acknowledged commits are there{recovered}"
