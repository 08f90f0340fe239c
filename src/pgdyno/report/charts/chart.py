"""A chart of the report, and the bokeh functions that all charts share.

In addition to its plot, a chart has a description in a sentence and a table of its figures, for
readers who cannot see the plot, print the page or need the numbers. Its key is HTML beside the
plot, so that it wraps on a phone and never covers data.

Time axes are in seconds from the start of the run and share one range, so that zooming one chart
zooms all. Axes have no labels; the unit is in the title.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from msgspec import Struct, field

from pgdyno.report.charts._series import Floats
from pgdyno.report.words.tables import Table

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
RULE = "#d6dce2"
"""Colour of grid lines; --bk-grid-line-color of the style sheet overrides it on the page."""
LEFT_PX = 54
"""Width of the y axis, the same in all charts so that they are aligned."""

CLOCK_JS = """
const two = (n) => String(n).padStart(2, "0");
const all = Math.round(SECONDS * 10) / 10, s = Math.floor(all);
const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
const tenth = Math.round((all - s) * 10);
return (h ? h + ":" + two(m) : String(m)) + ":" + two(s % 60) + (tenth ? "." + tenth : "");
"""


ROW_PX = 46
"""Height of a row with its name above it."""


class KeyEntry(Struct, frozen=True):
    """An entry of a chart's key."""

    label: str
    colour: str
    mark: Literal["area", "line", "dash", "shade"] = "area"


class Chart(Struct, frozen=True):
    """A chart with its texts. ``id`` is unique in the page."""

    id: str
    title: str
    description: str
    plot: figure
    table: Table
    key: Sequence[KeyEntry] = field(default_factory=tuple)


def time_range(end_ms: float) -> Range1d:
    """Return the range that all time axes share; the page's zoom buttons find it by its name."""
    return Range1d(
        start=0, end=end_ms / 1000, bounds=(0, end_ms / 1000), min_interval=0.5, name="time"
    )


def plain_figure(height: int, **ranges: Any) -> figure:
    """Return an empty figure in the report's style: full width, without toolbar and frame."""
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
    """Return the ticks of a logarithmic axis, from a decade below the smallest of ``values`` to one
    above the largest; more ticks per decade for a narrow range."""
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
    """Return a figure over the time of the run: dragging zooms in, a double click shows all again.

    The y axis fits the data in the current window. It starts at zero, or is logarithmic for the
    values ``log``.
    """
    ranges: dict[str, object] = {"x_range": x_range}
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
    plot.toolbar.active_drag = None  # the page activates it if there is a mouse
    show_all = CustomJS(args={"x": x_range}, code="x.setv({start: x.bounds[0], end: x.bounds[1]})")
    plot.js_on_event("doubletap", show_all)
    return plot


def hover_clock() -> CustomJSHover:
    """Return a formatter of seconds from the start as ``1:05.3`` in a tooltip: ``@x{custom}``."""
    return CustomJSHover(code=CLOCK_JS.replace("SECONDS", "value"))


def add_time_tooltip(
    plot: figure, source: ColumnDataSource, rows: Mapping[str, str], top: str
) -> None:
    """Add a tooltip that follows the pointer; ``rows`` maps labels to ``@column{format}``.

    ``source`` has ``x``; the tooltip is attached to an invisible line through the column ``top``.
    """
    line = plot.line("x", top, source=source, line_alpha=0, name="invisible")
    plot.add_tools(
        HoverTool(
            renderers=[line],
            mode="vline",
            line_policy="nearest",
            tooltips=tooltip([("at", "@x{custom}"), *rows.items()]),
            formatters={"@x": hover_clock()},
            attachment="horizontal",
        )
    )


def tooltip(rows: Sequence[tuple[str, str]]) -> str:
    """Return the HTML of a tooltip with labels and ``@column{format}``, in the page's colours."""
    lines = "".join(
        f'<div style="color:var(--ink-soft)">{_escaped(label)}</div><div>{field}</div>'
        for label, field in rows
    )
    return (
        '<div style="display:grid;grid-template-columns:auto auto;gap:0 .7em;color:var(--ink);'
        f'font:13px/1.45 {FONT};font-variant-numeric:tabular-nums">{lines}</div>'
    )


def _escaped(label: str) -> str:
    """Return a label in which bokeh's templates find no column names."""
    return escape(label).replace("@", "&#64;").replace("$", "&#36;")


def source_of(at_ms: Floats, columns: Mapping[str, Floats]) -> ColumnDataSource:
    """Return columns for bokeh, with times as ``x`` in seconds, in single precision for size."""
    data = {"x": (at_ms / 1000).astype("float32")}
    data |= {name: values.astype("float32") for name, values in columns.items()}
    return ColumnDataSource(data)


def row_figure(count: int, widest: float) -> figure:
    """Return a figure of ``count`` rows at y = 0, 1, … from the top; x from 0 to ``widest``."""
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


def label_row(plot: figure, position: float, text: str) -> None:
    """Draw the name of a row above it, in the colour of --bk-text-color."""
    plot.add_layout(
        Label(
            x=0, y=position, x_units="data", y_units="data", text=text, x_offset=2, y_offset=9,
            text_font=FONT, text_font_size="12px", text_baseline="bottom",
        )
    )  # fmt: skip
