"""Charts over the run's time: load, server and host on one clock, with one zoom.

Each function makes one chart, or None where the run has no data for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from bokeh.models import ColumnDataSource, DataRange1d, Range1d
from bokeh.models.annotations import Span
from bokeh.plotting import figure

from pgdyno.record import Interval, RunFile
from pgdyno.report import numbers, palette
from pgdyno.report.chart import (
    Chart,
    Key,
    figures_table,
    read_off,
    source_of,
    time_figure,
    time_range,
)
from pgdyno.report.marks import Marks, event_chart, marks_of
from pgdyno.report.series import (
    POINTS_MAX,
    Buckets,
    Floats,
    break_gaps,
    floats,
    pivot,
    rate,
    shares,
    stack,
)

PAGE_BYTES = 8192
"""PostgreSQL's page; builds with another are rare, and the chart says "at most"."""

CPU_PARTS = {
    "user": palette.GREEN,
    "system": palette.BLUE,
    "I/O wait": palette.ORANGE,
    "steal": palette.RED,
}


@dataclass(frozen=True)
class Clockwork:
    """What all charts of a run share."""

    run: RunFile
    intervals: Sequence[Interval]
    marks: Marks
    x_range: Range1d


def clockwork(run: RunFile) -> Clockwork:
    """Reads what all time charts need."""
    intervals = run.intervals()
    ends = [interval.at_ms + interval.duration_ms for interval in intervals[-1:]]
    ends += [s.ended_ms for s in run.slices() if s.ended_ms is not None]
    ends += [run.run.ended_ms] if run.run.ended_ms is not None else []
    end_ms = max(ends, default=1000.0)
    return Clockwork(run, intervals, marks_of(run, end_ms), time_range(end_ms))


def time_charts(clock: Clockwork) -> list[Chart]:
    """All charts over time that the run has data for, in the order of the page."""
    makers = (
        throughput, latency, active_sessions, host_cpu, wal, disk_writes, clients
    )  # fmt: skip
    charts = [event_chart(clock.marks, clock.x_range), *(make(clock) for make in makers)]
    return [chart for chart in charts if chart is not None]


def _finish(clock: Clockwork, plot: figure) -> figure:
    """Fits the y axis to the data drawn so far, then puts the marks behind it."""
    if isinstance(plot.y_range, DataRange1d):
        plot.y_range.renderers = list(plot.renderers)
    clock.marks.put_on(plot)
    return plot


def _middles(intervals: Sequence[Interval]) -> Floats:
    return np.array([i.at_ms + i.duration_ms / 2 for i in intervals], dtype=np.float64)


def throughput(clock: Clockwork) -> Chart | None:
    """Transactions done per second; where points were merged, with the band of their extremes."""
    timed = [i for i in clock.intervals if i.duration_ms >= 100]
    if not timed:
        return None
    per_second = np.array([i.throughput_tps for i in timed])
    buckets = Buckets(_middles(timed))
    columns = {how: buckets.reduce(per_second, how) for how in ("mean", "min", "max")}
    at_ms, columns = break_gaps(buckets.at_ms, columns)
    source = source_of(at_ms, columns)
    plot = time_figure(clock.x_range, 250)
    key = [Key("transactions per second", palette.BLUE, "line")]
    if buckets.merged:
        plot.varea("x", "min", "max", source=source, fill_color=palette.BLUE, fill_alpha=0.25)
        key.append(Key("lowest to highest second", palette.BLUE, "shade"))
    plot.line("x", "mean", source=source, line_color=palette.BLUE, line_width=1.8)
    read_off(plot, source, {"tps": "@mean{0,0}"}, "mean")
    mean = sum(i.done for i in timed) / (sum(i.duration_ms for i in timed) / 1000)
    lowest, highest = float(per_second.min()), float(per_second.max())
    rows = [
        ["mean", numbers.tps(mean)],
        ["median second", numbers.tps(float(np.median(per_second)))],
        ["lowest second", numbers.tps(lowest)],
        ["highest second", numbers.tps(highest)],
    ]
    return Chart(
        id="throughput",
        title="Throughput, transactions per second",
        says=f"Between {numbers.tps(lowest)} and {numbers.tps(highest)} per second,"
        f" {numbers.tps(mean)} on average over all of the run.",
        plot=_finish(clock, plot),
        table=figures_table("Throughput, transactions per second", ["", "tps"], rows),
        key=key,
    )


LATENCY_LINES = {
    "p50": (palette.GREEN, "solid", 1.8),
    "p95": (palette.BLUE, "solid", 1.5),
    "p99": (palette.ORANGE, "solid", 1.5),
    "max": (palette.RED, "dotted", 1.2),
}


def latency(clock: Clockwork) -> Chart | None:
    """Percentiles of response time per interval, on a logarithmic axis."""
    series = clock.run.latency_series("response", (50, 95, 99, 100), points_max=POINTS_MAX)
    if not len(series["at_ms"]) or np.isnan(series["max"]).all():
        return None
    columns = {name: _positive(series[name]) for name in LATENCY_LINES}
    at_ms, columns = break_gaps(series["at_ms"], columns)
    source = source_of(at_ms, columns)
    plot = time_figure(clock.x_range, 270, log=True)
    for name, (colour, dash, width) in LATENCY_LINES.items():
        plot.line(
            "x", name, source=source, line_color=colour, line_dash=dash, line_width=width
        )  # fmt: skip
    read_off(plot, source, {name: f"@{name}{{0,0.[00]}} ms" for name in LATENCY_LINES}, "p99")
    total = clock.run.histogram("response")
    rows = [[f"p{p}", numbers.ns(total.percentile(p))] for p in (50, 95, 99)]
    rows.append(["max", numbers.ns(total.max)])
    return Chart(
        id="latency",
        title="Response time, milliseconds (logarithmic)",
        says=f"Over all of the run half of the transactions took under"
        f" {numbers.ns(total.percentile(50))}, one in a hundred over"
        f" {numbers.ns(total.percentile(99))}, the longest {numbers.ns(total.max)}.",
        plot=_finish(clock, plot),
        table=figures_table("Response time over all of the run", ["", "response"], rows),
        key=[
            Key(name, colour, "dash" if dash != "solid" else "line")
            for name, (colour, dash, _) in LATENCY_LINES.items()
        ],
    )


def _positive(values: Floats) -> Floats:
    """A logarithmic axis has no zero: such values are gaps."""
    return np.where(values > 0, values, np.nan)


def active_sessions(clock: Clockwork) -> Chart | None:
    """Client backends at work, stacked by what they wait for, against the number of cores."""
    samples = clock.run.wait_series()
    if not len(samples["at_ms"]):
        return None
    client = (samples["backend_type"] == "client backend") & (samples["state"] == "active")
    if not client.any():
        return None
    classes = np.where(samples["wait_event_type"] == "", "running", samples["wait_event_type"])
    average = np.where(client, floats(samples["average"]), 0.0)
    at_ms, columns = pivot(floats(samples["at_ms"]), classes.tolist(), average)
    columns = {name: values for name, values in columns.items() if values.any()}
    order = [c for c in palette.WAIT_CLASSES if c in columns]
    order += sorted(set(columns) - set(order))
    means = {name: float(columns[name].mean()) for name in order}
    total = sum(means.values())
    cores = clock.run.run.server.get("cores") or clock.run.run.host.get("cores")
    plot = _stacked(
        clock,
        at_ms,
        {name: columns[name] for name in order},
        {name: palette.wait_class_colour(name) for name in order},
        "0.00",
    )
    key = [Key(_class_name(name), palette.wait_class_colour(name)) for name in reversed(order)]
    against = ""
    if cores:
        line = Span(
            dimension="width", location=cores, line_color=palette.RED, line_dash="dashed",
            line_width=2,
        )  # fmt: skip
        plot.add_layout(line)
        key.append(Key(f"{cores} cores", palette.RED, "dash"))
        against = f" on {cores} cores"
    largest = max(means, key=lambda name: means[name])
    rows = [
        [_class_name(name), numbers.significant(means[name]), numbers.percent(means[name] / total)]
        for name in sorted(means, key=lambda name: -means[name])
    ]
    return Chart(
        id="sessions",
        title="Average active sessions, by what they wait for",
        says=f"{numbers.significant(total)} sessions were active on average{against};"
        f" most were {_class_phrase(largest)} ({numbers.percent(means[largest] / total)}).",
        plot=plot,
        table=figures_table(
            "Average active sessions over all of the run", ["Wait class", "sessions", "share"], rows
        ),
        key=key,
    )


def _class_name(wait_class: str) -> str:
    return "running (no wait)" if wait_class == "running" else wait_class


def _class_phrase(wait_class: str) -> str:
    if wait_class == "running":
        return "running, or waiting for a core"
    return f"in a wait of class {wait_class}"


def _stacked(
    clock: Clockwork,
    at_ms: Floats,
    columns: Mapping[str, Floats],
    colours: Mapping[str, str],
    number_format: str,
    height: int = 250,
) -> figure:
    """Areas on top of each other, the first at the bottom, with a tooltip of all of them."""
    buckets = Buckets(at_ms)
    thinned = {name: buckets.reduce(values) for name, values in columns.items()}
    edges = stack(thinned)
    data = {f"part{i}": values for i, values in enumerate(thinned.values())}
    for i, (bottom, top) in enumerate(edges.values()):
        data |= {f"bottom{i}": bottom, f"top{i}": top}
    source = source_of(buckets.at_ms, data)
    plot = time_figure(clock.x_range, height)
    for i, name in enumerate(thinned):
        plot.varea(
            "x", f"bottom{i}", f"top{i}", source=source, fill_color=colours[name], fill_alpha=0.85
        )
    rows = {name: f"@part{i}{{{number_format}}}" for i, name in enumerate(thinned)}
    read_off(plot, source, dict(reversed(rows.items())), f"top{len(rows) - 1}")
    return _finish(clock, plot)


def host_cpu(clock: Clockwork) -> Chart | None:
    """Processor time of the host, stacked, as a share of all its cores."""
    samples = clock.run.series("metric_host")
    at_ms = floats(samples["at_ms"])
    names = {"user": "user", "system": "system", "I/O wait": "iowait", "steal": "steal"}
    counters = {label: floats(samples[f"cpu_{name}_ms"]) for label, name in names.items()}
    if len(at_ms) < 2 or np.isnan(counters["user"]).all():
        return None
    parts = shares({**counters, "idle": floats(samples["cpu_idle_ms"])})
    idle = parts.pop("idle")
    parts = {name: 100 * values for name, values in parts.items()}
    means = {name: float(np.nan_to_num(np.nanmean(v))) for name, v in parts.items()}
    shown = {name: parts[name] for name in CPU_PARTS if name != "steal" or means["steal"] > 0.05}
    plot = _stacked(clock, at_ms[1:], shown, CPU_PARTS, "0.0")
    plot.y_range = Range1d(start=0, end=100)
    cores = clock.run.run.host.get("cores")
    rows = [[name, f"{numbers.significant(means[name], 2)} %"] for name in shown]
    rows.append(["idle", f"{numbers.significant(100 * float(np.nanmean(idle)), 2)} %"])
    where = "" if clock.run.run.host.get("same_host_as_server", True) else (
        " The server is on another machine: this is the load generator's."
    )  # fmt: skip
    return Chart(
        id="cpu",
        title=f"Host CPU, % of {cores} cores" if cores else "Host CPU, %",
        says=f"On average {means['user'] + means['system']:.0f} % busy, of which"
        f" {means['system']:.0f} in the kernel; {means['I/O wait']:.0f} % idle with I/O"
        f" outstanding.{where}",
        plot=plot,
        table=figures_table("Host CPU over all of the run", ["", "% of all cores"], rows),
        key=[Key(name, CPU_PARTS[name]) for name in reversed(shown)],
    )


def wal(clock: Clockwork) -> Chart | None:
    """WAL written per second, and how much of it full-page images can be at most."""
    samples = clock.run.series("metric_wal")
    at_ms = floats(samples["at_ms"])
    column = "wal_bytes" if not np.isnan(floats(samples["wal_bytes"])).all() else "insert_lsn_bytes"
    counter = floats(samples[column])
    if len(at_ms) < 2 or np.isnan(counter).all():
        return None
    ends_ms, per_second = rate(at_ms, counter)
    _, images = rate(at_ms, floats(samples["wal_fpi"]))
    has_images = not np.isnan(images).all()
    total = per_second / 1024**2
    parts = {"WAL": total}
    if has_images:
        image_part = np.minimum(images * PAGE_BYTES / 1024**2, total)
        parts = {"full-page images, at most": image_part, "other WAL": total - image_part}
    colours = dict(zip(parts, (palette.ORANGE, palette.BLUE), strict=False))
    plot = _stacked(clock, ends_ms, parts, colours, "0.0", height=200)
    checkpoints = sum(mark.kind == "checkpoint" for mark in clock.marks.marks)
    mean = float(np.nanmean(per_second))
    rows = [
        ["mean", f"{numbers.size(mean)}/s"],
        ["highest second", f"{numbers.size(float(np.nanmax(per_second)))}/s"],
        ["in all", numbers.size(_growth(counter))],
        ["checkpoints", numbers.count(checkpoints)],
    ]
    if has_images:
        rows.append(["full-page images", numbers.count(_growth(floats(samples["wal_fpi"])))])
    return Chart(
        id="wal",
        title="WAL written, MB per second",
        says=f"{numbers.size(mean)} per second on average, at most"
        f" {numbers.size(float(np.nanmax(per_second)))}; {checkpoints or 'no'}"
        f" checkpoint{'' if checkpoints == 1 else 's'}.",
        plot=plot,
        table=figures_table("WAL over all of the run", ["", "WAL"], rows),
        key=[Key(name, colour) for name, colour in reversed(colours.items())],
    )


def _growth(counter: Floats) -> float:
    return float(np.nansum(np.maximum(np.diff(counter), 0)))


def disk_writes(clock: Clockwork) -> Chart | None:
    """Bytes written per second to the devices that hold data and WAL."""
    samples = clock.run.series("metric_disk")
    held = np.array([bool(holds) for holds in samples["holds"]], dtype=bool)
    if not held.any():
        return None
    plot = time_figure(clock.x_range, 200)
    key, rows, said = [], [], []
    devices = dict.fromkeys(zip(samples["device"][held], samples["holds"][held], strict=True))
    for (device, holds), colour in zip(devices, palette.SERIES, strict=False):
        chosen = held & (samples["device"] == device)
        at_ms, per_second = rate(
            floats(samples["at_ms"][chosen]), floats(samples["write_bytes"][chosen])
        )
        if not len(at_ms) or np.isnan(per_second).all():
            continue
        _, busy = rate(floats(samples["at_ms"][chosen]), floats(samples["busy_ms"][chosen]))
        buckets = Buckets(at_ms)
        columns = {"mb": buckets.reduce(per_second / 1024**2), "busy": buckets.reduce(busy / 10)}
        source = source_of(buckets.at_ms, columns)
        plot.line("x", "mb", source=source, line_color=colour, line_width=1.8)
        read_off(plot, source, {device: "@mb{0,0.0} MB/s", "busy": "@busy{0} %"}, "mb")
        name = f"{device} ({holds.replace(',', ' and ').replace('wal', 'WAL')})"
        mean, busy_mean = float(np.nanmean(per_second)), float(np.nanmean(busy)) / 1000
        key.append(Key(name, colour, "line"))
        rows.append([name, f"{numbers.size(mean)}/s", numbers.percent(busy_mean)])
        said.append(f"{name} took {numbers.size(mean)} per second and was"
                    f" {numbers.percent(busy_mean)} busy")  # fmt: skip
    if not rows:
        return None
    return Chart(
        id="disk",
        title="Written to disk, MB per second",
        says=f"On average {numbers.listed(said)}.",
        plot=_finish(clock, plot),
        table=figures_table("Disks over all of the run", ["Device", "written", "busy"], rows),
        key=key,
    )


def clients(clock: Clockwork) -> Chart | None:
    """Clients and their connections, where they differ or change."""
    timed = [i for i in clock.intervals if i.duration_ms >= 100]
    counts = {(i.clients, i.connections) for i in timed}
    if not counts or (len(counts) == 1 and all(c == n for c, n in counts)):
        return None
    buckets = Buckets(np.array([float(i.at_ms) for i in timed]))
    columns = {
        "clients": buckets.reduce(np.array([float(i.clients) for i in timed]), "max"),
        "connections": buckets.reduce(np.array([float(i.connections) for i in timed]), "max"),
    }
    source: ColumnDataSource = source_of(buckets.at_ms, columns)
    plot = time_figure(clock.x_range, 170)
    colours = {"clients": palette.BLUE, "connections": palette.ORANGE}
    for name, colour in colours.items():
        plot.step("x", name, source=source, mode="after", line_color=colour, line_width=1.8)
    read_off(plot, source, {name: f"@{name}" for name in colours}, "clients")
    rows = [
        [name, *(numbers.count(f(getattr(i, name) for i in timed)) for f in (min, max))]
        for name in colours
    ]
    return Chart(
        id="clients-over-time",
        title="Clients and their connections",
        says=f"Up to {rows[0][2]} clients with up to {rows[1][2]} connections.",
        plot=_finish(clock, plot),
        table=figures_table("Clients and connections", ["", "fewest", "most"], rows),
        key=[Key(name, colour, "line") for name, colour in colours.items()],
    )
