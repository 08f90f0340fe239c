"""One chart of the report, and the bokeh parts that all charts share.

A chart is more than its picture: it says in a sentence what there is to see and has a small table
of its figures, for those who cannot see it, who print it or who want the number. Its key is HTML
beside the canvas, so that it wraps on a phone and never covers data.

Time axes are in seconds from the run's start and share one range, so that zooming one zooms all. No
axis has a label of its own: the unit is in the title, which leaves the width to the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

import numpy as np
from bokeh.models import (
    AdaptiveTicker,
    BasicTicker,
    BoxZoomTool,
    ColumnDataSource,
    CustomJS,
    CustomJSHover,
    CustomJSTickFormatter,
    DataRange1d,
    FixedTicker,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.models.annotations.labels import Label
from bokeh.plotting import figure

from pgdyno.report.charts._series import Floats
from pgdyno.report.words.tables import Table

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
RULE = "#d6dce2"
"""A grid line; the style sheet's --bk-grid-line-color takes its place on the page."""
LEFT_PX = 54
"""Width kept for the y axis, so that charts under each other line up."""

CLOCK_JS = """
const two = (n) => String(n).padStart(2, "0");
const all = Math.round(SECONDS * 10) / 10, s = Math.floor(all);
const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
const tenth = Math.round((all - s) * 10);
return (h ? h + ":" + two(m) : String(m)) + ":" + two(s % 60) + (tenth ? "." + tenth : "");
"""


ROW_PX = 46
"""Height of a row with its name above it."""


@dataclass(frozen=True)
class Key:
    """One entry of a chart's key."""

    label: str
    colour: str
    mark: Literal["area", "line", "dash", "shade"] = "area"


@dataclass(frozen=True)
class Chart:
    """A chart with all that stands around it. ``id`` is unique in the page."""

    id: str
    title: str
    says: str
    plot: figure
    table: Table
    key: Sequence[Key] = field(default_factory=tuple)


def time_range(end_ms: float) -> Range1d:
    """The range that all time axes share; the page's zoom buttons find it by its name."""
    return Range1d(
        start=0, end=end_ms / 1000, bounds=(0, end_ms / 1000), min_interval=0.5, name="time"
    )


def plain_figure(height: int, **ranges: Any) -> figure:
    """A figure in the report's dress: full width, no toolbar, no frame, rules across only."""
    plot = figure(
        height=height,
        sizing_mode="stretch_width",
        toolbar_location=None,
        tools="",
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        min_border_left=LEFT_PX,
        min_border_right=14,
        min_border_top=6,
        min_border_bottom=24,
        **ranges,
    )
    for axis in plot.axis:
        axis.major_label_text_font = FONT
        axis.major_label_text_font_size = "12px"
        axis.minor_tick_line_color = None
        axis.axis_line_alpha = 0.8
    plot.yaxis.axis_line_color = None
    plot.yaxis.major_tick_line_color = None
    plot.xgrid.grid_line_color = None
    return plot


def log_ticks(values: Sequence[Floats]) -> list[float]:
    """Places on a logarithmic axis that are worth a number, from a decade below the least of
    ``values`` to one above the largest; more of them where the values lie near each other."""
    known = np.concatenate([each[np.isfinite(each) & (each > 0)] for each in values])
    if not len(known):
        return [1.0]
    least, most = float(np.log10(known.min())), float(np.log10(known.max()))
    decades = range(math.floor(least) - 1, math.ceil(most) + 2)
    mantissas = (1, 2, 5) if most - least > 1 else (1, 1.5, 2, 3, 4, 5, 6, 8)
    return [float(f"{m * 10.0**decade:.6g}") for decade in decades for m in mantissas]


def time_figure(
    x_range: Range1d, height: int = 220, *, log: Sequence[Floats] | None = None
) -> figure:
    """A figure over the run's time: drag zooms (with a mouse), a double click shows all again.

    The y axis fits what the current window shows; it starts at zero, or is logarithmic for the
    values ``log``.
    """
    ranges: dict[str, Any] = {"x_range": x_range}
    if log is not None:
        ranges["y_axis_type"] = "log"
    else:
        ranges["y_range"] = DataRange1d(start=0, range_padding=0.08)
    plot = plain_figure(height, **ranges)
    plot.window_axis = "x"
    plot.xaxis.ticker = AdaptiveTicker(
        base=60, mantissas=[1, 2, 5, 10, 15, 30], desired_num_ticks=6
    )
    plot.xaxis.formatter = CustomJSTickFormatter(code=CLOCK_JS.replace("SECONDS", "tick"))
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0.[0000]")
    if log is not None:
        plot.yaxis.ticker = plot.ygrid.ticker = FixedTicker(ticks=log_ticks(log))
    plot.add_tools(BoxZoomTool(dimensions="width"))
    plot.toolbar.active_drag = None  # the page makes it active where there is a mouse
    show_all = CustomJS(args={"x": x_range}, code="x.setv({start: x.bounds[0], end: x.bounds[1]})")
    plot.js_on_event("doubletap", show_all)
    return plot


def hover_clock() -> CustomJSHover:
    """Formats seconds from the start as ``1:05.3`` in a tooltip: ``@x{custom}``."""
    return CustomJSHover(code=CLOCK_JS.replace("SECONDS", "value"))


def read_off(plot: figure, source: ColumnDataSource, rows: Mapping[str, str], top: str) -> None:
    """A tooltip that follows the pointer along time: ``rows`` maps labels to ``@column{format}``.

    ``source`` has ``x``; ``top`` is the column that an unseen line hangs the tooltip on.
    """
    line = plot.line("x", top, source=source, line_alpha=0, name="unseen")
    plot.add_tools(
        HoverTool(
            renderers=[line],
            mode="vline",
            line_policy="nearest",
            tooltips=tip([("at", "@x{custom}"), *rows.items()]),
            formatters={"@x": hover_clock()},
            attachment="horizontal",
        )
    )


def tip(rows: Sequence[tuple[str, str]]) -> str:
    """The tooltip of labels and ``@column{format}``, in the page's colours."""
    lines = "".join(
        f'<div style="color:var(--ink-soft)">{_spelled(label)}</div><div>{field}</div>'
        for label, field in rows
    )
    return (
        '<div style="display:grid;grid-template-columns:auto auto;gap:0 .7em;color:var(--ink);'
        f'font:13px/1.45 {FONT};font-variant-numeric:tabular-nums">{lines}</div>'
    )


def _spelled(label: str) -> str:
    """A label that bokeh's templates take for nothing but text."""
    return escape(label).replace("@", "&#64;").replace("$", "&#36;")


def source_of(at_ms: Floats, columns: Mapping[str, Floats]) -> ColumnDataSource:
    """Columns for bokeh, with times as ``x`` in seconds; single precision halves the page."""
    data = {"x": (at_ms / 1000).astype("float32")}
    data |= {name: values.astype("float32") for name, values in columns.items()}
    return ColumnDataSource(data)


def row_figure(count: int, widest: float) -> figure:
    """A figure of ``count`` rows at y = 0, 1, …, from the top; x from 0 to ``widest``."""
    plot = plain_figure(
        34 + ROW_PX * count,
        x_range=Range1d(start=0, end=widest),
        y_range=Range1d(start=count - 0.35, end=-0.65),
    )
    plot.yaxis.visible = False
    plot.ygrid.visible = False
    plot.xgrid.grid_line_color = RULE
    plot.min_border_left = 4
    plot.xaxis.ticker = BasicTicker(desired_num_ticks=5)
    return plot


def name_row(plot: figure, position: float, text: str) -> None:
    """A row's name above it; its ink follows the page's through --bk-text-color."""
    plot.add_layout(
        Label(
            x=0, y=position, x_units="data", y_units="data", text=text, x_offset=2, y_offset=9,
            text_font=FONT, text_font_size="12px", text_baseline="bottom",
        )
    )  # fmt: skip
