"""Charts of searches, with intervals: throughput and p99 by clients or rate, and by the size of a
pool."""

from __future__ import annotations

from collections.abc import Sequence

from bokeh.plotting import figure

from pgdyno import numbers
from pgdyno.report import palette
from pgdyno.report.charts._curve import (
    curve_figure,
    draw_limits,
    draw_points,
    latencies,
    mark_answer,
)
from pgdyno.report.charts.chart import Chart, KeyEntry
from pgdyno.report.words import knee, pool
from pgdyno.results.knee import Capacity, CurvePoint, Law
from pgdyno.results.pool import Layer, PoolResult

LAW_POINTS = 80


def capacity_charts(capacity: Capacity | None) -> list[Chart]:
    """Return throughput and p99 by clients or rate; nothing for a curve of one point."""
    if capacity is None or len(capacity.curve) < 2:
        return []
    with_p99 = [point for point in capacity.curve if point.p99_ms is not None]
    charts = [_capacity_throughput(capacity)]
    return [*charts, _capacity_latency(capacity, with_p99)] if len(with_p99) > 1 else charts


def _capacity_throughput(capacity: Capacity) -> Chart:
    plot = curve_figure(capacity.curve)
    key = draw_points(plot, capacity.curve, lambda point: point.tps, lambda point: point.ci95,
                palette.BLUE, "@value{0,0} tps")  # fmt: skip
    law = capacity.law
    if law is not None and law.follows:
        xs, ys = _law_line(capacity, law)
        plot.line(xs, ys, line_color=palette.GREY, line_dash="dashed", line_width=1.5)
        key.append(KeyEntry("Universal Scalability Law, fitted", palette.GREY, "dash"))
    noun = _noun(capacity)
    return Chart(
        id="knee-tps",
        title=f"Throughput by {noun}, transactions per second",
        description=_at_most(capacity),
        plot=plot,
        table=knee.curve_table(capacity),
        key=[KeyEntry("mean", palette.BLUE, "line"), *key, *_mark_knee(plot, capacity)],
    )


def _at_most(capacity: Capacity) -> str:
    """Return the highest point of the curve in a sentence."""
    best = max(capacity.curve, key=lambda point: point.tps)
    rate = best.rate_tps
    at = f"with {best.clients:,} clients" if rate is None else f"at {numbers.tps(rate)}/s"
    return f"At most {numbers.tps(best.tps)} per second, {at}."


def _capacity_latency(capacity: Capacity, points: Sequence[CurvePoint]) -> Chart:
    plot = curve_figure(capacity.curve, y_axis_type="log", y_range=latencies(points))
    key = draw_points(plot, points, lambda point: point.p99_ms or 0.0,
                      lambda point: point.p99_ms_ci95, palette.ORANGE,
                      "@value{0,0.[00]} ms")  # fmt: skip
    key += draw_limits(plot, capacity.slo)
    return Chart(
        id="knee-p99",
        title=f"Response time p99 by {_noun(capacity)}, milliseconds",
        description=f"p99 is {numbers.ms(points[0].p99_ms)} at the lowest point and"
        f" {numbers.ms(points[-1].p99_ms)} at the highest.",
        plot=plot,
        table=knee.curve_table(capacity),
        key=[KeyEntry("p99", palette.ORANGE, "line"), *key, *_mark_knee(plot, capacity)],
    )


def _noun(capacity: Capacity) -> str:
    return "number of clients" if capacity.varied == "clients" else "rate"


def _law_line(capacity: Capacity, law: Law) -> tuple[list[float], list[float]]:
    """Return the law's curve over the range measured."""
    low, high = capacity.curve[0].clients, capacity.curve[-1].clients
    xs = [low * (high / low) ** (step / LAW_POINTS) for step in range(LAW_POINTS + 1)]
    sigma, kappa = law.contention or 0.0, law.coherence or 0.0
    single = law.single_tps or 0.0
    return xs, [single * n / (1 + sigma * (n - 1) + kappa * n * (n - 1)) for n in xs]


def _mark_knee(plot: figure, capacity: Capacity) -> list[KeyEntry]:
    """Draw the answer and its interval behind the data; return their keys."""
    knee = capacity.knee
    if knee is None:
        return []
    name = "knee" if knee.clients is not None else "highest rate"
    return mark_answer(plot, name, knee.rate_tps or knee.clients or 0, knee.clients_ci95)


def pool_charts(result: PoolResult | None) -> list[Chart]:
    """Return throughput and p99 by pool size, and those of pools in front of a pooler; nothing for
    a curve of one point."""
    if result is None:
        return []
    charts = _layer_charts(result, result.slo, "pool", "pool size")
    if (application := result.application) is not None:
        of = pool.application_title(application)
        charts += _layer_charts(application, result.slo, "pool-application", f"size of {of}")
    return charts


def _layer_charts(layer: Layer, slo: Sequence[str], name: str, size: str) -> list[Chart]:
    if len(layer.curve) < 2:
        return []
    with_p99 = [point for point in layer.curve if point.p99_ms is not None]
    charts = [_pool_throughput(layer, slo, name, size)]
    return [*charts, _pool_latency(layer, slo, name, size)] if len(with_p99) > 1 else charts


def _pool_throughput(result: Layer, slo: Sequence[str], name: str, size: str) -> Chart:
    plot = curve_figure(result.curve)
    key = draw_points(plot, result.curve, lambda point: point.tps, lambda point: point.ci95,
                      palette.BLUE, "@value{0,0} tps")  # fmt: skip
    best = max(result.curve, key=lambda point: point.tps)
    return Chart(
        id=f"{name}-tps",
        title=f"Throughput by {size}, transactions per second",
        description=f"At most {numbers.tps(best.tps)} per second, with {best.size:,} connections.",
        plot=plot,
        table=pool.curve_table(result, slo),
        key=[KeyEntry("mean", palette.BLUE, "line"), *key, *_mark_best(plot, result)],
    )


def _pool_latency(result: Layer, slo: Sequence[str], name: str, size: str) -> Chart:
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
        table=pool.curve_table(result, slo),
        key=[KeyEntry("p99", palette.ORANGE, "line"), *key, *_mark_best(plot, result)],
    )


def _mark_best(plot: figure, result: Layer) -> list[KeyEntry]:
    best = result.best
    return [] if best is None else mark_answer(plot, "best size", best.size, best.size_ci95)
