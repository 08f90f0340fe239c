"""Lines of a terminal summary about the latency budget."""

from __future__ import annotations

from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal._lines import Line, labelled
from pgdyno.report.words import budget as words


def budget_lines(summary: RunSummary, width: int) -> list[Line]:
    """Return the parts of the mean response time, those of the largest statements, and a note on
    what is not known of them."""
    budget = words.budget_in(summary)
    if budget is None:
        return []
    lines = labelled("mean", words.budget_words(budget), width)
    for number, sentence in enumerate(words.statement_words(budget)):
        lines += labelled("" if number else "of this", sentence, width, spare=True)
    return lines + labelled("note", words.note(budget), width)
