"""Lines with the commands that measure what a run proposes and did not try, each on one line."""

from __future__ import annotations

from pgdyno.record import RunFile
from pgdyno.record.finding import Finding
from pgdyno.report.attempts import Attempt
from pgdyno.report.terminal._lines import LABEL_WIDTH, Line
from pgdyno.report.words.proving import compare_line, compare_lines


def proving_lines(run: RunFile, finding: Finding) -> list[Line]:
    """Return the commands for the proposals of a finding."""
    label = "to prove it"
    return [
        Line(f"{'' if number else label:<{LABEL_WIDTH}}{command}", bold_to=len(label))
        for number, command in enumerate(compare_lines(run, finding))
    ]


def proving_lines_of(run: RunFile, attempt: Attempt) -> list[Line]:
    """Return the command for an attempt that was not measured."""
    if attempt.was_measured:
        return []
    command = compare_line(run, attempt.change)
    return [Line(f"      {command}")] if command else []
