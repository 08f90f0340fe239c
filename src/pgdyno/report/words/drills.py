"""What the summary and the page of a drill say in common: figures, tables, words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgdyno.drill.model import Cut, DrillResult
from pgdyno.record import RunFile
from pgdyno.report.words import numbers
from pgdyno.results import drill as results
from pgdyno.results import load

OUTCOMES = {
    "clean": "clean",
    "lost": "lost",
    "refused": "refused to start",
    "corrupt": "corrupt",
    "no-fault": "fault did not happen",
}
"""Outcomes as people read them, the best first."""
CUT_HEAD = (
    "Cut", "after", "outcome", "acked", "lost", "back", "unknown", "ghosts", "recovery",
    "seen by",
)  # fmt: skip
FAILED_TIMES_MAX = 3


def what_was_done(drill: DrillResult) -> str:
    """The fault, how often, and by which seed."""
    times = "once" if len(drill.cuts) == 1 else f"{len(drill.cuts)} times"
    sham = "; a sham: everything was done but the fault" if drill.sham else ""
    return f"{drill.title}, {times}; seed {drill.seed}{sham}"


def outcome_counts(drill: DrillResult) -> str:
    """``18 lost, 2 clean``."""
    counts = [(sum(cut.outcome == key for cut in drill.cuts), OUTCOMES[key]) for key in OUTCOMES]
    return ", ".join(f"{count} {words}" for count, words in counts if count)


def minimised(drill: DrillResult) -> list[str]:
    """What failing cuts come down to, where that was sought."""
    return [
        f"cut {cut.number}: {cut.facts['minimised']['sentence']}"
        for cut in drill.cuts
        if "minimised" in cut.facts
    ]


def settings_words(drill: DrillResult) -> str:
    """The settings in force that decide what may be lost."""
    return ", ".join(f"{name} = {value}" for name, value in drill.settings.items() if value != "")


def cut_cells(cut: Cut) -> list[str]:
    """A row under CUT_HEAD."""
    ledger, verified = cut.ledger, cut.verified
    variant = f" ({cut.variant})" if cut.variant else ""
    recovery_s = verified.recovery_s if verified else None
    amounts = ["", "", "", "", ""]
    if ledger is not None:
        amounts = [
            numbers.count(ledger.acked),
            numbers.count(ledger.lost),
            numbers.ms(ledger.lost_ms) if ledger.lost else "",
            numbers.count(ledger.unknown),
            numbers.count(ledger.ghost),
        ]
    return [
        f"{cut.number}{variant}",
        numbers.duration(cut.at_ms),
        OUTCOMES[cut.outcome],
        *amounts,
        numbers.duration(recovery_s * 1000) if recovery_s is not None else "",
        verified.seen_by if verified else "",
    ]


def check_rows(drill: DrillResult) -> list[list[str]]:
    """For each check: its name, in how many cuts it passed, failed, was not made, and why."""
    gathered: dict[str, list[Any]] = {}
    for cut in drill.cuts:
        for check in cut.verified.checks if cut.verified else ():
            gathered.setdefault(check.name, []).append(check)
    rows = []
    for name, checks in gathered.items():
        told = [check for check in checks if check.passed is False]
        told = told or [check for check in checks if check.passed is None] or checks[-1:]
        details = list(dict.fromkeys(check.detail for check in told))[:FAILED_TIMES_MAX]
        rows.append(
            [
                name,
                *(
                    numbers.count(sum(check.passed is state for check in checks))
                    for state in (True, False, None)
                ),
                "; ".join(details),
            ]
        )
    return rows


def result_of(run: RunFile) -> results.DrillResult | None:
    """The recorded result of a drill; None of a run that has none."""
    result = load(run)
    return result if isinstance(result, results.DrillResult) else None


def differing(result: results.DrillResult | None) -> Sequence[results.Difference]:
    """What the same drill on another server showed; empty without one."""
    return (result.differences or ()) if result else ()
