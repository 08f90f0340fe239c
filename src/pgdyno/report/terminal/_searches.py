"""The lines of a terminal summary about what was searched for: how much a server takes, the size of
a connection pool, the largest storm of connections."""

from __future__ import annotations

from pgdyno import numbers
from pgdyno.record import RunFile
from pgdyno.report.terminal._lines import (
    Line,
    answer_lines,
    labelled,
    labelled_sentences,
    table_lines,
    wrapped,
)
from pgdyno.report.words import knee, pool, prose, storm
from pgdyno.results.knee import Capacity
from pgdyno.results.pool import PoolResult
from pgdyno.results.storm import StormResult


def capacity_lines(capacity: Capacity, width: int) -> list[Line]:
    """Return the curve, the answer, and what is said of it."""
    lines = table_lines(knee.head(capacity), knee.rows(capacity), width)
    for label, text in knee.sentences(capacity).items():
        style = "yellow" if label == "limit" and capacity.limit.finding else ""
        lines += labelled(label, text, width, style=style)
    table_end = len(capacity.curve) + 1
    answer = answer_lines(capacity.sentence, width)
    return [*lines[:table_end], *answer, *lines[table_end:]]


def measured_lines(run: RunFile, width: int) -> list[Line]:
    """Return what was measured by a search that did not end."""
    measured = knee.measured_rows(run)
    by_rate = any(rate is not None for _, rate, _, _ in measured)
    rows = [
        [numbers.tps(rate) if by_rate else numbers.count(clients), numbers.tps(tps),
         numbers.ms_figure(p99_ms)]
        for clients, rate, tps, p99_ms in measured
    ]  # fmt: skip
    return table_lines(["rate/s" if by_rate else "clients", "tps", "p99 ms"], rows, width)


NAME_WIDTH = 16


def pool_lines(result: PoolResult, width: int) -> list[Line]:
    """Return the curve, the answer, what is said of it, and the settings."""
    lines = []
    for title, rows in pool.layer_rows(result):
        lines += [Line(title, "bold"), Line("")] if title else []
        lines += [*table_lines(pool.HEAD, rows, width), Line("")]
    answer = prose.sentence(result.sentence).rstrip(".")
    lines += [*wrapped(answer, width, style="bold"), Line("")]
    lines += labelled_sentences(pool.sentences(result), width)
    return [*lines, Line(""), *_settings_lines(result, width)]


def _settings_lines(result: PoolResult, width: int) -> list[Line]:
    lines = []
    for each in result.settings:
        note = f"   {each.note}" if each.note else ""
        text = f"{pool.settings_words(each)}{note}"
        lines += labelled(each.of, text, width, label_width=NAME_WIDTH)
    return lines


def measured_sizes(run: RunFile, width: int) -> list[Line]:
    """Return what was measured by a search that did not end."""
    rows = [
        [f"{size:,}", numbers.tps(tps), numbers.ms_figure(p99_ms)]
        for size, tps, p99_ms in pool.measured_rows(run)
    ]
    return table_lines(["size", "tps", "p99 ms"], rows, width)


def storm_lines(result: StormResult, width: int) -> list[Line]:
    """Return the storms, the answer, errors by cause, and what would change it."""
    lines = table_lines(storm.HEAD, storm.rows(result), width)
    lines += answer_lines(result.sentence, width)
    if result.variants:
        lines += table_lines(storm.VARIANTS_HEAD, storm.variant_rows(result), width)
        lines.append(Line(""))
    return lines + labelled_sentences(storm.sentences(result), width)


def measured_storms(run: RunFile, width: int) -> list[Line]:
    """Return what was measured by a search that did not end."""
    rows = [
        [f"{connections:,}", numbers.ms_figure(p50_ms)]
        for connections, p50_ms in storm.measured_rows(run)
    ]
    return table_lines(["connections", "connect p50 ms"], rows, width)
