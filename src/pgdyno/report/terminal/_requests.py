"""Requests by HTTP in a summary, and what stands between clients and server."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno._engine import Histogram
from pgdyno.record import HttpTotal, RunFile
from pgdyno.report.terminal._lines import Line, labelled
from pgdyno.report.words import numbers
from pgdyno.report.words.front import run_words
from pgdyno.report.words.pooler import queue_words

_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")


def between_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
    """Return a line for each program of pgdyno's between clients and server: pooler, front end."""
    of_pooler = labelled("pooler", queue_words(run, ids), width)
    return [*of_pooler, *labelled("web", run_words(run, ids), width)]


def request_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
    """Return a line for each client group that sends requests."""
    totals = run.http_totals(ids)
    lines = []
    for number, total in enumerate(totals):
        words = "; ".join(_words(total, _first_bytes(run, ids, total.client_group)))
        text = f"{total.client_group}: {words}" if len(totals) > 1 else words
        lines += labelled("" if number else "requests", text, width)
    return lines


def _words(total: HttpTotal, first_byte: Histogram) -> Iterator[str]:
    answered = [(name, getattr(total, f"status_{name}")) for name in _CLASSES]
    listed = ", ".join(f"{numbers.count(count)} {name}" for name, count in answered if count)
    yield f"{numbers.count(total.requests)} sent, {listed or 'none answered'}"
    fresh = total.requests - total.reused
    if fresh:
        yield f"{total.requests / fresh:.3g} per connection"
    if total.closed_by_server:
        yield f"{numbers.count(total.closed_by_server)} connections closed by the server"
    if total.redirected:
        yield f"{numbers.count(total.redirected)} redirected"
    yield f"{_megabytes(total.sent_bytes)} sent, {_megabytes(total.received_bytes)} received"
    if first_byte.count:
        p50, p99 = (numbers.ms(first_byte.percentile(p) / 1e6) for p in (50, 99))
        yield f"first byte after p50 {p50}, p99 {p99}"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _first_bytes(run: RunFile, ids: list[int] | None, group: str) -> Histogram:
    merged = Histogram()
    for total in run.statements(ids):
        if total.client_group == group and total.first_byte is not None:
            merged.add(total.first_byte)
    return merged
