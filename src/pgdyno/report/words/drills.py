"""Figures, tables and words of a drill, for the terminal and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.report.words.tables import Table

if TYPE_CHECKING:
    from pgdyno.record.cut import Check, Cut
    from pgdyno.results.drill import Drill

OUTCOMES = {
    "clean": "clean",
    "lost": "lost",
    "refused": "refused to start",
    "corrupt": "corrupt",
    "no-fault": "fault did not happen",
}
"""Outcomes in words, the best first."""
CUT_HEAD = (
    "Cut", "after", "outcome", "acked", "lost", "oldest lost", "unknown", "ghosts", "recovery",
    "no commit for", "decided by",
)  # fmt: skip
DETAILS_MAX = 3


def drill_description(drill: Drill) -> str:
    """Return the fault, the number of cuts and the seed."""
    times = "once" if len(drill.cuts) == 1 else f"{len(drill.cuts)} times"
    sham = "; a sham: everything was done except the fault" if drill.sham else ""
    return f"{drill.title}, {times}; seed {drill.seed}{sham}"


def outcome_counts(drill: Drill) -> str:
    """Return ``18 lost, 2 clean``."""
    counts = [(sum(cut.outcome == key for cut in drill.cuts), OUTCOMES[key]) for key in OUTCOMES]
    return ", ".join(f"{count} {words}" for count, words in counts if count)


def minimised_sentences(drill: Drill) -> list[str]:
    """Return the smallest failing power cut of each cut for which it was searched."""
    return [
        f"cut {cut.number}: {cut.facts['minimised']['sentence']}"
        for cut in drill.cuts
        if "minimised" in cut.facts
    ]


def outage_sentence(drill: Drill) -> str:
    """Return how long no commit was acknowledged in the failovers, and of what the median one
    consisted; '' if there is none."""
    outages = sorted(
        (cut.outage for cut in drill.cuts if cut.outage is not None),
        key=lambda each: each.no_commit_ms,
    )
    if not outages:
        return ""
    middle = outages[(len(outages) - 1) // 2]
    parts = (
        (middle.detect_ms, "to detect it"),
        (middle.stop_ms, "to end the old primary"),
        (middle.promote_ms, "to promote"),
        (middle.connect_ms, "until a client or the pooler had connected"),
        (middle.commit_ms, "until a commit"),
    )
    made_of = ", ".join(f"{numbers.duration(ms / 1000)} {what}" for ms, what in parts if ms > 0)
    which = "it" if len(outages) == 1 else "the median one"
    no_commit, longest, both = (
        numbers.duration(ms / 1000)
        for ms in (middle.no_commit_ms, outages[-1].no_commit_ms, middle.both_ms)
    )
    most = "" if len(outages) == 1 else f", at most {longest}"
    accepted = f"; for {both} both servers accepted writes" if middle.both_ms > 0 else ""
    return f"no commit for {no_commit}{most}; {which} took {made_of}{accepted}"


def settings_words(drill: Drill) -> str:
    """Return the active settings that decide what may be lost."""
    return ", ".join(f"{name} = {value}" for name, value in drill.settings.items() if value != "")


def cuts_table(drill: Drill) -> Table:
    """Return a table of all cuts."""
    rows = [_cut_cells(cut) for cut in drill.cuts]
    return Table("All cuts", CUT_HEAD, rows, right=frozenset(range(1, 10)) - {2}, wide=True)


def _cut_cells(cut: Cut) -> list[str]:
    ledger = cut.ledger
    variant = f" ({cut.variant})" if cut.variant else ""
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
        numbers.duration(cut.at_ms / 1000),
        OUTCOMES[cut.outcome],
        *amounts,
        numbers.duration(cut.recovery_s) if cut.recovery_s is not None else "",
        numbers.duration(cut.outage.no_commit_ms / 1000) if cut.outage else "",
        cut.seen_by,
    ]


def check_rows(drill: Drill) -> list[list[str]]:
    """Return for each check its name, in how many cuts it passed, failed and was not made, and the
    details."""
    by_name: dict[str, list[Check]] = {}
    for cut in drill.cuts:
        for check in cut.checks:
            by_name.setdefault(check.name, []).append(check)
    rows = []
    for name, checks in by_name.items():
        shown = [check for check in checks if check.passed is False]
        shown = shown or [check for check in checks if check.passed is None] or checks[-1:]
        details = list(dict.fromkeys(check.detail for check in shown))[:DETAILS_MAX]
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
