"""What all charts over time share: one clock, one zoom, the marks, and two ways to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bokeh.models import DataRange1d, Range1d
from bokeh.plotting import figure

from pgdyno.record import Interval, RunFile
from pgdyno.report.chart import read_off, source_of, time_figure, time_range
from pgdyno.report.marks import Marks, marks_of
from pgdyno.report.series import Buckets, Floats, break_gaps, stack


@dataclass(frozen=True)
class Clockwork:
    """What all charts of a run share."""

    run: RunFile
    intervals: Sequence[Interval]
    marks: Marks
    x_range: Range1d


def clockwork(run: RunFile) -> Clockwork:
    """Reads what all time charts need. What ends while the load is being stopped is left out: it
    would look like a drop."""
    intervals = run.intervals()
    measured = max((n for n, each in enumerate(intervals) if each.slice_id is not None), default=-1)
    intervals = intervals[: measured + 1] or intervals
    ends = [interval.at_ms + interval.duration_ms for interval in intervals[-1:]]
    ends += [s.ended_ms for s in run.slices() if s.ended_ms is not None]
    ends += [run.run.ended_ms] if run.run.ended_ms is not None else []
    end_ms = max(ends, default=1000.0)
    return Clockwork(run, intervals, marks_of(run, end_ms), time_range(end_ms))


def finish(clock: Clockwork, plot: figure) -> figure:
    """Fits the y axis to the data drawn so far, then puts the marks behind it."""
    if isinstance(plot.y_range, DataRange1d):
        plot.y_range.renderers = list(plot.renderers)
    clock.marks.put_on(plot)
    return plot


def stacked(
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
    times_ms, whole = break_gaps(buckets.at_ms, thinned)
    data = {f"part{i}": values for i, values in enumerate(whole.values())}
    for i, (bottom, top) in enumerate(stack(whole).values()):
        data |= {f"bottom{i}": bottom, f"top{i}": top}
    source = source_of(times_ms, data)
    plot = time_figure(clock.x_range, height)
    for i, name in enumerate(whole):
        plot.varea(
            "x", f"bottom{i}", f"top{i}", source=source, fill_color=colours[name], fill_alpha=0.85
        )
    rows = {name: f"@part{i}{{{number_format}}}" for i, name in enumerate(whole)}
    read_off(plot, source, dict(reversed(rows.items())), f"top{len(rows) - 1}")
    return finish(clock, plot)
