"""The view of an investigation: the steps from diagnosis to proof, and what is kept at the end."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.record.finding import HELD, UNEXPLAINED
from pgdyno.report.view import (
    BlankLine,
    Charts,
    Commands,
    Fields,
    InTerminal,
    Item,
    Numbered,
    OnPage,
    Part,
    Section,
    Shared,
    Term,
    Terms,
    Text,
    View,
)
from pgdyno.report.words import plans, prose, repeat, sentences, unusual
from pgdyno.report.words.findings import finding_name
from pgdyno.report.words.tables import Table

if TYPE_CHECKING:
    from pgdyno.json_types import Row
    from pgdyno.report.attempts import Attempt
    from pgdyno.report.charts.chart import Chart
    from pgdyno.report.summary import RunSummary, TriedFinding
    from pgdyno.results.investigate import InvestigateResult

STYLES = {
    "kept": "green",
    "still earns": "green",
    "better": "green",
    "offered": "yellow",
    "inconclusive": "yellow",
    "mixed": "red",
    "not comparable": "red",
    "taken back": "red",
    "worse": "red",
}
"""Styles of the outcomes of trials in the terminal."""
LINES_MAX = 39
TITLE_WIDTH = 30
_COMMAND = "investigate"


def _sections(summary: RunSummary) -> list[Section]:
    parts = [*_in_terminal(summary), *(_on_page(summary) if summary.steps else ())]
    result: InvestigateResult | None = summary.result_of(_COMMAND)
    settings = result.unusual_settings if result else None
    steps = Section("steps", "Steps", parts)
    return [steps, *plans.sections(summary.run), *unusual.sections(settings)]


def _in_terminal(summary: RunSummary) -> Iterator[Part]:
    """Yield the steps and their result."""
    yield InTerminal(Terms({"noise": sentences.noise_sentence(summary)}, label_width=8))
    yield BlankLine()
    for step in summary.steps:
        yield from _step(step, summary)
    yield InTerminal(Text(_rechecks_sentence(summary)))
    yield InTerminal(Text(_next_limit_sentence(summary)))
    if not summary.steps:
        yield Shared("findings")
    # The trials themselves restored everything.
    yield InTerminal(Commands(summary.kept.lines_to_apply(), "to apply"))
    yield InTerminal(Commands(summary.kept.lines_to_undo(summary.before_all), "to undo"))
    yield BlankLine()
    yield InTerminal(Text(_change_words(summary), "bold"))
    yield Shared("budget")


def _step(step: TriedFinding, summary: RunSummary) -> Iterator[Part]:
    head = f"{step.number}  {finding_name(step.finding) or 'further changes'}"
    helped = any(a.was_measured and a.outcome != "rejected" for a in step.attempts)
    term = Term(head, step.sentence or " ", spare=not helped)
    yield InTerminal(Terms([term], label_width=max(24, len(head) + 2)))
    for attempt in step.attempts:
        yield _attempt(attempt, summary)
        command = "" if attempt.was_measured else repeat.compare_line(summary.run, attempt.change)
        if command:
            yield InTerminal(Commands([command], indent=6))


def _attempt(attempt: Attempt, summary: RunSummary) -> Fields:
    title = (
        attempt.title if attempt.loses_nothing else f"{attempt.title}  {attempt.durability_class}"
    )
    parts = []
    if predicted := sentences.predicted_words(attempt):
        parts.append(f"predicted {predicted}")
    if measured := sentences.measured_words(attempt):
        parts.append(f"measured {measured}")
    if attempt.gains and not attempt.rate_held and attempt.latency_p99:
        parts.append(f"p99 {numbers.change_percent(attempt.latency_p99.ratio)}")
    parts += [sentences.decision_words(attempt), sentences.proof_words(attempt)]
    parts.append(sentences.set_by_words(attempt))
    if attempt.gains:
        parts.append(sentences.postponed_words(attempt))
        parts.append(sentences.price_words(attempt, summary))
        parts.append(sentences.shorter_words(attempt))
    return Fields(
        f"   {title:<{TITLE_WIDTH}}",
        parts,
        style=STYLES.get(attempt.outcome, ""),
        spare=attempt.outcome == "rejected" or not attempt.was_measured,
    )


def _change_words(summary: RunSummary) -> str:
    """Return throughput and p99 before and after; '' if they were not measured."""
    before, after = summary.before, summary.after
    if before is None:
        return ""
    taken = sentences.time_taken(summary.info)
    if after is None:
        parts = [f"{numbers.tps(before.throughput_tps)} tps before", summary.gain_words]
    elif summary.changed:
        parts = [
            f"{numbers.tps(before.throughput_tps)} → {numbers.tps(after.throughput_tps)} tps"
            f" ({summary.gain_words})",
            f"p99 {numbers.from_to_ms(before.latency_p99_ms, after.latency_p99_ms)}"
            f" ({summary.p99_gain_words})",
        ]
    else:
        parts = [
            f"{numbers.tps(after.throughput_tps)} tps",
            f"p99 {numbers.ms(after.latency_p99_ms)}",
            *([after.source] if after.source else []),
        ]
    return " · ".join([*parts, *([taken] if taken else [])])


def _on_page(summary: RunSummary) -> Iterator[Part]:
    def charts() -> list[Chart]:
        from pgdyno.report.charts.trials import trial_charts

        return trial_charts(summary)

    yield from trial_notes(summary)
    yield Charts(charts)
    yield Numbered(
        [
            Item(
                prose.capital(finding_name(step.finding)) or "Further changes",
                step.sentence,
                _attempts_table(step, summary),
            )
            for step in summary.steps
        ]
    )
    for text in (_rechecks_sentence(summary), _next_limit_sentence(summary)):
        if text:
            yield OnPage(Text(prose.sentence(text)))


def _rechecks_sentence(summary: RunSummary) -> str:
    """Return the results of taking kept changes back one at a time; '' if there are none."""
    parts = []
    for attempt in summary.rechecks:
        measured = numbers.ratio(attempt.throughput.ratio) if attempt.throughput else ""
        if attempt.rate_held and attempt.latency_p99:
            measured = f"p99 {numbers.ratio(attempt.latency_p99.ratio)}"
        parts.append(
            f"{attempt.title} {_RECHECKED.get(attempt.outcome, 'was not finished')}"
            f" {measured}".strip()
        )
    return f"taken back one at a time: {numbers.listed(parts, most=None)}" if parts else ""


_RECHECKED = {
    "still earns": "still earns",
    "taken back": "no longer earns and was taken back:",
    "inconclusive": "stays kept, and it is inconclusive if it still earns:",
}


def _next_limit_sentence(summary: RunSummary) -> str:
    """Return the limit after the last step, and why nothing more was tried."""
    if summary.next_limit is None or not summary.steps:
        return ""
    finding, sentence = summary.next_limit
    says_itself = finding in ("", HELD, UNEXPLAINED)
    limit = sentence if says_itself else f"{finding_name(finding)}; {sentence}"
    return f"next limit: {limit}{_reason_of_end(summary.result_of(_COMMAND))}"


def _reason_of_end(result: InvestigateResult | None) -> str:
    """Return why nothing more was tried; '' without a result."""
    if result is None:
        return ""
    if result.out_of_time:
        return " (the time budget ended)"
    if any(each.minutes_needed for each in result.not_measured):
        return "; what else is proposed needs a longer budget"
    if result.not_measured:
        return "; nothing else could be measured here"
    least = numbers.percent(result.matters)
    return f"; no other change within {result.allow} is predicted to gain more than {least}"


def trial_notes(summary: RunSummary) -> Iterator[OnPage]:
    """Yield how far identical slices differ, and the slices that count for nothing."""
    if noise := sentences.noise_sentence(summary):
        yield OnPage(Text(f"Noise floor: {prose.sentence(noise)}"))
    if void := sentences.void_words(summary.run):
        yield OnPage(Text(prose.sentence(void)))


def _attempts_table(step: TriedFinding, summary: RunSummary) -> Table:
    rows = [
        [
            a.title,
            a.durability_class,
            sentences.predicted_words(a) or numbers.ABSENT,
            sentences.measured_words(a) or numbers.ABSENT,
            numbers.change_percent(a.latency_p99.ratio if a.latency_p99 else None),
            numbers.count(a.trial.pairs),
            _decision_and_price(a, summary),
        ]
        for a in step.attempts
    ]
    head = ["Change", "Class", "predicted", "measured, 95 %", "p99", "pairs", "Decision"]
    right = frozenset((2, 3, 4, 5))
    return Table("Changes that were tried", head, rows, right, wide=True, even=True)


def _decision_and_price(attempt: Attempt, summary: RunSummary) -> str:
    """Return the decision on a change, with its measured price if it was kept or offered."""
    decision, proof = sentences.decision_words(attempt), sentences.proof_words(attempt)
    decided = "; ".join(filter(None, (decision, proof)))
    price = sentences.price_words(attempt, summary)
    return f"{decided}; {price}" if attempt.gains and price else decided


def _csv(result: InvestigateResult) -> Iterator[Row]:
    """Yield one row per step."""
    for number, step in enumerate(result.steps, start=1):
        lo, hi = step.effect.ci95
        predicted_lo, predicted_hi = step.predicted_interval or (None, None)
        yield {
            "step": number,
            "finding": step.finding,
            "remedy": step.remedy.id,
            "change": step.remedy.title,
            "durability_class": step.remedy.durability_class,
            "predicted_ratio": step.predicted_ratio,
            "predicted_lo": predicted_lo,
            "predicted_hi": predicted_hi,
            "throughput_ratio": step.effect.throughput_ratio,
            "lo": lo,
            "hi": hi,
            "pairs": step.effect.pairs,
            "decision": step.decision,
        }


VIEW = View(
    _COMMAND,
    _sections,
    and_of=("knee",),
    verdict=attrgetter("verdict.sentence"),
    rows=_csv,
    source="in the slice before the trials",
    lines_max=LINES_MAX,
)
