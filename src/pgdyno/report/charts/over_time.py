"""Charts over time of the load: throughput, response time and its parts, clients, sessions by
state, and the server's time by statement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from bokeh.models import CrosshairTool
from bokeh.models.annotations import Span

from pgdyno import numbers
from pgdyno.record import Interval
from pgdyno.record.sessionages import STATES
from pgdyno.report import palette
from pgdyno.report.charts._front import cores_by_side, pool_of_front
from pgdyno.report.charts._groups import group_charts
from pgdyno.report.charts._host import dirty_memory, disk_space, disk_writes, host_cpu
from pgdyno.report.charts._series import POINTS_MAX, Buckets, Floats, floats, pivot
from pgdyno.report.charts._server import active_sessions, wal
from pgdyno.report.charts.chart import Chart, KeyEntry, add_time_tooltip, source_of, time_figure
from pgdyno.report.charts.event_marks import event_chart
from pgdyno.report.charts.latency import CONNECT, LAG, POOL, response_parts
from pgdyno.report.charts.time_axis import TimeAxis, finish, stacked
from pgdyno.report.view import view_of
from pgdyno.report.words import sessions
from pgdyno.report.words.prose import cut
from pgdyno.report.words.tables import figures_table
from pgdyno.spec.sql_text import beginning

UNDER_SEVERAL = ", under several settings; the effect of each is shown above."

LATENCY_LINES = {
    "p50": (palette.GREEN, "solid", 1.8),
    "p95": (palette.BLUE, "solid", 1.5),
    "p99": (palette.ORANGE, "solid", 1.5),
    "max": (palette.RED, "dotted", 1.2),
}
PARTS = {
    "service": palette.BLUE,
    CONNECT: palette.PURPLE,
    POOL: palette.RED,
    LAG: palette.BROWN,
}
COLOURS = dict(
    zip(
        STATES,
        (palette.GREEN, palette.BLUE, palette.ORANGE, palette.RED, palette.PURPLE, palette.GREY),
        strict=True,
    )
)
GROUPS_MAX = 6
TEXT_MAX = 60
REST = "all others"


def time_charts(axis: TimeAxis) -> list[Chart]:
    """Return the charts over time that the run has data for, in the order of the page."""
    load = (throughput, latency, response_time)
    below = (
        active_sessions,
        session_states,
        pool_of_front,
        server_statements,
        host_cpu,
        cores_by_side,
        wal,
        disk_writes,
        disk_space,
        dirty_memory,
        clients,
    )
    charts = [event_chart(axis.marks, axis.x_range), *(make(axis) for make in load)]
    charts += [*group_charts(axis), *(make(axis) for make in below)]
    made = [chart for chart in charts if chart is not None]
    cursor = Span(dimension="height", line_color=palette.GREY, line_dash="dotted")
    for chart in made:
        chart.plot.add_tools(CrosshairTool(overlay=cursor))
    return made


def _middles(intervals: Sequence[Interval]) -> Floats:
    return np.array([i.at_ms + i.duration_ms / 2 for i in intervals], dtype=np.float64)


def throughput(axis: TimeAxis) -> Chart | None:
    """Return the chart of throughput, with the range of values where points were merged."""
    timed = axis.intervals
    if not timed:
        return None
    per_second = np.array([i.throughput_tps for i in timed])
    buckets = Buckets(_middles(timed))
    columns = {how: buckets.reduce(per_second, how) for how in ("mean", "min", "max")}
    at_ms, columns = axis.broken(buckets.at_ms, columns)
    source = source_of(at_ms, columns)
    plot = time_figure(axis.x_range, 250)
    key = [KeyEntry("transactions per second", palette.BLUE, "line")]
    if buckets.merged:
        plot.varea("x", "min", "max", source=source, fill_color=palette.BLUE, fill_alpha=0.25)
        key.append(KeyEntry("lowest to highest second", palette.BLUE, "shade"))
    plot.line("x", "mean", source=source, line_color=palette.BLUE, line_width=1.8)
    add_time_tooltip(plot, source, {"tps": "@mean{0,0}"}, "mean")
    measured = axis.measured
    mean = sum(i.done for i in measured) / (sum(i.duration_ms for i in measured) / 1000)
    rates = [i.throughput_tps for i in measured]
    lowest, highest = min(rates), max(rates)
    rows = [
        ["mean, all settings" if axis.mixed else "mean", numbers.tps(mean)],
        ["median second", numbers.tps(float(np.median(rates)))],
        ["lowest second", numbers.tps(lowest)],
        ["highest second", numbers.tps(highest)],
    ]
    return Chart(
        id="throughput",
        title="Throughput, transactions per second",
        description=f"Between {numbers.tps(lowest)} and {numbers.tps(highest)} per second"
        + (UNDER_SEVERAL if axis.mixed else f", {numbers.tps(mean)} on average."),
        plot=finish(axis, plot),
        table=figures_table("Throughput, transactions per second", ["", "tps"], rows),
        key=key,
    )


def latency(axis: TimeAxis) -> Chart | None:
    """Return the chart of response time percentiles on a logarithmic axis."""
    series = axis.run.latency_series("response", (50, 95, 99, 100), points_max=POINTS_MAX)
    series = axis.of_whole_intervals(axis.under_load(series))
    if not len(series["at_ms"]) or np.isnan(series["max"]).all():
        return None
    columns = {name: _positive(series[name]) for name in LATENCY_LINES}
    at_ms, columns = axis.broken(series["at_ms"], columns)
    source = source_of(at_ms, columns)
    plot = time_figure(axis.x_range, 270, log=[columns[name] for name in ("p50", "max")])
    for name, (colour, dash, width) in LATENCY_LINES.items():
        plot.line(
            "x", name, source=source, line_color=colour, line_dash=dash, line_width=width
        )  # fmt: skip
    add_time_tooltip(
        plot, source, {name: f"@{name}{{0,0.[00]}} ms" for name in LATENCY_LINES}, "p99"
    )
    total = axis.run.histogram("response", axis.measured_ids)
    rows = [[f"p{p}", numbers.ns(total.percentile(p))] for p in (50, 95, 99)]
    rows.append(["max", numbers.ns(total.max)])
    description = (
        f"p50 {numbers.ns(total.percentile(50))}, p99 {numbers.ns(total.percentile(99))}, maximum"
        f" {numbers.ns(total.max)}"
    )
    return Chart(
        id="latency",
        title="Response time, milliseconds (logarithmic)",
        description=f"{description}{UNDER_SEVERAL if axis.mixed else '.'}",
        plot=finish(axis, plot),
        table=figures_table("Response time under load", ["", "response"], rows),
        key=[
            KeyEntry(name, colour, "dash" if dash != "solid" else "line")
            for name, (colour, dash, _) in LATENCY_LINES.items()
        ],
    )


def _positive(values: Floats) -> Floats:
    """Return values with gaps instead of zeros, which a logarithmic axis cannot show."""
    return np.where(values > 0, values, np.nan)


def response_time(axis: TimeAxis) -> Chart | None:
    """Return the chart of the parts of the mean response time; None if it is nearly all service."""
    at_ms, parts = response_parts(axis.run)
    kept = axis.of_whole_intervals(axis.under_load({"at_ms": at_ms, **parts}))
    at_ms, parts = kept.pop("at_ms"), kept
    if not len(at_ms) or np.isnan(parts["service"]).all():
        return None
    means = {name: float(np.nan_to_num(np.nanmean(values))) for name, values in parts.items()}
    total = sum(means.values())
    if total == 0 or means["service"] / total > 0.98:
        return None
    shown = {name: parts[name] for name in PARTS if means[name] > 0.001 * total}
    rows = [[name, numbers.ms(means[name]), numbers.percent(means[name] / total)] for name in shown]
    waited = 1 - means["service"] / total
    return Chart(
        id="response-parts",
        title="Mean response time and its parts, milliseconds",
        description=f"On average, {numbers.percent(waited)} of the response time passed before the"
        " first byte was sent to the server.",
        plot=stacked(axis, at_ms, shown, PARTS, "0,0.000"),
        table=figures_table(
            "Mean response time per second of the run", ["", "mean", "share"], rows
        ),
        key=[KeyEntry(name, PARTS[name]) for name in reversed(shown)],
    )


def clients(axis: TimeAxis) -> Chart | None:
    """Return the chart of clients and connections; None if both are constant and equal."""
    timed = axis.intervals
    counts = {(i.clients, i.connections) for i in timed}
    if not counts or (len(counts) == 1 and all(c == n for c, n in counts)):
        return None
    buckets = Buckets(np.array([float(i.at_ms) for i in timed]))
    columns = {
        "clients": buckets.reduce(np.array([float(i.clients) for i in timed]), "max"),
        "connections": buckets.reduce(np.array([float(i.connections) for i in timed]), "max"),
    }
    source = source_of(buckets.at_ms, columns)
    plot = time_figure(axis.x_range, 170)
    colours = {"clients": palette.BLUE, "connections": palette.ORANGE}
    for name, colour in colours.items():
        plot.step("x", name, source=source, mode="after", line_color=colour, line_width=1.8)
    add_time_tooltip(plot, source, {name: f"@{name}" for name in colours}, "clients")
    rows = [
        [name, *(numbers.count(f(getattr(i, name) for i in timed)) for f in (min, max))]
        for name in colours
    ]
    return Chart(
        id="clients-over-time",
        title="Clients and their connections",
        description=f"Up to {rows[0][2]} clients and up to {rows[1][2]} connections.",
        plot=finish(axis, plot),
        table=figures_table("Clients and connections", ["", "fewest", "most"], rows),
        key=[KeyEntry(name, colour, "line") for name, colour in colours.items()],
    )


def session_states(axis: TimeAxis) -> Chart | None:
    """Return the chart of client sessions by state; the key names all six, also unused ones."""
    samples = axis.series("metric_activity")
    if not len(samples["at_ms"]):
        return None
    at_ms, columns = pivot(floats(samples["at_ms"]), samples["state"], floats(samples["count"]))
    columns = {state: columns.get(state, np.zeros(len(at_ms))) for state in STATES}
    plot = stacked(axis, at_ms, columns, COLOURS, "0", height=200)
    ids = axis.measured_ids
    table = sessions.origins_table(axis.run, ids) or figures_table(
        "Client sessions by state, on average",
        ["State", "sessions"],
        [[state, f"{values.mean():.3g}"] for state, values in columns.items()],
    )
    return Chart(
        id="session-states",
        title="Client sessions by state",
        description=f"On average {sessions.sentence(axis.run, ids)}.",
        plot=plot,
        table=table,
        key=[KeyEntry(state, COLOURS[state]) for state in reversed(STATES)],
    )


def server_statements(axis: TimeAxis) -> Chart | None:
    """Return the chart of sessions at work by statement; None if their counts were not read."""
    counts = axis.series("statement_count")
    elapsed_ms = floats(counts["duration_ms"])
    alone = view_of(axis.run.run.command).opening is not None  # its page has them in a table
    if alone or not np.nansum(elapsed_ms):
        return None
    ids = counts["statement_id"].astype(np.int64)
    texts = axis.run.statement_texts(set(ids.tolist()))
    groups = [beginning(texts[number]) for number in ids.tolist()]
    busy = floats(counts["exec_ms"]) / np.maximum(elapsed_ms, 1.0)
    at_ms, columns = pivot(floats(counts["at_ms"]) + elapsed_ms / 2, groups, busy)
    shown = _first(columns)
    colours = dict(zip(shown, palette.SERIES, strict=False))
    rows = [[name, numbers.significant(float(part.mean()))] for name, part in shown.items()]
    return Chart(
        id="server-statements",
        title="Sessions at work by statement, as the server counts them",
        description="Time of executing statements per second: with the time that they waited.",
        plot=stacked(axis, at_ms, dict(reversed(shown.items())), colours, "0.00"),
        table=figures_table(
            "Sessions at work by statement, on average", ["Statement", "sessions"], rows
        ),
        key=[KeyEntry(name, colours[name]) for name in shown],
    )


def _first(columns: dict[str, Floats]) -> dict[str, Floats]:
    """Return the groups that take the most time, with short names, at last all others together."""
    ordered = sorted(columns, key=lambda name: -float(columns[name].sum()))
    shown: dict[str, Floats] = {}
    for position, name in enumerate(ordered):
        label = cut(name, TEXT_MAX) if position < GROUPS_MAX else REST
        shown[label] = shown.get(label, 0.0) + columns[name]
    return shown
