"""Charts over time of the host: CPU, dirty memory, disks."""

from __future__ import annotations

import numpy as np
from bokeh.models import Range1d

from pgdyno import numbers
from pgdyno.report import palette
from pgdyno.report.charts._series import Buckets, floats, shares, spaced
from pgdyno.report.charts.chart import Chart, KeyEntry, add_time_tooltip, source_of, time_figure
from pgdyno.report.charts.time_axis import TimeAxis, finish, stacked
from pgdyno.report.words import prose
from pgdyno.report.words.tables import figures_table
from pgdyno.stats.filling import contents_name

CPU_PARTS = {
    "user": palette.GREEN,
    "system": palette.BLUE,
    "I/O wait": palette.ORANGE,
    "steal": palette.RED,
}


def host_cpu(axis: TimeAxis) -> Chart | None:
    """Return the chart of the CPU time of the host, as a share of all cores."""
    samples = axis.series("metric_host")
    far_apart = spaced(floats(samples["at_ms"]))
    samples = {name: values[far_apart] for name, values in samples.items()}
    at_ms = floats(samples["at_ms"])
    names = {"user": "user", "system": "system", "I/O wait": "iowait", "steal": "steal"}
    counters = {label: floats(samples[f"cpu_{name}_ms"]) for label, name in names.items()}
    if len(at_ms) < 2 or np.isnan(counters["user"]).all():
        return None
    parts = shares({**counters, "idle": floats(samples["cpu_idle_ms"])})
    across = np.diff(axis.timeline.number_of(at_ms)) != 0
    parts = {name: np.where(across, np.nan, values) for name, values in parts.items()}
    if np.isnan(parts["user"]).all():
        return None
    idle = parts.pop("idle")
    parts = {name: 100 * values for name, values in parts.items()}
    means = {name: float(np.nan_to_num(np.nanmean(v))) for name, v in parts.items()}
    shown = {name: parts[name] for name in CPU_PARTS if name != "steal" or means["steal"] > 0.05}
    plot = stacked(axis, at_ms[1:], shown, CPU_PARTS, "0.0")
    plot.y_range = Range1d(start=0, end=100)
    cores = axis.run.run.host.get("cores")
    rows = [[name, numbers.percent(means[name] / 100)] for name in shown]
    rows.append(["idle", numbers.percent(float(np.nanmean(idle)))])
    host_note = "" if axis.run.run.host.get("same_host_as_server", True) else (
        " The server is on another machine; this is the host of the load generator."
    )  # fmt: skip
    return Chart(
        id="cpu",
        title=f"Host CPU, % of {cores} cores" if cores else "Host CPU, %",
        description=f"On average {means['user'] + means['system']:.0f} % busy, of which"
        f" {means['system']:.0f} in the kernel; {means['I/O wait']:.0f} % idle with I/O"
        f" outstanding.{host_note}",
        plot=plot,
        table=figures_table("Host CPU under load", ["", "% of all cores"], rows),
        key=[KeyEntry(name, CPU_PARTS[name]) for name in reversed(shown)],
    )


def disk_writes(axis: TimeAxis) -> Chart | None:
    """Return the chart of bytes written per second to the devices of data and WAL."""
    samples = axis.series("metric_disk")
    held = np.array([bool(holds) for holds in samples["holds"]], dtype=bool)
    if not held.any():
        return None
    plot = time_figure(axis.x_range, 200)
    key, rows, sentences = [], [], []
    devices = dict.fromkeys(zip(samples["device"][held], samples["holds"][held], strict=True))
    for (device, holds), colour in zip(devices, palette.SERIES, strict=False):
        chosen = held & (samples["device"] == device)
        at_ms, per_second = axis.rate(
            floats(samples["at_ms"][chosen]), floats(samples["write_bytes"][chosen])
        )
        if not len(at_ms) or np.isnan(per_second).all():
            continue
        _, busy = axis.rate(floats(samples["at_ms"][chosen]), floats(samples["busy_ms"][chosen]))
        buckets = Buckets(at_ms)
        columns = {"mb": buckets.reduce(per_second / 1024**2), "busy": buckets.reduce(busy / 10)}
        source = source_of(*axis.broken(buckets.at_ms, columns))
        plot.line("x", "mb", source=source, line_color=colour, line_width=1.8)
        add_time_tooltip(plot, source, {device: "@mb{0,0.0} MB/s", "busy": "@busy{0} %"}, "mb")
        name = f"{device} ({_disk_name(holds, '')})"
        mean, busy_mean = float(np.nanmean(per_second)), float(np.nanmean(busy)) / 1000
        key.append(KeyEntry(name, colour, "line"))
        rows.append([name, f"{numbers.size(mean)}/s", numbers.percent(busy_mean)])
        sentences.append(f"{name}: {numbers.size(mean)} per second,"
                         f" {numbers.percent(busy_mean)} busy")  # fmt: skip
    if not rows:
        return None
    return Chart(
        id="disk",
        title="Written to disk, MB per second",
        description=f"On average, {'; '.join(sentences)}.",
        plot=finish(axis, plot),
        table=figures_table("Disks under load", ["Device", "written", "busy"], rows),
        key=key,
    )


def disk_space(axis: TimeAxis) -> Chart | None:
    """Return the chart of disk space in use. A full WAL disk stops the server."""
    samples = axis.series("metric_space")
    if not len(samples["at_ms"]):
        return None
    plot = time_figure(axis.x_range, 170)
    plot.y_range = Range1d(start=0, end=100)
    key, rows, sentences = [], [], []
    disks = dict.fromkeys(zip(samples["holds"], samples["filesystem"], strict=True))
    for (holds, filesystem), colour in zip(disks, palette.SERIES, strict=False):
        chosen = (samples["holds"] == holds) & (samples["filesystem"] == filesystem)
        size, free = (floats(samples[name][chosen]) for name in ("size_bytes", "free_bytes"))
        used = 100 * (1 - free / size)
        buckets = Buckets(floats(samples["at_ms"][chosen]))
        columns = {"used": buckets.reduce(used, "max"), "free": buckets.reduce(free, "min")}
        at_ms, columns = axis.broken(buckets.at_ms, {**columns, "free": columns["free"] / 1024**2})
        source = source_of(at_ms, columns)
        name = _disk_name(holds, filesystem)
        plot.line("x", "used", source=source, line_color=colour, line_width=1.8)
        add_time_tooltip(plot, source, {name: "@used{0.0} %", "free": "@free{0,0} MB"}, "used")
        key.append(KeyEntry(name, colour, "line"))
        rows.append([name, numbers.size(size[-1]), numbers.size(free.min()), _used(used[0]),
                     _used(used.max())])  # fmt: skip
        sentences.append(
            f"{name}: at most {_used(used.max())} in use, {numbers.size(free.min())} free"
        )
    return Chart(
        id="space",
        title="Disk space in use, %",
        description=prose.sentence("; ".join(sentences)),
        plot=finish(axis, plot),
        table=figures_table(
            "Disk space under load",
            ["File system of", "size", "least free", "in use at start", "most in use"],
            rows,
        ),
        key=key,
    )


def _disk_name(holds: str, filesystem: str) -> str:
    """Return ``data and WAL (ext4)``."""
    name = contents_name(holds)
    return f"{name} ({filesystem})" if filesystem else name


def _used(per_cent: float) -> str:
    return numbers.percent(per_cent / 100)


def dirty_memory(axis: TimeAxis) -> Chart | None:
    """Return the chart of dirty memory and of memory being written back by the kernel."""
    samples = axis.series("metric_host")
    at_ms = floats(samples["at_ms"])
    waiting = floats(samples["dirty_bytes"]) / 1024**2
    written = floats(samples["writeback_bytes"]) / 1024**2
    if len(at_ms) < 2 or np.isnan(waiting).all():
        return None
    parts = {"being written": np.nan_to_num(written), "dirty": waiting}
    colours = {"being written": palette.ORANGE, "dirty": palette.TEAL}
    most, mean = float(np.nanmax(waiting)), float(np.nanmean(waiting))
    at = numbers.clock(float(at_ms[int(np.nanargmax(waiting))]) / 1000)
    rows = [
        [name, *(numbers.size(float(f(values)) * 1024**2) for f in (np.nanmean, np.nanmax))]
        for name, values in parts.items()
    ]
    return Chart(
        id="dirty",
        title="Dirty memory that the kernel has yet to write, MB",
        description=f"{numbers.size(mean * 1024**2)} on average, at most"
        f" {numbers.size(most * 1024**2)} at {at}.",
        plot=stacked(axis, at_ms, parts, colours, "0,0.0", height=170),
        table=figures_table("Dirty memory under load", ["", "mean", "most"], rows),
        key=[KeyEntry(name, colour) for name, colour in reversed(colours.items())],
    )
