"""Charts of a search for a pool size: throughput and p99 by size, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from bokeh.plotting import figure

from pgdyno.report import palette
from pgdyno.report.charts._curve import (
    curve_figure,
    draw_limits,
    draw_points,
    latencies,
    mark_answer,
)
from pgdyno.report.charts.chart import Chart, Key
from pgdyno.report.words import numbers
from pgdyno.report.words import pool as words
from pgdyno.report.words.pool import Layer
from pgdyno.results.pool import PoolResult


def pool_charts(result: PoolResult | None) -> list[Chart]:
    """Return throughput and p99 by pool size, and those of pools in front of a pooler; nothing for
    a curve of one point."""
    if result is None:
        return []
    charts = _layer_charts(result, result.slo, "pool", "pool size")
    if (application := result.application) is not None:
        of = words.application_title(application)
        charts += _layer_charts(application, result.slo, "pool-application", f"size of {of}")
    return charts


def _layer_charts(layer: Layer, slo: Sequence[str], name: str, size: str) -> list[Chart]:
    if len(layer.curve) < 2:
        return []
    with_p99 = [point for point in layer.curve if point.p99_ms is not None]
    charts = [_throughput(layer, slo, name, size)]
    return [*charts, _latency(layer, slo, name, size)] if len(with_p99) > 1 else charts


def _throughput(result: Layer, slo: Sequence[str], name: str, size: str) -> Chart:
    plot = curve_figure(result.curve)
    key = draw_points(plot, result.curve, lambda point: point.tps, lambda point: point.ci95,
                      palette.BLUE, "@value{0,0} tps")  # fmt: skip
    best = max(result.curve, key=lambda point: point.tps)
    return Chart(
        id=f"{name}-tps",
        title=f"Throughput by {size}, transactions per second",
        description=f"At most {numbers.tps(best.tps)} per second, with {best.size:,} connections.",
        plot=plot,
        table=words.curve_table(result, slo),
        key=[Key("mean", palette.BLUE, "line"), *key, *_mark_best(plot, result)],
    )


def _latency(result: Layer, slo: Sequence[str], name: str, size: str) -> Chart:
    points = [point for point in result.curve if point.p99_ms is not None]
    plot = curve_figure(points, y_axis_type="log", y_range=latencies(points))
    key = draw_points(plot, points, lambda point: point.p99_ms or 0.0,
                      lambda point: point.p99_ms_ci95, palette.ORANGE,
                      "@value{0,0.[00]} ms")  # fmt: skip
    key += draw_limits(plot, slo)
    return Chart(
        id=f"{name}-p99",
        title=f"Response time p99 by {size}, milliseconds",
        description=f"p99 is {numbers.ms(points[0].p99_ms)} with the smallest pool and"
        f" {numbers.ms(points[-1].p99_ms)} with the largest.",
        plot=plot,
        table=words.curve_table(result, slo),
        key=[Key("p99", palette.ORANGE, "line"), *key, *_mark_best(plot, result)],
    )


def _mark_best(plot: figure, result: Layer) -> list[Key]:
    best = result.best
    return [] if best is None else mark_answer(plot, "best size", best.size, best.size_ci95)
