"""The view of a search for a pool size: its curves, the answer, what limits it, the settings."""

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
    Terms,
    Text,
    View,
)
from pgdyno.report.words import pool
from pgdyno.report.words.tables import Table, figures_table, point_row

if TYPE_CHECKING:
    from pgdyno.json_types import Row
    from pgdyno.record import RunFile
    from pgdyno.report.charts.chart import Chart
    from pgdyno.report.summary import RunSummary
    from pgdyno.results.pool import Layer, PoolResult

_NAME_WIDTH = 16


def _sections(summary: RunSummary) -> list[Section]:
    result: PoolResult | None = summary.result_of("pool")
    if result is None:
        return []

    def charts() -> list[Chart]:
        from pgdyno.report.charts.searches import pool_charts

        return pool_charts(result)

    parts: list[Part] = [Charts(charts, by_clients=True)]
    for title, rows in pool.layer_rows(result):
        parts += [InTerminal(Text(title, "bold")), BlankLine()] if title else []
        parts.append(InTerminal(figures_table(title, pool.HEAD, rows)))
    parts += [Answer(result.sentence), Terms(pool.sentences(result))]
    if table := pool.settings_table(result):
        parts += [OnPage(table), BlankLine(), InTerminal(_settings(result))]
    return [Section("pool", "Pool size", parts)]


def _settings(result: PoolResult) -> Terms:
    said = {
        each.of: pool.settings_words(each) + (f"   {each.note}" if each.note else "")
        for each in result.settings
    }
    return Terms(said, label_width=_NAME_WIDTH)


def _csv(result: PoolResult) -> Iterator[Row]:
    """Yield one row per pool size; with two layers of pools those of the pooler first."""
    if result.application is None:
        yield from _layer_rows(result, {})
        return
    yield from _layer_rows(result, {"layer": "pooler"})
    yield from _layer_rows(result.application, {"layer": "application"})


def _layer_rows(result: Layer, named: Row) -> Iterator[Row]:
    for point in result.curve:
        yield {
            **named,
            "size": point.size,
            **point_row(point, after_response={"service_ms": point.service_ms}),
            "best": result.best is not None and result.best.size == point.size,
        }


def _measured(run: RunFile) -> Table:
    rows = [
        [f"{size:,}", numbers.tps(tps), numbers.ms_figure(p99_ms)]
        for size, tps, p99_ms in pool.measured_rows(run)
    ]
    return figures_table("Sizes", ["size", "tps", "p99 ms"], rows)


def _measured_rows(run: RunFile) -> Iterator[Row]:
    """Yield one row per slice."""
    for size, tps, p99_ms in pool.measured_rows(run):
        yield {"size": size, "throughput_tps": round(tps, 2), "response_ms_p99": p99_ms}


VIEW = View(
    "pool",
    _sections,
    verdict=attrgetter("sentence"),
    has_several_loads=True,
    rows=_csv,
    measured=_measured,
    measured_rows=_measured_rows,
    source="over the long slice at the end",
    varies="pools",
)
