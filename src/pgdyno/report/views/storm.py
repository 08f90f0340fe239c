"""The view of storms: each one, the largest that is survived, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.report.view import Answer, Charts, Part, Section, Terms, View
from pgdyno.report.words import storm
from pgdyno.report.words.tables import Table, figures_table

if TYPE_CHECKING:
    from pgdyno.json_types import Row
    from pgdyno.record import RunFile
    from pgdyno.report.charts.chart import Chart
    from pgdyno.report.summary import RunSummary
    from pgdyno.results.storm import StormResult


def _sections(summary: RunSummary) -> list[Section]:
    result: StormResult | None = summary.result_of("storm")
    if result is None:
        return []

    def charts() -> list[Chart]:
        from pgdyno.report.charts.storm import storm_charts

        return storm_charts(result)

    first, *others = storm.tables(result)
    parts: list[Part] = [
        Charts(charts, by_clients=True),
        first,
        Answer(result.sentence),
        *others,
        Terms(storm.sentences(result)),
    ]
    return [Section("storm", "Storms", parts)]


def _csv(result: StormResult) -> Iterator[Row]:
    """Yield one row per storm of the search."""
    for point in result.points:
        yield {
            "shape": result.shape,
            "clients": point.clients,
            "survived": point.survived,
            "steady_s": point.steady_s,
            "connected": point.connected,
            "connect_ms_p50": point.connect_ms_p50,
            "connect_ms_p99": point.connect_ms_p99,
            "errors": sum(each.count for each in point.errors),
            "sqlstate": point.errors[0].sqlstate if point.errors else "",
            "why": point.why,
        }


def _measured(run: RunFile) -> Table:
    rows = [
        [f"{connections:,}", numbers.ms_figure(p50_ms)]
        for connections, p50_ms in storm.measured_rows(run)
    ]
    return figures_table("Storms", ["connections", "connect p50 ms"], rows)


def _measured_rows(run: RunFile) -> Iterator[Row]:
    for connections, p50_ms in storm.measured_rows(run):
        yield {"connections": connections, "connect_ms_p50": p50_ms}


VIEW = View(
    "storm",
    _sections,
    verdict=attrgetter("sentence"),
    has_several_loads=True,
    rows=_csv,
    measured=_measured,
    measured_rows=_measured_rows,
    varies="clients",
)
