"""The chart of a price list: what each candidate gains, to the right, against what a crash takes,
upwards.

Loss is on a logarithmic scale of milliseconds between bands for what has no such figure: nothing
lost below, corrupt above, not drilled at the very bottom. Candidates have numbers, not names, so
that the chart fits a phone; the numbers' names are in the table and the list beside it.
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
from pgdyno.report.charts.chart import FONT, Chart, Key, plain_figure, tip
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import numbers, price_list
from pgdyno.report.words.tables import figures_table
from pgdyno.results.price import NotMeasured, Price, PriceResult
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
"""What the drills saw: colour and marker."""
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
    seen: str
    says: str


def price_chart(story: RunSummary) -> Chart | None:
    """Gain against loss; None when no gain was measured."""
    result = story.result
    held = isinstance(result, PriceResult) and result.compared == "latency_p99"
    points = [
        point
        for number, price in enumerate(price_list.prices(story), start=1)
        if (point := _point(number, price, held=held)) is not None
    ]
    if len(points) < 2:
        return None
    what = "p99 at the held rate" if held else "throughput"
    plot = _axes(points)
    _draw(plot, points)
    present = dict.fromkeys(point.seen for point in points)
    title = f"Gain in {what}, times, against the most that a crash took"
    return Chart(
        id="prices",
        title=title,
        says=_says(points, what, held=held),
        plot=plot,
        table=figures_table(
            title,
            ["Candidate", "gain", "95 % interval", "most that a crash took"],
            [
                [f"{p.number}  {p.title}", numbers.times(p.gain), numbers.interval(p.lo, p.hi),
                 p.says]
                for p in points
            ],
        ),
        key=[Key(f"{_sign(name)} {name}", MARKS[name][0]) for name in MARKS if name in present],
    )  # fmt: skip


def _sign(name: str) -> str:
    """The marker as a letter, so that the key does not speak by colour alone."""
    return {"circle": "●", "diamond": "◆", "x": "✕"}.get(MARKS[name][1], "▼")


def _point(number: int, price: Price, *, held: bool) -> Point | None:
    gain = price.gain
    if gain is None:
        ratio, lo, hi = 1.0, 1.0, 1.0
    elif isinstance(gain, NotMeasured):
        return None
    elif held:
        ratio, (lo, hi) = gain.latency_p99_ratio, gain.latency_p99_ci95
    else:
        ratio, (lo, hi) = gain.throughput_ratio, gain.ci95
    height, seen, says = _loss(price)
    return Point(number, price.title, ratio, lo, hi, height, seen, says)


def _loss(price: Price) -> tuple[float, str, str]:
    """How high the worst of a candidate's drills stands, what it is called and what it took."""
    drilled = decisive(price.losses)
    if not drilled:
        return NOT_DRILLED, "not drilled", "not drilled"
    broken = sum(loss.corrupt + loss.refused for loss in drilled)
    cuts = sum(loss.happened for loss in drilled)
    if broken:
        said = f"corrupt or refused in {broken} of {cuts} cuts"
        return BROKEN, "broken or emptied", said
    worst_ms = max(loss.lost_ms_max or 0.0 for loss in drilled)
    lost = max(loss.lost_max or 0 for loss in drilled)
    if not lost:
        return NOTHING, "nothing lost", f"nothing in {cuts} cuts"
    if harm(price) == "broken":
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
    """Heights with neighbours drawn apart, so that markers in one band do not hide each other."""
    heights: list[float] = []
    reach = max(point.hi for point in points) - min(point.lo for point in points) or 1.0
    for place, point in enumerate(points):
        near = [
            heights[other]
            for other in range(place)
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
            "colour": [MARKS[point.seen][0] for point in points],
            "marker": [MARKS[point.seen][1] for point in points],
            "number": [str(point.number) for point in points],
            "what": [f"{point.number}  {point.title}" for point in points],
            "gain": [effect_words(p.gain, p.lo, p.hi) for p in points],
            "took": [point.says for point in points],
        }
    )
    plot.segment("lo", "y", "hi", "y", source=source, line_color="colour", line_width=2)
    marks = plot.scatter("x", "y", source=source, marker="marker", size=12,
                         fill_color="colour", line_color="colour", line_width=2.5)  # fmt: skip
    plot.text("x", "y", text="number", source=source, x_offset=8, y_offset=-5,
              text_font=value(FONT), text_font_size="13px", text_font_style="bold",
              text_color="colour")  # fmt: skip
    tips = tip([("candidate", "@what"), ("gain", "@gain"), ("a crash took", "@took")])
    plot.add_tools(HoverTool(renderers=[marks], tooltips=tips))


def _says(points: Sequence[Point], what: str, *, held: bool) -> str:
    """How to read it; of a p99 less is better."""
    lossless = [point for point in points if point.seen == "nothing lost"]
    gaining = [point for point in lossless if (point.hi < 1 if held else point.lo > 1)]
    best = max(gaining, key=lambda point: -point.gain if held else point.gain, default=None)
    side = "farthest to the left" if held else "farthest"
    said = f"; of those that lost nothing, {best.number} is {side}" if best else ""
    return (
        f"To the right: more {what}. Upwards: more was lost. The numbers are those of the list"
        f" below{said}."
    )
