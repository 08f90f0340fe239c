"""Charts of how much a server takes: throughput and p99 by clients or rate, with intervals."""

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
from pgdyno.report.words import knee as words
from pgdyno.report.words import numbers
from pgdyno.results.knee import Capacity, CurvePoint, Law

LAW_POINTS = 80


def capacity_charts(capacity: Capacity | None) -> list[Chart]:
    """Return throughput and p99 by clients or rate; nothing for a curve of one point."""
    if capacity is None or len(capacity.curve) < 2:
        return []
    with_p99 = [point for point in capacity.curve if point.p99_ms is not None]
    charts = [_throughput(capacity)]
    return [*charts, _latency(capacity, with_p99)] if len(with_p99) > 1 else charts


def _throughput(capacity: Capacity) -> Chart:
    plot = curve_figure(capacity.curve)
    key = draw_points(plot, capacity.curve, lambda point: point.tps, lambda point: point.ci95,
                palette.BLUE, "@value{0,0} tps")  # fmt: skip
    law = capacity.law
    if law is not None and law.follows:
        xs, ys = _law_line(capacity, law)
        plot.line(xs, ys, line_color=palette.GREY, line_dash="dashed", line_width=1.5)
        key.append(Key("Universal Scalability Law, fitted", palette.GREY, "dash"))
    noun = _noun(capacity)
    return Chart(
        id="knee-tps",
        title=f"Throughput by {noun}, transactions per second",
        description=_at_most(capacity),
        plot=plot,
        table=words.curve_table(capacity),
        key=[Key("mean", palette.BLUE, "line"), *key, *_mark_knee(plot, capacity)],
    )


def _at_most(capacity: Capacity) -> str:
    """Return the highest point of the curve in a sentence."""
    best = max(capacity.curve, key=lambda point: point.tps)
    rate = best.rate_tps
    at = f"with {best.clients:,} clients" if rate is None else f"at {numbers.tps(rate)}/s"
    return f"At most {numbers.tps(best.tps)} per second, {at}."


def _latency(capacity: Capacity, points: Sequence[CurvePoint]) -> Chart:
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
        table=words.curve_table(capacity),
        key=[Key("p99", palette.ORANGE, "line"), *key, *_mark_knee(plot, capacity)],
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


def _mark_knee(plot: figure, capacity: Capacity) -> list[Key]:
    """Draw the answer and its interval behind the data; return their keys."""
    knee = capacity.knee
    if knee is None:
        return []
    name = "knee" if knee.clients is not None else "highest rate"
    return mark_answer(plot, name, knee.rate_tps or knee.clients or 0, knee.clients_ci95)
