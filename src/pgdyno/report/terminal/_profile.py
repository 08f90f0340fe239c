"""The lines of a terminal summary about a profile."""

from __future__ import annotations

from pgdyno.report.terminal._lines import Line, labelled, table_lines
from pgdyno.report.words import profile as words
from pgdyno.results.compare import CompareResult


def profile_lines(result: CompareResult | None, width: int) -> list[Line]:
    """Return the lines of a profile with their effects, the shortest one, and what is said; none
    without a profile."""
    if result is None:
        return []
    lines = table_lines(words.HEAD, words.rows(result), width)
    for label, text in words.sentences(result).items():
        lines += labelled(label, text, width)
    if result.shortest:
        lines += [Line(""), *(Line(text) for text in result.shortest.splitlines())]
    return [Line(""), *lines] if lines else []
