"""Charts over time of the server: what its sessions wait for, and the WAL that it writes."""

from __future__ import annotations

import numpy as np
from bokeh.models.annotations import Span

from pgdyno.report import numbers, palette
from pgdyno.report.chart import Chart, Key
from pgdyno.report.clockwork import Clockwork, stacked
from pgdyno.report.series import floats, growth, pivot, rate
from pgdyno.report.tables import figures_table

PAGE_BYTES = 8192
"""PostgreSQL's page; builds with another are rare, and the chart says "at most"."""

CPU_PARTS = {
    "user": palette.GREEN,
    "system": palette.BLUE,
    "I/O wait": palette.ORANGE,
    "steal": palette.RED,
}


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
    if not columns:
        return None
    order = [c for c in palette.WAIT_CLASSES if c in columns]
    order += sorted(set(columns) - set(order))
    means = {name: float(columns[name].mean()) for name in order}
    total = sum(means.values())
    cores = clock.run.run.server.get("cores") or clock.run.run.host.get("cores")
    plot = stacked(
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
        f" most were {_class_phrase(largest)} ({numbers.percent(means[largest] / total)})."
        " On busy cores a session that was woken shows the wait it came from until it gets a core.",
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
    plot = stacked(clock, ends_ms, parts, colours, "0.0", height=200)
    checkpoints = sum(mark.kind == "checkpoint" for mark in clock.marks.marks)
    mean = float(np.nanmean(per_second))
    rows = [
        ["mean", f"{numbers.size(mean)}/s"],
        ["highest second", f"{numbers.size(float(np.nanmax(per_second)))}/s"],
        ["in all", numbers.size(growth(counter))],
        ["checkpoints", numbers.count(checkpoints)],
    ]
    if has_images:
        rows.append(["full-page images", numbers.count(growth(floats(samples["wal_fpi"])))])
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
