"""The lines of a terminal summary about a server of an old age."""

from __future__ import annotations

from pgdyno.report.terminal._lines import Line, labelled, table_lines, wrapped
from pgdyno.report.words import age as words
from pgdyno.report.words import numbers
from pgdyno.results.age import AgeResult


def age_lines(result: AgeResult, width: int) -> list[Line]:
    """Return the periods, the answer, and what is said of them."""
    lines = table_lines(words.HEAD, words.rows(result), width)
    answer = numbers.sentence(result.sentence).rstrip(".")
    lines += [Line(""), *wrapped(answer, width, style="bold"), Line("")]
    for label, text in words.sentences(result).items():
        lines += labelled(label, text, width)
    return lines
