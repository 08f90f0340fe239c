"""The sections that one command has alone, as lines of a terminal summary."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal._lines import (
    LABEL_WIDTH,
    Line,
    answer_lines,
    labelled,
    table_lines,
    term_lines,
)
from pgdyno.report.view import (
    Answer,
    Charts,
    Commands,
    InTerminal,
    OnPage,
    Part,
    Terms,
    Title,
    View,
)
from pgdyno.report.words.tables import Table


def own_lines(view: View, summary: RunSummary, width: int) -> list[Line]:
    """Return the sections of a view; no lines if there are none."""
    parts = [part for section in view.sections(summary) for part in section.parts]
    return _lines(parts, width)


def measured_lines(view: View, summary: RunSummary, width: int) -> list[Line]:
    """Return what was measured by a command that did not come to a result, and the verdict."""
    lines = []
    if view.measured is not None:
        table = view.measured(summary.run)
        lines += [*table_lines(table.head, table.rows, width), Line("")]
    return [*lines, *labelled("verdict", summary.verdict, width)]


def _lines(parts: Iterable[Part], width: int) -> list[Line]:
    lines: list[Line] = []
    label_width = LABEL_WIDTH
    for given in parts:
        match given.part if isinstance(given, InTerminal) else given:
            case Table(head=head, rows=rows):
                lines += [*table_lines(head, rows, width), Line("")]
            case Title(text):
                lines += [Line(text, "bold"), Line("")]
            case Answer(sentence):
                lines += answer_lines(sentence, width)
            case Terms() as terms:
                wanted = terms.label_width or LABEL_WIDTH
                lines += [Line("")] if wanted != label_width else []
                label_width = wanted
                lines += term_lines(terms, width)
            case Commands(texts):
                lines += [Line(""), *map(Line, texts)]
            case OnPage() | Charts():
                pass
    return lines
