"""Charts over time of the host: its processors, its memory's dirty pages, its disks."""

from __future__ import annotations

import numpy as np
from bokeh.models import Range1d

from pgdyno.report import palette
from pgdyno.report.charts._series import Buckets, floats, shares, spaced
from pgdyno.report.charts.chart import Chart, Key, read_off, source_of, time_figure
from pgdyno.report.charts.time_axis import Clockwork, finish, stacked
from pgdyno.report.words import numbers
from pgdyno.report.words.tables import figures_table

CPU_PARTS = {
    "user": palette.GREEN,
    "system": palette.BLUE,
    "I/O wait": palette.ORANGE,
    "steal": palette.RED,
}


def host_cpu(clock: Clockwork) -> Chart | None:
    """Processor time of the host, stacked, as a share of all its cores."""
    samples = clock.series("metric_host")
    far_apart = spaced(floats(samples["at_ms"]))
    samples = {name: values[far_apart] for name, values in samples.items()}
    at_ms = floats(samples["at_ms"])
    names = {"user": "user", "system": "system", "I/O wait": "iowait", "steal": "steal"}
    counters = {label: floats(samples[f"cpu_{name}_ms"]) for label, name in names.items()}
    if len(at_ms) < 2 or np.isnan(counters["user"]).all():
        return None
    parts = shares({**counters, "idle": floats(samples["cpu_idle_ms"])})
    across = np.diff(clock.timeline.number_of(at_ms)) != 0
    parts = {name: np.where(across, np.nan, values) for name, values in parts.items()}
    if np.isnan(parts["user"]).all():
        return None
    idle = parts.pop("idle")
    parts = {name: 100 * values for name, values in parts.items()}
    means = {name: float(np.nan_to_num(np.nanmean(v))) for name, v in parts.items()}
    shown = {name: parts[name] for name in CPU_PARTS if name != "steal" or means["steal"] > 0.05}
    plot = stacked(clock, at_ms[1:], shown, CPU_PARTS, "0.0")
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
        table=figures_table("Host CPU under load", ["", "% of all cores"], rows),
        key=[Key(name, CPU_PARTS[name]) for name in reversed(shown)],
    )


def disk_writes(clock: Clockwork) -> Chart | None:
    """Bytes written per second to the devices that hold data and WAL."""
    samples = clock.series("metric_disk")
    held = np.array([bool(holds) for holds in samples["holds"]], dtype=bool)
    if not held.any():
        return None
    plot = time_figure(clock.x_range, 200)
    key, rows, said = [], [], []
    devices = dict.fromkeys(zip(samples["device"][held], samples["holds"][held], strict=True))
    for (device, holds), colour in zip(devices, palette.SERIES, strict=False):
        chosen = held & (samples["device"] == device)
        at_ms, per_second = clock.rate(
            floats(samples["at_ms"][chosen]), floats(samples["write_bytes"][chosen])
        )
        if not len(at_ms) or np.isnan(per_second).all():
            continue
        _, busy = clock.rate(floats(samples["at_ms"][chosen]), floats(samples["busy_ms"][chosen]))
        buckets = Buckets(at_ms)
        columns = {"mb": buckets.reduce(per_second / 1024**2), "busy": buckets.reduce(busy / 10)}
        source = source_of(*clock.broken(buckets.at_ms, columns))
        plot.line("x", "mb", source=source, line_color=colour, line_width=1.8)
        read_off(plot, source, {device: "@mb{0,0.0} MB/s", "busy": "@busy{0} %"}, "mb")
        name = f"{device} ({_held(holds, '')})"
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
        plot=finish(clock, plot),
        table=figures_table("Disks under load", ["Device", "written", "busy"], rows),
        key=key,
    )


def disk_space(clock: Clockwork) -> Chart | None:
    """How full the file systems of data and WAL are: a WAL without room ends the server."""
    samples = clock.series("metric_space")
    if not len(samples["at_ms"]):
        return None
    plot = time_figure(clock.x_range, 170)
    plot.y_range = Range1d(start=0, end=100)
    key, rows, said = [], [], []
    disks = dict.fromkeys(zip(samples["holds"], samples["filesystem"], strict=True))
    for (holds, filesystem), colour in zip(disks, palette.SERIES, strict=False):
        chosen = (samples["holds"] == holds) & (samples["filesystem"] == filesystem)
        size, free = (floats(samples[name][chosen]) for name in ("size_bytes", "free_bytes"))
        used = 100 * (1 - free / size)
        buckets = Buckets(floats(samples["at_ms"][chosen]))
        columns = {"used": buckets.reduce(used, "max"), "free": buckets.reduce(free, "min")}
        at_ms, columns = clock.broken(buckets.at_ms, {**columns, "free": columns["free"] / 1024**2})
        source = source_of(at_ms, columns)
        name = _held(holds, filesystem)
        plot.line("x", "used", source=source, line_color=colour, line_width=1.8)
        read_off(plot, source, {name: "@used{0.0} %", "free": "@free{0,0} MB"}, "used")
        key.append(Key(name, colour, "line"))
        rows.append([name, numbers.size(size[-1]), numbers.size(free.min()), _used(used[0]),
                     _used(used.max())])  # fmt: skip
        said.append(f"{name}: at most {_used(used.max())} in use, {numbers.size(free.min())} free")
    return Chart(
        id="space",
        title="Disk space in use, %",
        says=numbers.sentence("; ".join(said)),
        plot=finish(clock, plot),
        table=figures_table(
            "Disk space under load",
            ["File system of", "size", "least free", "in use at first", "at most"],
            rows,
        ),
        key=key,
    )


def _held(holds: str, filesystem: str) -> str:
    """``data and WAL (ext4)``."""
    name = holds.replace(",", " and ").replace("wal", "WAL")
    return f"{name} ({filesystem})" if filesystem else name


def _used(per_cent: float) -> str:
    return numbers.percent(per_cent / 100)


def dirty_memory(clock: Clockwork) -> Chart | None:
    """Memory that waits to be written to disk by the kernel, and that is being written."""
    samples = clock.series("metric_host")
    at_ms = floats(samples["at_ms"])
    waiting = floats(samples["dirty_bytes"]) / 1024**2
    written = floats(samples["writeback_bytes"]) / 1024**2
    if len(at_ms) < 2 or np.isnan(waiting).all():
        return None
    parts = {"being written": np.nan_to_num(written), "dirty": waiting}
    colours = {"being written": palette.ORANGE, "dirty": palette.TEAL}
    most, mean = float(np.nanmax(waiting)), float(np.nanmean(waiting))
    at = numbers.clock(float(at_ms[int(np.nanargmax(waiting))]))
    rows = [
        [name, *(numbers.size(float(f(values)) * 1024**2) for f in (np.nanmean, np.nanmax))]
        for name, values in parts.items()
    ]
    return Chart(
        id="dirty",
        title="Memory that the kernel has yet to write, MB",
        says=f"{numbers.size(mean * 1024**2)} on average, at most {numbers.size(most * 1024**2)},"
        f" at {at}.",
        plot=stacked(clock, at_ms, parts, colours, "0,0.0", height=170),
        table=figures_table("Dirty memory under load", ["", "mean", "most"], rows),
        key=[Key(name, colour) for name, colour in reversed(colours.items())],
    )
