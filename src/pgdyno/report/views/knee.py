"""The view of a server's capacity: its curve, the answer, what limits it, and whether it lasts."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.report.view import (
    Answer,
    BlankLine,
    Charts,
    InTerminal,
    OnPage,
    Part,
    Section,
    Term,
    Terms,
    View,
)
from pgdyno.report.words import knee
from pgdyno.report.words.findings import verdict_words
from pgdyno.report.words.tables import Table, figures_table, point_row

if TYPE_CHECKING:
    from pgdyno.json_types import Row
    from pgdyno.record import RunFile
    from pgdyno.report.charts.chart import Chart
    from pgdyno.report.summary import RunSummary
    from pgdyno.results.knee import Capacity, KneeResult

_COMMAND = "knee"


def _sections(summary: RunSummary) -> list[Section]:
    capacity: Capacity | None = summary.result_of(_COMMAND) or summary.part("capacity")
    if capacity is None:
        return []

    def charts() -> list[Chart]:
        from pgdyno.report.charts.searches import capacity_charts

        return capacity_charts(capacity)

    said = knee.sentences(capacity)
    parts: list[Part] = [Charts(charts, by_clients=True)]
    if summary.info.command == _COMMAND:
        style = "yellow" if capacity.limit.finding else ""
        terms = [Term(each, text, style if each == "limit" else "") for each, text in said.items()]
        curve = InTerminal(knee.curve_table(capacity))
        parts += [curve, Answer(capacity.sentence), Terms(terms)]
    else:  # the headline is of something else
        limit = Term("", verdict_words(capacity.limit))
        parts += [BlankLine(), InTerminal(Terms([Term("capacity", capacity.sentence), limit]))]
        parts.append(OnPage(Terms({"answer": capacity.sentence, **said})))
    return [Section("capacity", "How much it takes", parts)]


def _csv(result: KneeResult) -> Iterator[Row]:
    """Yield one row per point of the curve."""
    for point in result.curve:
        yield {
            "clients": point.clients,
            "rate_tps": point.rate_tps,
            **point_row(point),
            "knee": knee.is_knee(result, point),
        }


def _measured(run: RunFile) -> Table:
    measured = knee.measured_rows(run)
    by_rate = any(rate is not None for _, rate, _, _ in measured)
    rows = [
        [
            numbers.tps(rate) if by_rate else numbers.count(clients),
            numbers.tps(tps),
            numbers.ms_figure(p99_ms),
        ]
        for clients, rate, tps, p99_ms in measured
    ]
    return figures_table("Points", ["rate/s" if by_rate else "clients", "tps", "p99 ms"], rows)


def _measured_rows(run: RunFile) -> Iterator[Row]:
    """Yield one row per slice."""
    for clients, rate, tps, p99_ms in knee.measured_rows(run):
        yield {
            "clients": clients,
            "rate_tps": rate,
            "throughput_tps": round(tps, 2),
            "response_ms_p99": p99_ms,
        }


VIEW = View(
    _COMMAND,
    _sections,
    verdict=attrgetter("sentence"),
    has_several_loads=True,
    rows=_csv,
    measured=_measured,
    measured_rows=_measured_rows,
    source="over the long slice at the end",
    varies="clients",
)
