"""Charts over time of the client groups: due and done transactions, queues, connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from bokeh.plotting import figure

from pgdyno import numbers
from pgdyno.facts.intervals import timed
from pgdyno.record import GroupInterval, Interval
from pgdyno.report import palette
from pgdyno.report.charts._series import Buckets, Floats
from pgdyno.report.charts.chart import Chart, KeyEntry, add_time_tooltip, source_of, time_figure
from pgdyno.report.charts.time_axis import TimeAxis, finish
from pgdyno.report.words.tables import figures_table

GROUPS_MAX = 8
"""Number of groups that are drawn; the table has all."""
TIMED_MS = 500
"""Minimum length of an interval; the rates of shorter ones, at slice boundaries, are noisy."""


def group_charts(axis: TimeAxis) -> list[Chart]:
    """Return the charts that the groups have data for."""
    by_group: dict[str, list[Interval]] = {}
    for interval in axis.run.intervals(by=("client_group",)):
        by_group.setdefault(str(interval.client_group), []).append(interval)
    by_group = {name: timed(axis.until_end(rows)) for name, rows in by_group.items()}
    open_loops = _open_loops(axis, by_group)
    made = [_throughput(axis, by_group), *(_due_and_done(axis, *it) for it in open_loops.items())]
    made += [_queues(axis, open_loops), _connects(axis)]
    return [chart for chart in made if chart is not None]


def _open_loops(
    axis: TimeAxis, by_group: Mapping[str, list[Interval]]
) -> dict[str, list[Interval]]:
    groups = axis.run.run.spec.get("clients") or []
    names = [group["name"] for group in groups if isinstance(group.get("arrival"), Mapping)]
    return {name: by_group[name] for name in names[:GROUPS_MAX] if name in by_group}


def _per_second(counts: Sequence[float], durations_ms: Sequence[float]) -> Floats:
    return np.array([1000 * n / ms for n, ms in zip(counts, durations_ms, strict=True)], float)


def _middle_ms(intervals: Sequence[Interval | GroupInterval]) -> Floats:
    return np.array([i.at_ms + i.duration_ms / 2 for i in intervals], float)


def _throughput(axis: TimeAxis, by_group: Mapping[str, list[Interval]]) -> Chart | None:
    """Return the chart of transactions done per second by group, if there are several."""
    busy = {name: rows for name, rows in by_group.items() if any(row.done for row in rows)}
    if len(busy) < 2:
        return None
    colours = dict(zip(busy, palette.SERIES, strict=False))
    plot = time_figure(axis.x_range, 250)
    rows = []
    for name, intervals in busy.items():
        tps = np.array([i.throughput_tps for i in intervals])
        seconds = sum(i.duration_ms for i in intervals) / 1000
        mean = sum(i.done for i in intervals) / seconds
        rows.append([name, *map(numbers.tps, (mean, float(tps.min()), float(tps.max())))])
        if name in colours:
            _draw_line(axis, plot, intervals, tps, name, colours[name])
    largest = max(rows, key=lambda row: float(row[1].replace(",", "")))
    return Chart(
        id="group-throughput",
        title="Throughput of each client group, transactions per second",
        description=f"The largest is {largest[0]}, with {largest[1]} per second on average.",
        plot=finish(axis, plot),
        table=figures_table(
            "Throughput of the groups", ["Group", "mean", "lowest second", "highest second"], rows
        ),
        key=[KeyEntry(name, colour, "line") for name, colour in colours.items()],
    )


def _draw_line(
    axis: TimeAxis,
    plot: figure,
    intervals: Sequence[Interval],
    values: Floats,
    name: str,
    colour: str,
) -> None:
    buckets = Buckets(_middle_ms(intervals))
    at_ms, columns = axis.broken(buckets.at_ms, {"value": buckets.reduce(values)})
    source = source_of(at_ms, columns)
    plot.line("x", "value", source=source, line_color=colour, line_width=1.8)
    add_time_tooltip(plot, source, {name: "@value{0,0.[0]}"}, "value")


def _due_and_done(axis: TimeAxis, name: str, intervals: list[Interval]) -> Chart:
    """Return the chart of an open loop: transactions due, done and skipped per second."""
    durations = [i.duration_ms for i in intervals]
    rates = {
        "due": _per_second([i.intended for i in intervals], durations),
        "done": _per_second([i.done for i in intervals], durations),
        "skipped": _per_second([i.skipped for i in intervals], durations),
    }
    if not rates["skipped"].any():
        del rates["skipped"]
    colours = {"due": palette.GREY, "done": palette.BLUE, "skipped": palette.RED}
    buckets = Buckets(_middle_ms(intervals))
    at_ms, columns = axis.broken(
        buckets.at_ms, {kind: buckets.reduce(values) for kind, values in rates.items()}
    )
    source = source_of(at_ms, columns)
    plot = time_figure(axis.x_range, 220)
    for kind in rates:
        plot.line(
            "x", kind, source=source, line_color=colours[kind], line_width=1.8,
            line_dash="dashed" if kind == "due" else "solid",
        )  # fmt: skip
    add_time_tooltip(plot, source, {kind: f"@{kind}{{0,0.[0]}}" for kind in rates}, "due")
    seconds = sum(durations) / 1000
    due, done = sum(i.intended for i in intervals), sum(i.done for i in intervals)
    rows = [
        [kind, numbers.tps(float(values.mean())), numbers.tps(float(values.max()))]
        for kind, values in rates.items()
    ]
    return Chart(
        id=f"due-{_slug(name)}",
        title=f"{name}: transactions due and done per second",
        description=f"Per second, {numbers.tps(due / seconds)} were due and"
        f" {numbers.tps(done / seconds)} were done.",
        plot=finish(axis, plot),
        table=figures_table(f"{name}, per second", ["", "mean second", "highest second"], rows),
        key=[KeyEntry(kind, colours[kind], "dash" if kind == "due" else "line") for kind in rates],
    )


def _queues(axis: TimeAxis, open_loops: Mapping[str, list[Interval]]) -> Chart | None:
    """Return the chart of transactions of open loops that were due and not done."""
    waiting = {n: rows for n, rows in open_loops.items() if any(i.backlog for i in rows)}
    if not waiting:
        return None
    colours = dict(zip(waiting, palette.SERIES, strict=False))
    plot = time_figure(axis.x_range, 200)
    rows = []
    for name, intervals in waiting.items():
        backlog = np.array([float(i.backlog) for i in intervals])
        _draw_line(axis, plot, intervals, backlog, name, colours[name])
        rows.append([name, numbers.count(backlog.max()), numbers.count(backlog[-1])])
    longest = max(waiting, key=lambda n: max(i.backlog for i in waiting[n]))
    most = max(i.backlog for i in waiting[longest])
    return Chart(
        id="queues",
        title="Transactions due and not yet done",
        description=f"At most {numbers.count(most)}, in {longest}, including those in progress.",
        plot=finish(axis, plot),
        table=figures_table("Due and not yet done", ["Group", "most", "at the end"], rows),
        key=[KeyEntry(name, colour, "line") for name, colour in colours.items()],
    )


def _connects(axis: TimeAxis) -> Chart | None:
    """Return the chart of connections established per second, where groups kept connecting."""
    by_group: dict[str, list[GroupInterval]] = {}
    for row in axis.run.group_intervals():
        if row.duration_ms >= TIMED_MS:
            by_group.setdefault(row.client_group, []).append(row)
    connecting = {
        name: rows for name, rows in by_group.items()
        if sum(row.connects for row in rows) > 2 * max(row.connections for row in rows)
    }  # fmt: skip
    if not connecting:
        return None
    colours = dict(zip(connecting, palette.SERIES, strict=False))
    plot = time_figure(axis.x_range, 200)
    rows = []
    for name, intervals in list(connecting.items())[:GROUPS_MAX]:
        rate = _per_second([i.connects for i in intervals], [i.duration_ms for i in intervals])
        buckets = Buckets(_middle_ms(intervals))
        at_ms, columns = axis.broken(buckets.at_ms, {"value": buckets.reduce(rate)})
        source = source_of(at_ms, columns)
        plot.line("x", "value", source=source, line_color=colours[name], line_width=1.8)
        add_time_tooltip(plot, source, {name: "@value{0,0.[0]}"}, "value")
        took = axis.run.histogram("total", group=name)
        made = sum(i.connects for i in intervals)
        rows.append([name, numbers.count(made), numbers.ns(took.percentile(50)),
                     numbers.ns(took.percentile(99)), numbers.ns(took.max)])  # fmt: skip
    return Chart(
        id="connects",
        title="Connections established per second",
        description="; ".join(
            f"{row[0]} made {row[1]}, half of them within {row[2]}" for row in rows
        )
        + ".",
        plot=finish(axis, plot),
        table=figures_table(
            "Connections established", ["Group", "made", "p50", "p99", "max"], rows
        ),
        key=[KeyEntry(name, colour, "line") for name, colour in colours.items()],
    )


def _slug(name: str) -> str:
    """Return a group's name as part of an HTML id."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in name)
