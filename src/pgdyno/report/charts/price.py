"""The chart of a price list: gain of each candidate on the x axis, loss in a crash on the y axis.

Loss has a logarithmic scale of milliseconds, and bands for losses without such a figure: nothing
lost below the scale, broken above it, not drilled at the bottom. A band is as high as the
candidates in it need; on the scale, heights are exact. Candidates are shown by number,
so that the chart fits a phone; the table and the list beside it have their names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, NumeralTickFormatter, Range1d
from bokeh.models.annotations import Span
from bokeh.models.text import BaseText
from bokeh.plotting import figure
from msgspec import Struct
from msgspec.structs import replace

from pgdyno import numbers
from pgdyno.price.sentences import decisive, harm
from pgdyno.report import palette
from pgdyno.report.charts.chart import FONT, Chart, KeyEntry, plain_figure, tooltip
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import price_list
from pgdyno.report.words.tables import figures_table
from pgdyno.results.price import NotMeasured, Price

LEAST_MS = 0.1
# Heights on the scale: decades of milliseconds, from 0.1 ms at 1 to 100 s at 7.
SCALE_TOP, SCALE_BOTTOM = 7.5, 0.5
TICKS: dict[float, str] = {
    1: "0.1 ms", 2: "1 ms", 3: "10 ms", 4: "100 ms", 5: "1 s", 6: "10 s", 7: "100 s",
}  # fmt: skip
LEVEL = 0.55
"""Distance of two candidates in the same band whose intervals overlap."""
UNIT_PX = 33
NUMBER_OFFSETS_PX = (-5, 18, -18, 31)
"""Vertical offsets of the numbers of candidates that are close to each other on the scale."""
Outcome = Literal["nothing lost", "commits lost", "broken or emptied", "not drilled"]
MARKS: dict[Outcome, tuple[str, str]] = {
    "nothing lost": (palette.GREEN, "circle"),
    "commits lost": (palette.ORANGE, "diamond"),
    "broken or emptied": (palette.RED, "x"),
    "not drilled": (palette.GREY, "inverted_triangle"),
}
"""Colour and marker by the worst outcome of the drills."""
LABEL_PX = 80


class Point(Struct, frozen=True):
    """A candidate in the chart."""

    number: int
    title: str
    gain: float
    lo: float
    hi: float
    outcome: Outcome
    """Its entry in the key."""
    lost_ms: float | None
    """The oldest lost commit; None if it is in a band."""
    loss: str
    """The largest loss in words."""


def price_chart(summary: RunSummary) -> Chart | None:
    """Return the chart of gain and loss; None if no gain was measured."""
    rows = price_list.prices(summary)
    result = price_list.result_of(summary)
    held = result is not None and result.compared == "latency_p99"
    points = [
        point
        for number, row in enumerate(rows, start=1)
        if (point := _point(number, row, held=held)) is not None
    ]
    if len(points) < 2:
        return None
    what = "p99 at the held rate" if held else "throughput"
    bands = _bands(points)
    plot = _axes(points, bands)
    _draw(plot, points, bands)
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
                [f"{p.number}  {p.title}", numbers.ratio(p.gain), numbers.interval(p.lo, p.hi),
                 p.loss]
                for p in points
            ],
        ),
        key=[
            KeyEntry(f"{_sign(name)} {name}", colour)
            for name, (colour, *_) in MARKS.items()
            if name in present
        ],
    )  # fmt: skip


def _sign(name: Outcome) -> str:
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


def _loss(row: Price) -> tuple[Outcome, float | None, str]:
    """Return the entry in the key of a candidate's worst drill, the age of its oldest lost commit
    if it is on the scale, and the loss in words."""
    drilled = decisive(row.losses)
    if not drilled:
        return "not drilled", None, "not drilled"
    broken = sum(loss.corrupt + loss.refused for loss in drilled)
    cuts = sum(loss.happened for loss in drilled)
    if broken:
        words = f"corrupt or refused to start in {broken} of {cuts} cuts"
        return "broken or emptied", None, words
    worst_ms = max(loss.lost_ms_max or 0.0 for loss in drilled)
    lost = max(loss.lost_max or 0 for loss in drilled)
    if not lost:
        return "nothing lost", None, f"nothing in {cuts} cuts"
    if harm(row) == "broken":
        return "broken or emptied", None, f"all {lost:,} commits"
    return "commits lost", worst_ms, f"{lost:,} commits, {numbers.ms(worst_ms)}"


class Band(Struct, frozen=True):
    """A range of heights for candidates whose loss is not on the scale."""

    label: str
    bottom: float
    levels: Sequence[Sequence[Point]]
    """Candidates side by side, from the lowest level up."""

    @property
    def top(self) -> float:
        """The upper edge."""
        return self.bottom + 0.45 + LEVEL * max(len(self.levels), 1)

    @property
    def middle(self) -> float:
        """The height of its label."""
        return (self.bottom + self.top) / 2

    def heights(self) -> dict[int, float]:
        """Return the height of each candidate, by its number."""
        edge = (self.top - self.bottom - LEVEL * (len(self.levels) - 1)) / 2
        return {
            point.number: self.bottom + edge + LEVEL * index
            for index, level in enumerate(self.levels)
            for point in level
        }


def _bands(points: Sequence[Point]) -> list[Band]:
    """Return the bands below and above the scale, the lowest first."""
    nothing = Band("nothing", 0.0, _levels(points, "nothing lost"))
    nothing = replace(nothing, bottom=SCALE_BOTTOM - nothing.top)
    unknown = Band("not drilled", 0.0, _levels(points, "not drilled"))
    unknown = replace(unknown, bottom=nothing.bottom - unknown.top)
    return [unknown, nothing, Band("broken", SCALE_TOP, _levels(points, "broken or emptied"))]


def _levels(points: Sequence[Point], outcome: Outcome) -> list[list[Point]]:
    """Return the candidates of a band in levels, in each of which no intervals overlap."""
    reach = max(point.hi for point in points) - min(point.lo for point in points) or 1.0
    levels: list[list[Point]] = []
    for point in (each for each in points if each.outcome == outcome):
        free = (level for level in levels if not any(_near(point, other, reach) for other in level))
        found = next(free, None)
        if found is None:
            levels.append([point])
        else:
            found.append(point)
    return levels


def _near(one: Point, other: Point, reach: float) -> bool:
    """True if two candidates at the same height would cover each other."""
    room = 0.06 * reach
    return one.lo - room < other.hi and other.lo - room < one.hi


def _heights(points: Sequence[Point], bands: Sequence[Band]) -> list[float]:
    """Return the height of each candidate: exact on the scale, inside its band elsewhere."""
    in_bands = {number: y for band in bands for number, y in band.heights().items()}
    return [
        in_bands[point.number] if point.lost_ms is None else _scale(point.lost_ms)
        for point in points
    ]


def _scale(lost_ms: float) -> float:
    """Return the height of a loss in milliseconds."""
    height = math.log10(max(lost_ms, LEAST_MS)) - math.log10(LEAST_MS) + 1
    return min(height, SCALE_TOP - 0.1)


def _axes(points: Sequence[Point], bands: Sequence[Band]) -> figure:
    least = min(0.9, *(point.lo for point in points))
    most = max(1.1, *(point.hi for point in points))
    room = (most - least) * 0.08
    bottom, top = bands[0].bottom, bands[-1].top
    plot = plain_figure(
        round(UNIT_PX * (top - bottom)) + 30,
        x_range=Range1d(start=least - room, end=most + room),
        y_range=Range1d(start=bottom, end=top),
    )
    plot.min_border_left = LABEL_PX
    plot.yaxis.ticker = FixedTicker(ticks=[*TICKS, *(band.middle for band in bands)])
    plot.ygrid.ticker = FixedTicker(ticks=[*TICKS])
    labels: dict[float | str, str | BaseText] = dict(TICKS.items())
    labels |= {band.middle: band.label for band in bands}
    plot.yaxis.major_label_overrides = labels
    plot.xaxis.formatter = NumeralTickFormatter(format="0.0[0]")
    plot.add_layout(Span(dimension="height", location=1, line_color=palette.GREY, line_width=1.5))
    for edge in (bands[0].top, bands[1].top, bands[-1].bottom):
        plot.add_layout(
            Span(dimension="width", location=edge, line_color=palette.GREY, line_dash="dotted")
        )
    return plot


def _number_offsets(points: Sequence[Point], heights: Sequence[float]) -> list[int]:
    """Return vertical offsets, in pixels, at which the numbers of close candidates are legible."""
    reach = max(point.hi for point in points) - min(point.lo for point in points) or 1.0
    ranks = [
        sum(
            abs(points[other].gain - point.gain) < 0.06 * reach
            and abs(heights[other] - heights[index]) < 0.4
            for other in range(index)
        )
        for index, point in enumerate(points)
    ]
    return [NUMBER_OFFSETS_PX[rank % len(NUMBER_OFFSETS_PX)] for rank in ranks]


def _draw(plot: figure, points: Sequence[Point], bands: Sequence[Band]) -> None:
    heights = _heights(points, bands)
    source = ColumnDataSource(
        {
            "x": [point.gain for point in points],
            "y": heights,
            "number_offset": _number_offsets(points, heights),
            "lo": [point.lo for point in points],
            "hi": [point.hi for point in points],
            "colour": [MARKS[point.outcome][0] for point in points],
            "marker": [MARKS[point.outcome][1] for point in points],
            "number": [str(point.number) for point in points],
            "what": [f"{point.number}  {point.title}" for point in points],
            "gain": [numbers.effect(p.gain, p.lo, p.hi) for p in points],
            "loss": [point.loss for point in points],
        }
    )
    plot.segment("lo", "y", "hi", "y", source=source, line_color="colour", line_width=2)
    marks = plot.scatter("x", "y", source=source, marker="marker", size=12,
                         fill_color="colour", line_color="colour", line_width=2.5)  # fmt: skip
    plot.text("x", "y", text="number", source=source, x_offset=8, y_offset="number_offset",
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
