"""Terminal summary of a drill: the fault, its outcomes, the cuts and the checks."""

from __future__ import annotations

from pgdyno import numbers
from pgdyno.drill.model import DrillResult
from pgdyno.drill.storage import stored_drills
from pgdyno.record import RunFile
from pgdyno.report.terminal._lines import Line, labelled, table_lines
from pgdyno.report.words.drills import (
    CUT_HEAD,
    check_rows,
    cut_cells,
    differences_of,
    drill_description,
    minimised_sentences,
    outage_sentence,
    outcome_counts,
    result_of,
    settings_words,
)

LEDGER = "ledger"
"""The check that counts lost commits."""
STYLES = {"clean": "green", "lost": "yellow", "refused": "red", "corrupt": "red"}


def drill_lines(run: RunFile, width: int) -> list[Line]:
    """Return the lines that only the summary of a drill has."""
    lines: list[Line] = []
    for drill in stored_drills(run):
        lines += [*_verdict_lines(drill, width), *_difference_lines(run, width), Line("")]
        lines += [*_cut_lines(drill, width), Line(""), *_check_lines(drill, width)]
    return lines


def _difference_lines(run: RunFile, width: int) -> list[Line]:
    """Return the comparisons with the same drill on another server, the differences first."""
    lines = []
    for each in sorted(differences_of(result_of(run)), key=lambda each: not each.differs):
        style = "yellow" if each.differs else ""
        lines += labelled("compared", each.sentence, width, style=style)
    return lines


def _verdict_lines(drill: DrillResult, width: int) -> list[Line]:
    summary = drill.summary()
    worst = next(
        (outcome for outcome in ("corrupt", "refused", "lost") if getattr(summary, outcome)),
        "clean",
    )
    style = STYLES[worst] if not drill.fault_missing else "bold red"
    lines = [
        *labelled("drill", drill_description(drill), width),
        *labelled("verdict", summary.sentence, width, style=style),
        *labelled("documented", drill.bound, width),
        *labelled("settings", settings_words(drill), width, spare=True),
        *labelled("outcomes", outcome_counts(drill), width),
    ]
    if summary.recovery_s_median is not None and summary.recovery_s_max is not None:
        recovery = (
            f"median {numbers.duration(summary.recovery_s_median)}, at most"
            f" {numbers.duration(summary.recovery_s_max)}"
        )
        lines += labelled("recovery", recovery, width)
    if sentence := outage_sentence(drill):
        lines += labelled("outage", sentence, width)
    for sentence in minimised_sentences(drill):
        lines += labelled("minimised", sentence, width)
    for cut in drill.cuts[:1]:
        lines += labelled("proof", f"of cut {cut.number}: {cut.proof.sentence}", width)
    return lines


def _cut_lines(drill: DrillResult, width: int) -> list[Line]:
    """Return the cuts as a table; if there are too many lines, the last cuts are left out first."""
    if not drill.cuts:
        return []
    head = (CUT_HEAD[0].lower(), *CUT_HEAD[1:])
    lines = table_lines(head, [cut_cells(cut) for cut in drill.cuts], width)
    return [Line(line.text, bold_to=line.bold_to, spare=True) for line in lines]


def _check_lines(drill: DrillResult, width: int) -> list[Line]:
    lines = []
    passed = []
    for name, good, bad, not_made, detail in check_rows(drill):
        if bad != "0" and not (name == LEDGER and _only_lost(drill)):
            text = f"{name} failed in {bad} of {len(drill.cuts)} cuts: {detail}"
            lines += labelled("failed", text, width, style="red")
        elif good == "0" and not_made != "0":
            lines += labelled("not made", f"{name}: {detail}", width, spare=True)
        elif bad == "0":
            passed.append(name)
    return [*labelled("passed", ", ".join(passed), width), *lines]


def _only_lost(drill: DrillResult) -> bool:
    """True if all failures of the ledger check are lost commits, which the verdict reports."""
    return all(cut.outcome == "lost" for cut in drill.cuts if cut.seen_by == LEDGER)
