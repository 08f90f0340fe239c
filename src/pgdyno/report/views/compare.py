"""The view of a comparison: the change, its effect on both figures, and how to apply it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pgdyno.report.view import (
    BlankLine,
    Charts,
    Commands,
    InTerminal,
    OnPage,
    Part,
    Section,
    Term,
    Terms,
    Text,
    View,
)
from pgdyno.report.views.investigate import STYLES, trial_notes
from pgdyno.report.words import plans, prose, sentences

if TYPE_CHECKING:
    from pgdyno.json_types import Row
    from pgdyno.record import RunFile
    from pgdyno.report.attempts import Attempt
    from pgdyno.report.charts.chart import Chart
    from pgdyno.report.summary import RunSummary
    from pgdyno.results.compare import CompareResult
    from pgdyno.results.plans import ComparedPlans

_SIDES = ("before", "after")


def _sections(summary: RunSummary) -> list[Section]:
    attempt = summary.comparison
    noise = Terms({"noise": sentences.noise_sentence(summary)})
    parts: list[Part] = [InTerminal(noise), BlankLine()]
    if attempt is not None:
        parts = [*_in_terminal(summary, attempt), *_on_page(summary, attempt)]
    return [Section("steps", "Comparison", parts)]


def _in_terminal(summary: RunSummary, attempt: Attempt) -> Iterator[Part]:
    change = [attempt.title, sentences.set_by_words(attempt)]
    terms = [
        Term("noise", sentences.noise_sentence(summary)),
        Term("change", "   ".join(part for part in change if part)),
        Term("durability", sentences.assessed_words(attempt)),
        Term("price", attempt.assessment.price),
        Term("took", sentences.took_words(summary)),
        *(Term(label, "   ".join(said)) for label, said in sentences.level_words(attempt).items()),
        Term("", sentences.postponed_words(attempt)),
        Term("failures", sentences.failure_words(summary.run, attempt)),
        *(Term(label, text, spare=True) for label, text in _replanned(summary)),
    ]
    yield InTerminal(Terms(terms))
    yield BlankLine()
    style = f"bold {STYLES.get(attempt.outcome, '')}".strip()
    yield InTerminal(Text(sentences.comparison_sentence(attempt), style))
    if attempt.change.sql and attempt.outcome == "better":
        yield BlankLine()
        yield InTerminal(Commands(attempt.assessment.lines_to_apply(), "to apply"))


def _on_page(summary: RunSummary, attempt: Attempt) -> Iterator[Part]:
    def charts() -> list[Chart]:
        from pgdyno.report.charts.trials import trial_charts

        return trial_charts(summary)

    yield from trial_notes(summary)
    if not (attempt.throughput and summary.verdict_is_comparison):  # which headline and lead have
        yield OnPage(Text(prose.sentence(sentences.comparison_sentence(attempt))))
    failures = sentences.failure_words(summary.run, attempt)
    if failures:
        yield OnPage(Text(f"Failures: {prose.sentence(failures)}"))
    compared = _plans(summary)
    if compared is not None:
        yield OnPage(Text(prose.sentence(f"Plans: {plans.replanned_words(compared)}"), small=True))
    if table := plans.replanned_table(compared, *_SIDES):
        yield OnPage(table)
    yield Charts(charts)


def _plans(summary: RunSummary) -> ComparedPlans | None:
    result: CompareResult | None = summary.result_of("compare")
    return None if result is None else result.plans


def _replanned(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield labels and texts on the plans, if they were looked at."""
    if (compared := _plans(summary)) is not None:
        yield from plans.replanned_terms(compared, *_SIDES)


def _csv(run: RunFile) -> Iterator[Row]:
    """Yield one row per slice of the trials."""
    from pgdyno.trial.recorded import slice_figures

    for each in run.slices():
        if each.trial_id is None:
            continue
        tps, p99_ms = slice_figures(run, each.id)
        yield {
            "trial": each.trial_id,
            "pair": each.pair,
            "side": each.side,
            "throughput_tps": round(tps, 2),
            "response_ms_p99": None if p99_ms is None else round(p99_ms, 3),
            "failed": run.ledger([each.id]).failed,
            "void": each.void or "",
        }


VIEW = View("compare", _sections, and_of=("profile", "versions"), measured_rows=_csv, lines_max=200)
