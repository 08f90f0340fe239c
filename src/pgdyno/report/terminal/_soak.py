"""The lines of a terminal summary that only a soak has."""

from __future__ import annotations

from pgdyno.report.terminal._lines import Line, labelled
from pgdyno.report.words import soak as words
from pgdyno.results.soak import SoakResult


def soak_lines(result: SoakResult, width: int) -> list[Line]:
    """Return duration, gaps, changes, and the checks of validity."""
    lines = []
    for label, text in words.sentences(result).items():
        lines += labelled(label, text, width)
    for check in result.validity:
        label, style = ("valid", "") if check.passed else ("not valid", "bold red")
        label = "unknown" if check.passed is None else label
        lines += labelled(label, f"{check.name}: {check.sentence}", width, style=style)
    return [*lines, Line("")]
