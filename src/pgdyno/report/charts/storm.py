"""Charts of storms: how long each took, and what would change it."""

from __future__ import annotations

from collections.abc import Sequence

from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, NumeralTickFormatter, Range1d
from bokeh.plotting import figure

from pgdyno.report import palette
from pgdyno.report.charts._curve import apart
from pgdyno.report.charts.chart import Chart, KeyEntry, plain_figure, tooltip
from pgdyno.report.words import storm as words
from pgdyno.results.storm import StormPoint, StormResult, Variant

MARGIN = 1.15
"""Room beside the outermost points, as a ratio."""
ROW_PX = 40


def storm_charts(result: StormResult | None) -> list[Chart]:
    """Return the time of each storm by its clients, and the times under each difference."""
    if result is None or not result.points:
        return []
    charts = [_by_clients(result)] if len({each.clients for each in result.points}) > 1 else []
    timed = [each for each in result.variants if each.steady_s is not None]
    return [*charts, _by_variant(result, timed)] if timed else charts


def _by_clients(result: StormResult) -> Chart:
    sizes = sorted({each.clients for each in result.points})
    plot = plain_figure(
        280,
        x_axis_type="log",
        x_range=Range1d(start=sizes[0] / MARGIN, end=sizes[-1] * MARGIN),
        y_range=Range1d(start=0, end=MARGIN * result.within_s),
    )
    plot.xaxis.ticker = FixedTicker(ticks=apart(sizes))
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    survived = [each for each in result.points if each.survived]
    lost = [each for each in result.points if not each.survived]
    key = [
        *_marked(plot, survived, result.within_s, "survived", palette.BLUE, "circle"),
        *_marked(plot, lost, result.within_s, "not survived in time", palette.RED, "x"),
    ]
    largest = f"{result.largest.clients:,} clients" if result.largest else "none"
    return Chart(
        id="storm-steady",
        title="Time until all clients are served, seconds, by number of clients",
        description=f"The largest storm that is survived: {largest}.",
        plot=plot,
        table=words.storms_table(result),
        key=key,
    )


def _marked(
    plot: figure, points: Sequence[StormPoint], within_s: float, name: str, colour: str, marker: str
) -> list[KeyEntry]:
    """Draw storms; those without a time are at the limit. Return their key."""
    if not points:
        return []
    source = ColumnDataSource(
        {
            "x": [each.clients for each in points],
            "y": [within_s if each.steady_s is None else each.steady_s for each in points],
            "errors": [sum(cause.count for cause in each.errors) for each in points],
        }
    )
    drawn = plot.scatter("x", "y", source=source, size=9, color=colour, marker=marker)
    plot.add_tools(
        HoverTool(
            renderers=[drawn],
            tooltips=tooltip(
                [("clients", "@x{0,0}"), (name, "@y{0.0} s"), ("errors", "@errors{0,0}")]
            ),
        )
    )
    return [KeyEntry(name, colour)]


def _by_variant(result: StormResult, variants: Sequence[Variant]) -> Chart:
    names = [each.title or words.PLAIN for each in variants]
    times = [each.steady_s or 0.0 for each in variants]
    ends = [each.steady_s_max or 0.0 for each in variants]
    rows = list(range(len(variants), 0, -1))
    plot = plain_figure(
        ROW_PX * len(variants) + 40,
        x_range=Range1d(start=0, end=MARGIN * max(*ends, 0.1)),
        y_range=Range1d(start=0.4, end=len(variants) + 0.9),
    )
    plot.yaxis.visible = False
    source = ColumnDataSource(
        {"y": rows, "x": times, "name": names, "above": [row + 0.22 for row in rows],
         "low": [each.steady_s_min for each in variants], "high": ends}
    )  # fmt: skip
    plot.segment("low", "y", "high", "y", source=source, line_color=palette.BLUE, line_width=2)
    drawn = plot.scatter("x", "y", source=source, size=9, color=palette.BLUE)
    plot.text(x=0, y="above", text="name", source=source, text_font_size="12px",
              text_color=palette.GREY, x_offset=4)  # fmt: skip
    plot.add_tools(
        HoverTool(renderers=[drawn], tooltips=tooltip([("with", "@name"), ("after", "@x{0.0} s")]))
    )
    return Chart(
        id="storm-variants",
        title=f"Time until all of {variants[0].clients:,} clients are served, seconds",
        description=f"As it is, and with {len(result.variants) - 1} differences.",
        plot=plot,
        table=words.variants_table(result),
        key=[KeyEntry("median", palette.BLUE), KeyEntry("from the shortest to the longest",
                                                     palette.BLUE, "line")],
    )  # fmt: skip
