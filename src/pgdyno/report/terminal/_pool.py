"""The lines of a terminal summary about the size of a connection pool."""

from __future__ import annotations

from pgdyno.record import RunFile
from pgdyno.report.terminal._lines import Line, labelled, table_lines, wrapped
from pgdyno.report.words import numbers
from pgdyno.report.words import pool as words
from pgdyno.results.pool import PoolResult

NAME_WIDTH = 16


def pool_lines(result: PoolResult, width: int) -> list[Line]:
    """Return the curve, the answer, what is said of it, and the settings."""
    lines = []
    for title, rows in words.layer_rows(result):
        lines += [Line(title, "bold"), Line("")] if title else []
        lines += [*table_lines(words.HEAD, rows, width), Line("")]
    answer = numbers.sentence(result.sentence).rstrip(".")
    lines += [*wrapped(answer, width, style="bold"), Line("")]
    for label, text in words.sentences(result).items():
        lines += labelled(label, text, width)
    return [*lines, Line(""), *_settings_lines(result, width)]


def _settings_lines(result: PoolResult, width: int) -> list[Line]:
    lines = []
    for each in result.settings:
        note = f"   {each.note}" if each.note else ""
        text = f"{words.settings_words(each)}{note}"
        lines += labelled(each.of, text, width, label_width=NAME_WIDTH)
    return lines


def measured_sizes(run: RunFile, width: int) -> list[Line]:
    """Return what was measured by a search that did not end."""
    rows = [
        [f"{size:,}", numbers.tps(tps), numbers.ms_figure(p99_ms)]
        for size, tps, p99_ms in words.measured_rows(run)
    ]
    return table_lines(["size", "tps", "p99 ms"], rows, width)
