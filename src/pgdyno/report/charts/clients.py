"""Charts of throughput and response time by number of clients, a curve for each setting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bokeh.models import ColumnDataSource, DataRange1d, HoverTool, NumeralTickFormatter, Range1d
from bokeh.models.renderers import DataRenderer
from bokeh.plotting import figure
from msgspec.structs import replace

from pgdyno import numbers
from pgdyno.dimension import title_of
from pgdyno.facts.intervals import timed
from pgdyno.facts.scaling import (
    Scaling,
    client_classes,
    clients_decide,
    mean_tps,
    scaling_of,
    under_load,
)
from pgdyno.record import Interval, RunFile
from pgdyno.report import palette
from pgdyno.report.charts.chart import Chart, KeyEntry, plain_figure, tooltip
from pgdyno.report.charts.latency import merged_histograms
from pgdyno.report.words.tables import Table, figures_table
from pgdyno.spec.change import Change

if TYPE_CHECKING:
    from pgdyno._engine import Histogram

LEVELS_MIN = 3
"""Minimum number of levels of clients for a curve."""
WITHOUT_CHANGE = "without a change"


def client_charts(run: RunFile) -> list[Chart]:
    """Return throughput and response time by number of clients, if a ramp or steps changed it.

    Returns nothing if some clients send at a rate, because throughput then follows the rate.
    """
    if not clients_decide(run):
        return []
    curves = {
        name: classes
        for name, intervals in _by_setting(run).items()
        if len(classes := client_classes(timed(intervals))) >= LEVELS_MIN
    }
    if not curves:
        return []
    colours = dict(zip(curves, palette.SERIES, strict=False))
    curves = {name: curves[name] for name in colours}
    return [
        _tps_by_clients(curves, colours, scaling_of(run)),
        *_latency_by_clients(run, curves),
    ]


def _by_setting(run: RunFile) -> dict[str, list[Interval]]:
    """Return the intervals of each setting. Intervals between the slices of trials are left out,
    because the setting in force is not known; a run without trials has one setting."""
    slices = {piece.id: piece for piece in run.slices()}
    if all(piece.trial_id is None for piece in slices.values()):
        return {"": under_load(run)}
    intervals = [interval for interval in run.intervals() if interval.clients]
    found: dict[str, list[Interval]] = defaultdict(list)
    for interval in intervals:
        if interval.slice_id is not None:
            change = Change.from_json(slices[interval.slice_id].change)
            found[_setting_name(change)].append(interval)
    return found


def _setting_name(change: Change) -> str:
    """Return a change in a few words, without the number of clients, which is the x axis."""
    return title_of(replace(change, clients={})) or WITHOUT_CHANGE


def _tps_by_clients(
    curves: Mapping[str, Mapping[int, Sequence[Interval]]],
    colours: Mapping[str, str],
    scaling: Scaling | None,
) -> Chart:
    plot = _by_clients(max(level for classes in curves.values() for level in classes))
    sentences, rows, key = [], [], []
    for name, classes in curves.items():
        means = {level: mean_tps(members) for level, members in classes.items()}
        intervals = [each for members in classes.values() for each in members][-1500:]
        plot.scatter(
            [i.clients for i in intervals], [i.throughput_tps for i in intervals],
            size=5, fill_color=colours[name], fill_alpha=0.3, line_color=None,
        )  # fmt: skip
        source = ColumnDataSource({"clients": list(means), "tps": list(means.values())})
        line = plot.line("clients", "tps", source=source, line_color=colours[name], line_width=2)
        plot.scatter("clients", "tps", source=source, size=6, color=colours[name])
        _hover_clients(plot, line, [(name or "tps", "@tps{0,0} tps")])
        best = max(means, key=lambda level: means[level])
        near = next(level for level in means if means[level] >= 0.95 * means[best])
        sentences.append(
            f"{f'{name}: at' if name else 'At'} most {numbers.tps(means[best])} per second, with"
            f" {best} clients; {near} clients reach 95 % of that."
        )
        rows += [[name, str(level), numbers.tps(mean)] for level, mean in means.items()]
        key.append(KeyEntry(name or "mean", colours[name], "line"))
    if scaling:
        sentences.append(f"Knee: {scaling.sentence}.")
        key += _draw_knee(plot, scaling)
    return Chart(
        id="tps-clients",
        title="Throughput by number of clients, transactions per second",
        description=" ".join(sentences),
        plot=plot,
        table=_setting_table("Throughput by number of clients", ["Clients", "tps"], rows),
        key=[*key, KeyEntry("one interval", palette.GREY)],
    )


def _draw_knee(plot: figure, scaling: Scaling) -> list[KeyEntry]:
    """Draw the fitted curve, the knee and its interval behind the data; return their keys."""
    if scaling.fit is None:
        return []
    most = scaling.clients_max
    at = [clients for step in range(101) if (clients := most * step / 100) >= 1]
    fitted = [scaling.fit.throughput_tps(clients) for clients in at]
    plot.line(at, fitted, line_color=palette.GREY, line_dash="dashed", line_width=1.5)
    key = [KeyEntry("fitted curve", palette.GREY, "dash")]
    if scaling.knee_clients is not None:
        lo, hi = scaling.fit.knee_ci95
        band = plot.vstrip([lo], [min(hi, most * 1.03)], fill_color=palette.RED, fill_alpha=0.12,
                           line_color=None)  # fmt: skip
        line = plot.vspan([scaling.knee_clients], line_color=palette.RED, line_width=1.8)
        band.level = line.level = "underlay"
        key += [
            KeyEntry("knee", palette.RED, "line"),
            KeyEntry("its 95 % interval", palette.RED, "shade"),
        ]
    return key


def _setting_table(caption: str, head: list[str], rows: Sequence[list[str]]) -> Table:
    """Return a table; its first column, the setting, is left out if there is only one."""
    if any(row[0] for row in rows):
        return figures_table(caption, ["Setting", *head], rows)
    return figures_table(caption, head, [row[1:] for row in rows])


def _latency_by_clients(
    run: RunFile, curves: Mapping[str, Mapping[int, Sequence[Interval]]]
) -> list[Chart]:
    """Return a chart of percentiles by number of clients for each setting."""
    charts = []
    for number, (name, classes) in enumerate(curves.items(), start=1):
        merged = _merged_by_class(run, classes)
        if merged:
            charts.append(_latency_chart(name, number, merged))
    return charts


def _latency_chart(name: str, number: int, merged: Mapping[int, Histogram]) -> Chart:
    shown = {"p50": (palette.GREEN, 50), "p95": (palette.BLUE, 95), "p99": (palette.ORANGE, 99)}
    data: dict[str, list[float]] = {
        each: [histogram.percentile(p) / 1e6 for histogram in merged.values()]
        for each, (_, p) in shown.items()
    }
    source = ColumnDataSource({"clients": [float(level) for level in merged], **data})
    plot = _by_clients(max(merged))
    for percentile, (colour, _) in shown.items():
        line = plot.line("clients", percentile, source=source, line_color=colour, line_width=2)
        plot.scatter("clients", percentile, source=source, size=5, color=colour)
    _hover_clients(plot, line, [(each, f"@{each}{{0,0.[00]}} ms") for each in shown])
    first, last = next(iter(merged)), next(reversed(list(merged)))
    p95 = dict(zip(merged, data["p95"], strict=True))
    title = f"Response time by number of clients{f', {name}' if name else ''}, milliseconds"
    return Chart(
        id="latency-clients" if number == 1 else f"latency-clients-{number}",
        title=title,
        description=f"p95 is {numbers.ms(p95[first])} with {first} clients and"
        f" {numbers.ms(p95[last])} with {last}.",
        plot=plot,
        table=figures_table(
            title,
            ["Clients", *shown],
            [
                [str(level), *(numbers.ms(data[each][row]) for each in shown)]
                for row, level in enumerate(merged)
            ],
        ),
        key=[KeyEntry(each, colour, "line") for each, (colour, _) in shown.items()],
    )


def _merged_by_class(
    run: RunFile, classes: Mapping[int, Sequence[Interval]]
) -> dict[int, Histogram]:
    """Return the response times of each class of intervals; empty classes are left out."""
    level_at = {
        (interval.at_ms, interval.slice_id): level
        for level, members in classes.items()
        for interval in members
    }
    merged = merged_histograms(run, "response", level_at.get)
    return {level: merged[level] for level in classes if level in merged}


def _by_clients(most: int) -> figure:
    plot = plain_figure(
        250, x_range=Range1d(start=0, end=most * 1.03), y_range=DataRange1d(start=0)
    )
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
    return plot


def _hover_clients(plot: figure, line: DataRenderer, rows: Sequence[tuple[str, str]]) -> None:
    plot.add_tools(
        HoverTool(
            renderers=[line], mode="vline", line_policy="nearest",
            tooltips=tooltip([("clients", "@clients"), *rows]),
        )
    )  # fmt: skip
