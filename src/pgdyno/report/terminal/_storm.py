"""The lines of a terminal summary about storms of connections."""

from __future__ import annotations

from pgdyno.record import RunFile
from pgdyno.report.terminal._lines import Line, labelled, table_lines, wrapped
from pgdyno.report.words import numbers
from pgdyno.report.words import storm as words
from pgdyno.results.storm import StormResult


def storm_lines(result: StormResult, width: int) -> list[Line]:
    """Return the storms, the answer, errors by cause, and what would change it."""
    lines = table_lines(words.HEAD, words.rows(result), width)
    answer = numbers.sentence(result.sentence).rstrip(".")
    lines += [Line(""), *wrapped(answer, width, style="bold"), Line("")]
    if result.variants:
        lines += table_lines(words.VARIANTS_HEAD, words.variant_rows(result), width)
        lines.append(Line(""))
    for label, text in words.sentences(result).items():
        lines += labelled(label, text, width)
    return lines


def measured_storms(run: RunFile, width: int) -> list[Line]:
    """Return what was measured by a search that did not end."""
    rows = [
        [f"{connections:,}", numbers.ms_figure(p50_ms)]
        for connections, p50_ms in words.measured_rows(run)
    ]
    return table_lines(["connections", "connect p50 ms"], rows, width)
