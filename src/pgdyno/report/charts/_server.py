"""Charts over time of the server: waits of its sessions, and the WAL that it writes.

Samplings in batches are steps: each covers the time in which it was sampled. Times are milliseconds
since the start of the run, in one-dimensional numpy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from bokeh.models.annotations import Span

from pgdyno import numbers
from pgdyno.record import Series
from pgdyno.record.fileformat import CLIENT_BACKEND
from pgdyno.report import palette, session_waits
from pgdyno.report.charts._series import POINTS_MAX, Buckets, Floats, floats, growth, pivot
from pgdyno.report.charts.chart import Chart, KeyEntry
from pgdyno.report.charts.time_axis import TimeAxis, stacked, stacked_areas
from pgdyno.report.words.tables import figures_table
from pgdyno.wait_events import ROW_LOCK, WAL_FLUSH

LATE_FACTOR = 1.8
"""Multiple of its usual length up to which a batch begins at the end of the one before it."""
PAGE_BYTES = 8192
"""PostgreSQL's default page size; the chart says "at most", because builds may differ."""
TICKS_MIN = 3
"""Number of samplings below which a batch is joined with the one before it."""
TOP_SHARE = 1.05
"""Share of the highest value up to which the line of the cores is within the chart."""
FAMILIES = {"the WAL flush": WAL_FLUSH, "row locks": ROW_LOCK}
"""Waits for one thing that PostgreSQL reports as several events."""


def batch_begins(ends_ms: Floats, ticks: Floats) -> Floats:
    """Return the begin of each batch from its end and its number of samplings."""
    if len(ends_ms) < 2:
        return ends_ms - 100.0 * ticks
    distances_ms = np.diff(ends_ms)
    lengths_ms = ticks * float(np.median(distances_ms / ticks[1:]))
    begins_ms = ends_ms - lengths_ms
    follows = distances_ms <= LATE_FACTOR * lengths_ms[1:]
    begins_ms[1:] = np.where(follows, ends_ms[:-1], begins_ms[1:])
    return begins_ms


def joined(
    begins_ms: Floats,
    ends_ms: Floats,
    ticks: Floats,
    columns: Mapping[str, Floats],
    ticks_min: int,
) -> tuple[Floats, Floats, dict[str, Floats]]:
    """Return batches without short ones: a batch of fewer than ``ticks_min`` samplings is averaged
    with the batch that it follows, or left out if there is none."""
    kept = ticks >= ticks_min
    if not kept.any():
        kept = np.ones(len(ticks), dtype=bool)
    owner = -1
    weights, lasts_ms = ticks.copy(), ends_ms.copy()
    sums = {name: values * ticks for name, values in columns.items()}
    for index in range(len(ticks)):
        if kept[index]:
            owner = index
        elif owner >= 0 and begins_ms[index] <= lasts_ms[owner]:
            weights[owner] += ticks[index]
            lasts_ms[owner] = ends_ms[index]
            for values in sums.values():
                values[owner] += values[index]
    return (
        begins_ms[kept],
        lasts_ms[kept],
        {name: values[kept] / weights[kept] for name, values in sums.items()},
    )


def steps(
    begins_ms: Floats, ends_ms: Floats, columns: Mapping[str, Floats]
) -> tuple[Floats, dict[str, Floats]]:
    """Return two points for each batch, and a NaN row between batches that do not follow each
    other. Many batches are merged."""
    buckets = Buckets(begins_ms, POINTS_MAX // 3)
    lasts = np.append(buckets.firsts[1:], len(ends_ms)) - 1
    begins_ms, ends_ms = begins_ms[buckets.firsts], ends_ms[lasts]
    times_ms = np.column_stack((begins_ms, ends_ms)).ravel()
    gaps = 2 * (np.flatnonzero(begins_ms[1:] > ends_ms[:-1]) + 1)
    return np.insert(times_ms, gaps, times_ms[gaps]), {
        name: np.insert(np.repeat(buckets.reduce(values), 2), gaps, np.nan)
        for name, values in columns.items()
    }


def active_sessions(axis: TimeAxis) -> Chart | None:
    """Return the chart of active client backends by wait event, with the number of cores."""
    samples = axis.under_load(axis.run.wait_series())
    client = (samples["backend_type"] == CLIENT_BACKEND) & (samples["state"] == "active")
    if not client.any():
        return None
    kinds = zip(samples["wait_event_type"], samples["wait_event"], strict=True)
    names = [session_waits.event_of(*kind) for kind in kinds]
    average = np.where(client, floats(samples["average"]), 0.0)
    at_ms, columns = pivot(floats(samples["at_ms"]), names, average)
    ticks = _ticks_at(samples, at_ms)
    means = {name: float(np.average(values, weights=ticks)) for name, values in columns.items()}
    means = {name: mean for name, mean in means.items() if mean}
    if not means:
        return None
    single = dict(means)
    named = session_waits.largest(means)
    means = session_waits.with_others_summed(means, named)
    parts = {name: columns[name] for name in means if name != session_waits.OTHER}
    if session_waits.OTHER in means:
        rest = [values for name, values in columns.items() if name not in named]
        parts[session_waits.OTHER] = np.sum(rest, axis=0)
    colours = session_waits.colours(parts)
    times_ms, blocks = _sampled(axis, at_ms, ticks, parts)
    plot = stacked_areas(axis, times_ms, blocks, colours, "0.00")
    key = [KeyEntry(session_waits.label(name), colours[name]) for name in reversed(parts)]
    cores = axis.run.run.server.get("cores") or axis.run.run.host.get("cores")
    if cores and cores <= TOP_SHARE * float(np.nanmax(sum(blocks.values()))):
        line = Span(
            dimension="width", location=cores, line_color=palette.RED, line_dash="dashed",
            line_width=2,
        )  # fmt: skip
        plot.add_layout(line)
        key.append(KeyEntry(f"{cores} cores", palette.RED, "dash"))
    total = sum(means.values())
    rows = [
        [session_waits.label(name), numbers.significant(mean), numbers.percent(mean / total)]
        for name, mean in sorted(means.items(), key=lambda item: -item[1])
    ]
    return Chart(
        id="sessions",
        title="Average active sessions by wait event",
        description=f"{numbers.significant(total)} sessions were active on average"
        f"{f' on {cores} cores' if cores else ''}; {_largest_words(single)}."
        " On a busy CPU, a session that was woken still shows its last wait until it runs.",
        plot=plot,
        table=figures_table(
            "Average active sessions under load", ["Wait event", "sessions", "share"], rows
        ),
        key=key,
    )


def _largest_words(means: Mapping[str, float]) -> str:
    """Return the state of most sessions, or the largest share, and waits for one thing that are
    larger in sum."""
    total = sum(means.values())
    largest = max(means, key=lambda name: means[name])
    share = numbers.percent(means[largest] / total)
    if means[largest] > 0.5 * total:
        return f"most were {session_waits.phrase(largest)} ({share})"
    words = f"the largest single share, {share}, was {session_waits.phrase(largest)}"
    families = {
        name: sum(means[each] for each in means if session_waits.is_in(each, events))
        for name, events in FAMILIES.items()
    }
    name = max(families, key=lambda name: families[name])
    if families[name] <= 1.01 * means[largest]:
        return words
    return f"{words}; waits for {name} were {numbers.percent(families[name] / total)} in sum"


def _ticks_at(samples: Series, at_ms: Floats) -> Floats:
    """Return the number of samplings in the batch at each time."""
    by_time = dict(zip(floats(samples["at_ms"]).tolist(), samples["ticks"].tolist(), strict=True))
    return np.array([by_time[moment] for moment in at_ms.tolist()], dtype=np.float64)


def _sampled(
    axis: TimeAxis, ends_ms: Floats, ticks: Floats, columns: Mapping[str, Floats]
) -> tuple[Floats, dict[str, Floats]]:
    """Return the averages of batches of samplings as steps, with NaN where nothing was sampled."""
    periods = axis.timeline.number_of(ends_ms)
    loaded_ms = np.array([begin for begin, _ in axis.timeline.periods])[np.maximum(periods, 0)]
    begins_ms = np.maximum(batch_begins(ends_ms, ticks), np.minimum(loaded_ms, ends_ms))
    begins_ms, ends_ms, columns = joined(begins_ms, ends_ms, ticks, columns, TICKS_MIN)
    return steps(begins_ms, ends_ms, columns)


def wal(axis: TimeAxis) -> Chart | None:
    """Return the chart of WAL written per second, with its full-page images, or at most so many."""
    samples = axis.series("metric_wal")
    at_ms = floats(samples["at_ms"])
    # The insert position is exact; backends report wal_bytes only about once a second.
    known = not np.isnan(floats(samples["insert_lsn_bytes"])).all()
    column = "insert_lsn_bytes" if known else "wal_bytes"
    counter = floats(samples[column])
    if len(at_ms) < 2 or np.isnan(counter).all():
        return None
    ends_ms, per_second = axis.rate(at_ms, counter)
    exact = not np.isnan(floats(samples["wal_fpi_bytes"])).all()
    _, images = axis.rate(at_ms, floats(samples["wal_fpi_bytes" if exact else "wal_fpi"]))
    if np.isnan(per_second).all():
        return None
    has_images = not np.isnan(images).all()
    total = per_second / 1024**2
    parts = {"WAL": total}
    if has_images:
        image_part = np.minimum(images * (1 if exact else PAGE_BYTES) / 1024**2, total)
        name = "full-page images" + ("" if exact else ", at most")
        parts = {name: image_part, "other WAL": total - image_part}
    colours = dict(zip(parts, (palette.ORANGE, palette.BLUE), strict=False))
    plot = stacked(axis, ends_ms, parts, colours, "0.0", height=200)
    checkpoints = sum(mark.kind == "checkpoint" for mark in axis.marks.marks)
    mean = float(np.nanmean(per_second))
    rows = [
        ["mean", f"{numbers.size(mean)}/s"],
        ["highest second", f"{numbers.size(float(np.nanmax(per_second)))}/s"],
        ["total", numbers.size(growth(counter))],
        ["checkpoints", numbers.count(checkpoints)],
    ]
    if has_images:
        rows.append(["full-page images", numbers.count(growth(floats(samples["wal_fpi"])))])
    return Chart(
        id="wal",
        title="WAL written, MB per second",
        description=f"{numbers.size(mean)} per second on average, at most"
        f" {numbers.size(float(np.nanmax(per_second)))}; {checkpoints or 'no'}"
        f" checkpoint{'' if checkpoints == 1 else 's'}.",
        plot=plot,
        table=figures_table("WAL under load", ["", "WAL"], rows),
        key=[KeyEntry(name, colour) for name, colour in reversed(colours.items())],
    )
