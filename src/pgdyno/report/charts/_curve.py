"""Curves over something that a search varied: means with intervals, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bokeh.models import (
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.models.annotations import TeeHead, Whisker
from bokeh.plotting import figure

from pgdyno.report import palette
from pgdyno.report.charts.chart import KeyEntry, plain_figure, tooltip
from pgdyno.results.knee import CurvePoint
from pgdyno.results.pool import SizePoint
from pgdyno.spec.units import parse_duration_ms

MARGIN = 1.15
"""Room left and right of the outermost points, as a ratio."""
WIDEST = 1.5
"""Ratio to the highest mean beyond which the ends of intervals are not shown."""
Point = CurvePoint | SizePoint


def varied(point: Point) -> float:
    """Return the varied quantity: clients, rate or pool size."""
    if isinstance(point, SizePoint):
        return point.size
    return point.clients if point.rate_tps is None else point.rate_tps


def curve_figure(points: Sequence[Point], **axes: Any) -> figure:
    """Return an empty figure with a logarithmic axis of what was varied."""
    xs = [varied(point) for point in points]
    axes = axes or {"y_range": Range1d(start=0, end=_highest(points))}
    x_range = Range1d(start=min(xs) / MARGIN, end=max(xs) * MARGIN)
    plot = plain_figure(280, x_axis_type="log", x_range=x_range, **axes)
    plot.xaxis.ticker = FixedTicker(ticks=apart(xs))
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
    return plot


def _highest(points: Sequence[Point]) -> float:
    """Return the end of the axis of throughput: intervals fit, unless they are very wide."""
    means = max(point.tps for point in points)
    tops = max(point.ci95[1] if point.ci95 else point.tps for point in points)
    return 1.06 * min(tops, WIDEST * means)


def latencies(points: Sequence[Point]) -> Range1d:
    """Return the range of a logarithmic axis of p99, as ``_highest`` that of throughput."""
    values = [point.p99_ms or 0.0 for point in points]
    known = [point.p99_ms_ci95 for point in points if point.p99_ms_ci95]
    lowest = min((low for low, _ in known), default=min(values))
    highest = max((high for _, high in known), default=max(values))
    start = max(min(lowest, *values), min(values) / WIDEST**2)
    end = min(max(highest, *values), max(values) * WIDEST**2)
    return Range1d(start=start / MARGIN, end=end * MARGIN)


def apart(xs: Sequence[float]) -> list[float]:
    """Return those of the ascending values that leave room for their labels."""
    kept: list[float] = []
    for x in xs:
        if not kept or x / kept[-1] >= (xs[-1] / xs[0]) ** (1 / 12):
            kept.append(x)
    return kept


def draw_points(
    plot: figure,
    points: Sequence[Point],
    value: Callable[[Point], float],
    bounds: Callable[[Point], tuple[float, float] | None],
    colour: str,
    shown: str,
) -> list[KeyEntry]:
    """Draw the points with their intervals; return the key of the intervals."""
    data = {"x": [varied(point) for point in points], "value": [value(point) for point in points]}
    source = ColumnDataSource(data)
    known = [(point, found) for point in points if (found := bounds(point)) is not None]
    if known:
        reach = {
            "x": [varied(point) for point, _ in known],
            "lower": [low for _, (low, _) in known],
            "upper": [high for _, (_, high) in known],
        }
        head = TeeHead(size=6, line_color=colour, line_alpha=0.6)
        plot.add_layout(
            Whisker(
                base="x", lower="lower", upper="upper", source=ColumnDataSource(reach),
                line_color=colour, line_alpha=0.6, lower_head=head, upper_head=head,
            )
        )  # fmt: skip
    line = plot.line("x", "value", source=source, line_color=colour, line_width=2)
    plot.scatter("x", "value", source=source, size=6, color=colour)
    plot.add_tools(
        HoverTool(renderers=[line], mode="vline", line_policy="nearest",
                  tooltips=tooltip([("at", "@x{0,0.[00]}"), ("mean", shown)]))
    )  # fmt: skip
    return [KeyEntry("95 % interval", colour, "line")] if known else []


def draw_limits(plot: figure, limits: Sequence[str]) -> list[KeyEntry]:
    """Draw the limits of p99; return their keys."""
    key = []
    for limit in limits:
        figure_name, _, most = limit.split()
        if figure_name == "p99":
            plot.hspan([parse_duration_ms(most)], line_color=palette.RED, line_dash="dashed")
            key.append(KeyEntry(f"limit {limit}", palette.RED, "dash"))
    return key


def mark_answer(
    plot: figure, name: str, at: float, bounds: tuple[float, float] | None
) -> list[KeyEntry]:
    """Draw the answer and its interval behind the data; return their keys."""
    line = plot.vspan([float(at)], line_color=palette.RED, line_width=1.8)
    line.level = "underlay"
    key = [KeyEntry(name, palette.RED, "line")]
    if bounds and bounds[0] < bounds[1]:
        low, high = bounds
        band = plot.vstrip([low], [high], fill_color=palette.RED, fill_alpha=0.12, line_color=None)
        band.level = "underlay"
        key.append(KeyEntry("its 95 % interval", palette.RED, "shade"))
    return key
