"""Charts of a drill: lost commits, age of the oldest lost commit and recovery time of each cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from bokeh.models import BasicTicker, ColumnDataSource, HoverTool, NumeralTickFormatter, Range1d
from bokeh.models.annotations import Span

from pgdyno.drill.model import Cut, DrillResult
from pgdyno.report import palette
from pgdyno.report.charts.chart import Chart, Key, plain_figure, tooltip
from pgdyno.report.words import numbers
from pgdyno.report.words.drills import OUTCOMES
from pgdyno.report.words.tables import figures_table

MARKS = {
    "clean": (palette.GREEN, "circle"),
    "lost": (palette.ORANGE, "diamond"),
    "refused": (palette.RED, "x"),
    "corrupt": (palette.RED, "inverted_triangle"),
    "no-fault": (palette.GREY, "cross"),
}
"""Colour and marker of each outcome of a cut."""
_TICKS_MAX = 12


def cut_charts(drill: DrillResult) -> list[Chart]:
    """Return the charts that the cuts have data for."""
    made = [
        _chart(
            drill, "cut-lost", "Acknowledged commits lost, per cut", numbers.count,
            lambda cut: cut.ledger.lost if cut.ledger else None,
        ),
        _chart(
            drill, "cut-lost-ms", "Age of the oldest lost commit, ms", numbers.ms,
            lambda cut: cut.ledger.lost_ms if cut.ledger else None, bound=drill.bound_ms,
        ),
        _chart(
            drill, "cut-recovery", "Recovery time until the server answers, s",
            lambda seconds: f"{numbers.significant(seconds)} s",
            lambda cut: cut.verified.recovery_s if cut.verified else None,
        ),
    ]  # fmt: skip
    return [chart for chart in made if chart is not None]


def _chart(
    drill: DrillResult,
    chart_id: str,
    title: str,
    say: Callable[[float], str],
    value_of: Callable[[Cut], float | None],
    *,
    bound: float | None = None,
) -> Chart | None:
    """Return a chart with a marker for each cut; cuts without a value are at zero."""
    values = [value_of(cut) for cut in drill.cuts]
    known = [value for value in values if value is not None]
    if not known:
        return None
    plot = plain_figure(210)
    plot.xgrid.visible = False
    numbered = [cut.number for cut in drill.cuts]
    plot.x_range = Range1d(start=min(numbered) - 0.6, end=max(numbered) + 0.6)
    top = max([*known, bound or 0.0])
    plot.y_range = Range1d(start=-0.06 * (top or 1.0), end=1.08 * (top or 1.0))
    few = len(numbered) <= _TICKS_MAX
    plot.xaxis.ticker = numbered if few else BasicTicker(min_interval=1)
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
    source = _source(drill.cuts, values, say)
    plot.segment("number", 0, "number", "value", source=source, line_color="colour", line_width=3,
                 line_alpha=0.35)  # fmt: skip
    drawn = plot.scatter("number", "value", source=source, marker="marker", size=9,
                         fill_color="colour", line_color="colour", line_width=2)  # fmt: skip
    tips = tooltip([("cut", "@number"), ("outcome", "@outcome"), ("value", "@value_text")])
    plot.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    key = [Key(OUTCOMES[name], MARKS[name][0]) for name in MARKS if _any(drill.cuts, name)]
    if bound:
        plot.add_layout(
            Span(dimension="width", location=bound, line_color=palette.RED, line_width=1.5)
        )
        key.append(Key("documented bound", palette.RED, "line"))
    rows = [
        [str(cut.number), numbers.ABSENT if value is None else say(value), OUTCOMES[cut.outcome]]
        for cut, value in zip(drill.cuts, values, strict=True)
    ]
    return Chart(
        id=chart_id,
        title=title,
        description=_description(known, say, bound),
        plot=plot,
        table=figures_table(title, ["Cut", "value", "outcome"], rows),
        key=key,
    )


def _description(known: Sequence[float], say: Callable[[float], str], bound: float | None) -> str:
    documented = f"; documented bound {say(bound)}" if bound else ""
    if max(known) == 0:
        return f"None in {len(known)} cuts{documented}."
    return f"Median {say(median(known))}, at most {say(max(known))}{documented}."


def _source(
    cuts: Sequence[Cut], values: Sequence[float | None], say: Callable[[float], str]
) -> ColumnDataSource:
    return ColumnDataSource(
        {
            "number": [cut.number for cut in cuts],
            "value": [float(value or 0) for value in values],
            "value_text": [numbers.ABSENT if value is None else say(value) for value in values],
            "outcome": [OUTCOMES[cut.outcome] for cut in cuts],
            "colour": [MARKS[cut.outcome][0] for cut in cuts],
            "marker": [MARKS[cut.outcome][1] for cut in cuts],
        }
    )


def _any(cuts: Sequence[Cut], outcome: str) -> bool:
    return any(cut.outcome == outcome for cut in cuts)
