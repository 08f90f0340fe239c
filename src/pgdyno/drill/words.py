"""Cuts in words, for progress and reports."""

from __future__ import annotations

from pgdyno.drill.model import NOTHING_ACKED, acknowledged_words
from pgdyno.numbers import duration
from pgdyno.record.cut import Cut, LedgerCount


def in_words(cut: Cut) -> str:
    """Return one cut in a line: its outcome, and the check that decided it."""
    if "disturbed" in cut.facts:
        return f"does not count: {cut.proof.sentence}"
    if cut.outcome == "no-fault":
        return f"the fault did not happen: {cut.proof.sentence}"
    variant = f"{cut.variant}: " if cut.variant else ""
    if cut.outcome == "refused":
        return f"{variant}refused to start: {cut.server_said or cut.seen_by}"
    recovered = "" if cut.recovery_s is None else f", up again after {duration(cut.recovery_s)}"
    if cut.outcome == "corrupt":
        return f'{variant}corrupt, found by the check "{cut.seen_by}"{recovered}'
    said = cut.outcome if cut.ledger is None else _ledger_in_words(cut.ledger, cut.lost_until)
    outage = (
        "" if cut.outage is None else f", no commit for {duration(cut.outage.no_commit_ms / 1000)}"
    )
    return f"{variant}{said}{recovered}{outage}"


def _ledger_in_words(ledger: LedgerCount, until: str) -> str:
    """Return the commits that a consistent database has lost, in words."""
    if not ledger.acked:
        return NOTHING_ACKED
    if ledger.lost:
        return (
            f"lost {ledger.lost:,} of {ledger.acked:,} acknowledged commits,"
            f" {acknowledged_words(ledger.lost_ms, until)}"
        )
    return f"all of {ledger.acked:,} acknowledged commits are present"
