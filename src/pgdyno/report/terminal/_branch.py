"""The lines of a terminal summary about branches."""

from __future__ import annotations

from pgdyno.report.terminal._lines import Line, labelled, table_lines, wrapped
from pgdyno.report.words import branch as words
from pgdyno.report.words import numbers
from pgdyno.results.branch import BranchResult


def branch_lines(result: BranchResult, width: int) -> list[Line]:
    """Return the branches, the answer, and what is said of them."""
    lines = table_lines(words.HEAD, words.rows(result), width)
    answer = numbers.sentence(result.sentence).rstrip(".")
    lines += [Line(""), *wrapped(answer, width, style="bold"), Line("")]
    said = words.sentences(result)
    label_width = max(len(label) for label in said) + 2
    for label, text in said.items():
        lines += labelled(label, text, width, label_width=label_width)
    return lines
