"""Terminal summary of a check: what will fail, what limits, what it costs, what was not seen."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno import numbers
from pgdyno.record.finding import Finding
from pgdyno.report.terminal._lines import GAP, Line, labelled, wrapped
from pgdyno.report.words.checks import commit_words, gain_words, manner_words
from pgdyno.report.words.cutting import cut
from pgdyno.results.check import BusyStatement, CheckResult, NotChecked, ObservedLoad, WriteProbe

EVIDENCE_MAX = 4
PROOFS_MAX = 2
STATEMENTS_MAX = 5
WAITS_MAX = 6
NAMES_MAX = 3
LABEL = 11
STYLES = {"will fail": "bold red", "limit": "yellow", "costs": "", "minor": "dim"}


def check_lines(result: CheckResult, width: int) -> list[Line]:
    """Return the lines of the summary."""
    lines = [
        *_load_lines(result.load, width),
        *_commit_lines(result.write_probe, width),
        Line(""),
        *wrapped(result.verdict, width, style="bold"),
        Line(""),
    ]
    for finding in result.findings:
        lines += _finding_lines(finding, width)
    lines += _cleared_lines(result, width)
    lines += _not_checked_lines(result, width)
    if result.run_file is not None:
        lines += labelled("run file", result.run_file, width, label_width=LABEL)
    return [*lines, Line(f"checked in {result.seconds:.1f} s, {manner_words(result)}", "dim")]


def _load_lines(load: ObservedLoad, width: int) -> list[Line]:
    lines = labelled("load", load_words(load), width, label_width=LABEL)
    waits = ", ".join(
        f"{numbers.significant(w.sessions, 2)} {w.event}" for w in load.waits[:WAITS_MAX]
    )
    lines += labelled("sessions", waits, width, label_width=LABEL)
    for number, each in enumerate(load.statements[:STATEMENTS_MAX]):
        label = "" if number else "statements"
        lines += labelled(label, statement_words(each), width, label_width=LABEL, spare=number > 2)
    return lines + labelled("costliest", load.costliest.sentence, width, label_width=LABEL)


def _commit_lines(probe: WriteProbe | None, width: int) -> list[Line]:
    return labelled("commits", commit_words(probe), width, label_width=LABEL) if probe else []


def load_words(load: ObservedLoad) -> str:
    """Return throughput, sessions and cores in a few words."""
    cores = "" if load.cores is None else f", {numbers.counted(load.cores, 'core', 'cores')}"
    rate = (
        "" if load.transactions_s is None else f"{numbers.significant(load.transactions_s)} tps, "
    )
    work = "hidden" if load.at_work is None else numbers.significant(load.at_work)
    return f"{rate}{work} sessions at work of {load.sessions:,} connected{cores}"


def statement_words(each: BusyStatement) -> str:
    """Return what a statement takes, and its beginning."""
    parts = []
    if each.sessions is not None:
        parts.append(f"{numbers.significant(each.sessions, 2)} sessions")
    if each.calls_s is not None and each.mean_ms is not None:
        parts.append(
            f"{numbers.significant(each.calls_s, 2)}/s of {numbers.significant(each.mean_ms, 2)} ms"
        )
    return f"{', '.join(parts)}: {' '.join(each.statement.split())[:90]}"


def _finding_lines(finding: Finding, width: int) -> list[Line]:
    of = "" if not finding.share else f", {numbers.percent(finding.share)} of the sessions' time"
    name, severity = finding.id.replace("-", " "), finding.severity or "minor"
    lines = labelled(
        severity, f"{name}: {finding.sentence}{of}", width,
        style=STYLES[severity], label_width=LABEL,
    )  # fmt: skip
    minor = severity == "minor"
    for label, text in _details(finding):
        lines += labelled("", f"{label}: {text}", width, label_width=LABEL + 2, spare=minor)
    return lines


def _details(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield what stands under a finding: evidence, what else it may be, what to do."""
    evidence = [
        f"{each.name} {numbers.measured(each.value, each.unit)}"
        + (f" ({each.threshold})" if each.threshold else "")
        for each in finding.evidence[:EVIDENCE_MAX]
    ]
    if evidence:
        yield "evidence", "; ".join(evidence)
    if finding.severity != "minor" and finding.false_positives:
        yield "unless", finding.false_positives
    if finding.advice:
        yield "advice", finding.advice
    for command in finding.commands:
        yield "to remedy", command
    for proof in finding.prove[:PROOFS_MAX]:
        gain = gain_words(proof)
        durability = "" if proof.durability_class == "D0" else f", {proof.durability_class}"
        yield f"{proof.title} ({gain}{durability})", proof.command


def _cleared_lines(result: CheckResult, width: int) -> list[Line]:
    """Return one line with as many names as fit."""
    if not result.cleared:
        return []
    text = f"{len(result.cleared)} checks: {', '.join(each.id for each in result.cleared)}"
    return labelled("cleared", cut(text, width - LABEL), width, style="dim", label_width=LABEL)


def _not_checked_lines(result: CheckResult, width: int) -> list[Line]:
    """Return a line for each reason, with all that was not checked because of it."""
    subjects: dict[tuple[str, str], list[str]] = {}
    for each in result.not_checked:
        subjects.setdefault((each.why, each.allow), []).append(_subject(each))
    lines = []
    for number, ((why, allow), named) in enumerate(subjects.items()):
        text = "; ".join(filter(None, (f"{', '.join(named)}: {why}", allow)))
        label = "" if number else "not checked"
        lines += labelled(label, text, width, label_width=LABEL + len(GAP))
    return lines


def _subject(each: NotChecked) -> str:
    """Return what was not checked; of many checks their number, and some."""
    if each.subject != ", ".join(each.checks) or len(each.checks) <= NAMES_MAX:
        return each.subject
    return f"{len(each.checks)} checks ({', '.join(each.checks[:NAMES_MAX])}, …)"
