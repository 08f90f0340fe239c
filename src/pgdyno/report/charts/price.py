"""The chart of a price list: gain of each candidate on the x axis, loss in a crash on the y axis.

Loss has a logarithmic scale of milliseconds, and bands for losses without such a figure: nothing
lost below the scale, corrupt above it, not drilled at the bottom. Candidates are shown by number,
so that the chart fits a phone; the table and the list beside it have their names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, NumeralTickFormatter, Range1d
from bokeh.models.annotations import Span
from bokeh.models.text import BaseText
from bokeh.plotting import figure

from pgdyno.price.sentences import decisive, harm
from pgdyno.report import palette
from pgdyno.report.charts.chart import FONT, Chart, Key, plain_figure, tooltip
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import numbers, price_list
from pgdyno.report.words.tables import figures_table
from pgdyno.results.price import NotMeasured, Price
from pgdyno.stats.words import effect_words

# Heights: decades of milliseconds from 0.1 ms at 1 to 100 s at 7, bands below and above.
NOT_DRILLED, NOTHING, LEAST_MS, BROKEN = -1.0, 0.0, 0.1, 8.0
TICKS: dict[float, str] = {
    NOT_DRILLED: "not drilled", NOTHING: "nothing", 1: "0.1 ms", 2: "1 ms", 3: "10 ms",
    4: "100 ms", 5: "1 s", 6: "10 s", 7: "100 s", BROKEN: "broken",
}  # fmt: skip
MARKS = {
    "nothing lost": (palette.GREEN, "circle"),
    "commits lost": (palette.ORANGE, "diamond"),
    "broken or emptied": (palette.RED, "x"),
    "not drilled": (palette.GREY, "inverted_triangle"),
}
"""Colour and marker by the worst outcome of the drills."""
LABEL_PX = 80


@dataclass(frozen=True)
class Point:
    """A candidate in the chart."""

    number: int
    title: str
    gain: float
    lo: float
    hi: float
    height: float
    outcome: str
    """Its entry in the key."""
    loss: str
    """The largest loss in words."""


def price_chart(summary: RunSummary) -> Chart | None:
    """Return the chart of gain and loss; None if no gain was measured."""
    rows = price_list.prices(summary)
    held = summary.price_list is not None and summary.price_list.compared == "latency_p99"
    points = [
        point
        for number, row in enumerate(rows, start=1)
        if (point := _point(number, row, held=held)) is not None
    ]
    if len(points) < 2:
        return None
    what = "p99 at the held rate" if held else "throughput"
    plot = _axes(points)
    _draw(plot, points)
    present = dict.fromkeys(point.outcome for point in points)
    title = f"Gain in {what} (ratio) and largest loss in a crash"
    return Chart(
        id="prices",
        title=title,
        description=_description(points, what, held=held),
        plot=plot,
        table=figures_table(
            title,
            ["Candidate", "gain", "95 % interval", "largest loss in a crash"],
            [
                [f"{p.number}  {p.title}", numbers.times(p.gain), numbers.interval(p.lo, p.hi),
                 p.loss]
                for p in points
            ],
        ),
        key=[Key(f"{_sign(name)} {name}", MARKS[name][0]) for name in MARKS if name in present],
    )  # fmt: skip


def _sign(name: str) -> str:
    """Return the marker as a character, so that the key does not rely on colour alone."""
    return {"circle": "●", "diamond": "◆", "x": "✕"}.get(MARKS[name][1], "▼")


def _point(number: int, row: Price, *, held: bool) -> Point | None:
    gain = row.gain
    if isinstance(gain, NotMeasured):
        return None
    if gain is None:
        ratio, lo, hi = 1.0, 1.0, 1.0
    elif held:
        ratio, (lo, hi) = gain.latency_p99_ratio, gain.latency_p99_ci95
    else:
        ratio, (lo, hi) = gain.throughput_ratio, gain.ci95
    return Point(number, row.title, ratio, lo, hi, *_loss(row))


def _loss(row: Price) -> tuple[float, str, str]:
    """Return the height of a candidate's worst drill in the chart, its entry in the key, and the
    loss in words."""
    drilled = decisive(row.losses)
    if not drilled:
        return NOT_DRILLED, "not drilled", "not drilled"
    broken = sum(loss.corrupt + loss.refused for loss in drilled)
    cuts = sum(loss.happened for loss in drilled)
    if broken:
        words = f"corrupt or refused to start in {broken} of {cuts} cuts"
        return BROKEN, "broken or emptied", words
    worst_ms = max(loss.lost_ms_max or 0.0 for loss in drilled)
    lost = max(loss.lost_max or 0 for loss in drilled)
    if not lost:
        return NOTHING, "nothing lost", f"nothing in {cuts} cuts"
    if harm(row) == "broken":
        return BROKEN, "broken or emptied", f"all {lost:,} commits"
    height = math.log10(max(worst_ms, LEAST_MS)) - math.log10(LEAST_MS) + 1
    return min(height, BROKEN - 0.5), "commits lost", f"{lost:,} commits, {numbers.ms(worst_ms)}"


def _axes(points: Sequence[Point]) -> figure:
    least = min(0.9, *(point.lo for point in points))
    most = max(1.1, *(point.hi for point in points))
    room = (most - least) * 0.08
    plot = plain_figure(
        380,
        x_range=Range1d(start=least - room, end=most + room),
        y_range=Range1d(start=NOT_DRILLED - 0.6, end=BROKEN + 1.3),
    )
    plot.min_border_left = LABEL_PX
    plot.yaxis.ticker = FixedTicker(ticks=[*TICKS])
    plot.ygrid.ticker = FixedTicker(ticks=[*TICKS])
    labels: dict[float | str, str | BaseText] = dict(TICKS.items())
    plot.yaxis.major_label_overrides = labels
    plot.xaxis.formatter = NumeralTickFormatter(format="0.0[0]")
    plot.add_layout(Span(dimension="height", location=1, line_color=palette.GREY, line_width=1.5))
    return plot


def _spread(points: Sequence[Point]) -> list[float]:
    """Return heights at which markers in the same band do not cover each other."""
    heights: list[float] = []
    reach = max(point.hi for point in points) - min(point.lo for point in points) or 1.0
    for index, point in enumerate(points):
        near = [
            heights[other]
            for other in range(index)
            if abs(points[other].gain - point.gain) < 0.06 * reach
        ]
        shift = 0.0
        while any(abs(point.height + shift - taken) < 0.5 for taken in near):
            shift = -shift if shift > 0 else 0.6 - shift
        heights.append(point.height + shift)
    return heights


def _draw(plot: figure, points: Sequence[Point]) -> None:
    source = ColumnDataSource(
        {
            "x": [point.gain for point in points],
            "y": _spread(points),
            "lo": [point.lo for point in points],
            "hi": [point.hi for point in points],
            "colour": [MARKS[point.outcome][0] for point in points],
            "marker": [MARKS[point.outcome][1] for point in points],
            "number": [str(point.number) for point in points],
            "what": [f"{point.number}  {point.title}" for point in points],
            "gain": [effect_words(p.gain, p.lo, p.hi) for p in points],
            "loss": [point.loss for point in points],
        }
    )
    plot.segment("lo", "y", "hi", "y", source=source, line_color="colour", line_width=2)
    marks = plot.scatter("x", "y", source=source, marker="marker", size=12,
                         fill_color="colour", line_color="colour", line_width=2.5)  # fmt: skip
    plot.text("x", "y", text="number", source=source, x_offset=8, y_offset=-5,
              text_font=value(FONT), text_font_size="13px", text_font_style="bold",
              text_color="colour")  # fmt: skip
    tips = tooltip([("candidate", "@what"), ("gain", "@gain"), ("loss in a crash", "@loss")])
    plot.add_tools(HoverTool(renderers=[marks], tooltips=tips))


def _description(points: Sequence[Point], what: str, *, held: bool) -> str:
    """Return how to read the chart, and the best candidate without loss."""
    lossless = [point for point in points if point.outcome == "nothing lost"]
    gaining = [point for point in lossless if (point.hi < 1 if held else point.lo > 1)]
    best = max(gaining, key=lambda point: -point.gain if held else point.gain, default=None)
    gain = "shortens p99 most" if held else "gains most"
    words = f" Of the candidates that lost nothing, {best.number} {gain}." if best else ""
    return (
        f"Further right: more {what}. Further up: larger loss. The numbers are those of the list"
        f" below.{words}"
    )
