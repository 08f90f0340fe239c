"""Charts of a drill: lost commits, age of the oldest lost commit and recovery time of each cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from bokeh.models import BasicTicker, ColumnDataSource, HoverTool, NumeralTickFormatter, Range1d
from bokeh.models.annotations import Span
from bokeh.models.annotations.labels import Label
from bokeh.plotting import figure

from pgdyno import numbers
from pgdyno.record.cut import Cut
from pgdyno.report import palette
from pgdyno.report.charts.chart import FONT, Chart, KeyEntry, plain_figure, tooltip
from pgdyno.report.words.drills import OUTCOMES
from pgdyno.report.words.tables import figures_table
from pgdyno.results.drill import Drill

MARKS = {
    "clean": (palette.GREEN, "circle"),
    "lost": (palette.ORANGE, "diamond"),
    "refused": (palette.RED, "x"),
    "corrupt": (palette.RED, "inverted_triangle"),
    "no-fault": (palette.GREY, "cross"),
}
"""Colour and marker of each outcome of a cut."""
DID_NOT_START = "did not start"
ROW = 1.2
"""Height of the row of cuts after which the server did not start, as a multiple of the highest
value."""
_TICKS_MAX = 12


def cut_charts(drill: Drill) -> list[Chart]:
    """Return the charts that the cuts have data for."""
    made = [
        _chart(
            drill, "cut-lost", "Acknowledged commits lost, per cut", numbers.count,
            lambda cut: cut.ledger.lost if cut.ledger else None,
        ),
        _chart(
            drill, "cut-lost-ms", "Age of the oldest lost commit, ms", numbers.ms,
            lambda cut: cut.ledger.lost_ms if cut.ledger else None, bound=drill.summary.bound_ms,
        ),
        _chart(
            drill, "cut-recovery", "Recovery time until the server answers, s",
            lambda seconds: f"{numbers.significant(seconds)} s",
            lambda cut: cut.recovery_s,
        ),
    ]  # fmt: skip
    return [chart for chart in made if chart is not None]


def _chart(
    drill: Drill,
    chart_id: str,
    title: str,
    say: Callable[[float], str],
    value_of: Callable[[Cut], float | None],
    *,
    bound: float | None = None,
) -> Chart | None:
    """Return a chart with a marker for each cut. Cuts after which the server did not start are in a
    row above the values; other cuts without a value have no marker."""
    values = [value_of(cut) for cut in drill.cuts]
    known = [value for value in values if value is not None]
    if not known:
        return None
    drawn = [
        (cut, value)
        for cut, value in zip(drill.cuts, values, strict=True)
        if value is not None or cut.outcome == "refused"
    ]
    top = max([*known, bound or 0.0]) or 1.0
    plot = _figure(drill, top, refused=any(value is None for _, value in drawn))
    _draw(plot, drawn, top, say)
    outcomes = {cut.outcome for cut, _ in drawn}
    key = [KeyEntry(OUTCOMES[name], MARKS[name][0]) for name in MARKS if name in outcomes]
    if bound:
        plot.add_layout(
            Span(dimension="width", location=bound, line_color=palette.RED, line_width=1.5)
        )
        key.append(KeyEntry("documented bound", palette.RED, "line"))
    rows = [
        [str(cut.number), numbers.ABSENT if value is None else say(value), OUTCOMES[cut.outcome]]
        for cut, value in zip(drill.cuts, values, strict=True)
    ]
    return Chart(
        id=chart_id,
        title=title,
        description=_description(drill.cuts, values, say, bound),
        plot=plot,
        table=figures_table(title, ["Cut", "value", "outcome"], rows),
        key=key,
    )


def _figure(drill: Drill, top: float, *, refused: bool) -> figure:
    """Return an empty figure for values up to ``top``, with a row above them if ``refused``."""
    plot = plain_figure(240 if refused else 210)
    plot.xgrid.visible = False
    numbered = [cut.number for cut in drill.cuts]
    plot.x_range = Range1d(start=min(numbered) - 0.6, end=max(numbered) + 0.6)
    plot.y_range = Range1d(start=-0.06 * top, end=(ROW + 0.12 if refused else 1.08) * top)
    few = len(numbered) <= _TICKS_MAX
    plot.xaxis.ticker = numbered if few else BasicTicker(min_interval=1)
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
    if refused:
        plot.yaxis.bounds = plot.ygrid.bounds = (0, 1.08 * top)
        plot.add_layout(
            Label(
                x=0, y=ROW * top, x_units="screen", y_units="data", text=DID_NOT_START, x_offset=2,
                y_offset=7, text_font=FONT, text_font_size="12px", text_baseline="bottom",
            )
        )  # fmt: skip
    return plot


def _draw(
    plot: figure,
    drawn: Sequence[tuple[Cut, float | None]],
    top: float,
    say: Callable[[float], str],
) -> None:
    source = ColumnDataSource(
        {
            "number": [cut.number for cut, _ in drawn],
            "foot": [ROW * top if value is None else 0.0 for _, value in drawn],
            "value": [ROW * top if value is None else float(value) for _, value in drawn],
            "value_text": [DID_NOT_START if value is None else say(value) for _, value in drawn],
            "outcome": [OUTCOMES[cut.outcome] for cut, _ in drawn],
            "colour": [MARKS[cut.outcome][0] for cut, _ in drawn],
            "marker": [MARKS[cut.outcome][1] for cut, _ in drawn],
        }
    )
    plot.segment("number", "foot", "number", "value", source=source, line_color="colour",
                 line_width=3, line_alpha=0.35)  # fmt: skip
    markers = plot.scatter("number", "value", source=source, marker="marker", size=9,
                           fill_color="colour", line_color="colour", line_width=2)  # fmt: skip
    tips = tooltip([("cut", "@number"), ("outcome", "@outcome"), ("value", "@value_text")])
    plot.add_tools(HoverTool(renderers=[markers], tooltips=tips))


def _description(
    cuts: Sequence[Cut],
    values: Sequence[float | None],
    say: Callable[[float], str],
    bound: float | None,
) -> str:
    """Return median and maximum of the values, and how many cuts have none."""
    known = [value for value in values if value is not None]
    refused = sum(
        value is None and cut.outcome == "refused" for cut, value in zip(cuts, values, strict=True)
    )
    unknown = len(cuts) - len(known) - refused
    absent = f"; {refused} did not start" if refused else ""
    absent += f"; {unknown} without this figure" if unknown else ""
    of = f"{len(known)} of {len(cuts)} cuts" if absent else f"{len(cuts)} cuts"
    within = f" in {of}" if absent else ""
    documented = f"; documented bound {say(bound)}" if bound else ""
    if max(known) == 0:
        return f"None in {of}{absent}{documented}."
    return f"Median {say(median(known))}, at most {say(max(known))}{within}{absent}{documented}."
