"""The lines of a terminal summary about how much a server takes."""

from __future__ import annotations

from pgdyno.record import RunFile
from pgdyno.report.terminal._lines import Line, labelled, table_lines, wrapped
from pgdyno.report.words import knee as words
from pgdyno.report.words import numbers
from pgdyno.results.knee import Capacity


def capacity_lines(capacity: Capacity, width: int) -> list[Line]:
    """Return the curve, the answer, and what is said of it."""
    lines = table_lines(words.head(capacity), words.rows(capacity), width)
    for label, text in words.sentences(capacity).items():
        style = "yellow" if label == "limit" and capacity.limit.finding else ""
        lines += labelled(label, text, width, style=style)
    answer = wrapped(numbers.sentence(capacity.sentence).rstrip("."), width, style="bold")
    return [*lines[: len(capacity.curve) + 1], Line(""), *answer, Line(""),
            *lines[len(capacity.curve) + 1 :]]  # fmt: skip


def measured_lines(run: RunFile, width: int) -> list[Line]:
    """Return what was measured by a search that did not end."""
    measured = words.measured_rows(run)
    by_rate = any(rate is not None for _, rate, _, _ in measured)
    rows = [
        [numbers.tps(rate) if by_rate else numbers.count(clients), numbers.tps(tps),
         numbers.ms_figure(p99_ms)]
        for clients, rate, tps, p99_ms in measured
    ]  # fmt: skip
    return table_lines(["rate/s" if by_rate else "clients", "tps", "p99 ms"], rows, width)
