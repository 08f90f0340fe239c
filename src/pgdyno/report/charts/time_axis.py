"""What all charts over time share: one clock, one zoom, the marks, and two ways to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh.models import DataRange1d, Range1d
from bokeh.plotting import figure

from pgdyno.diagnose.course import Course
from pgdyno.diagnose.intervals import timed
from pgdyno.record import Interval, RunFile
from pgdyno.report.charts._series import Buckets, Floats, break_gaps, floats, pieces, rate, stack
from pgdyno.report.charts._timeline import Timeline
from pgdyno.report.charts.chart import read_off, source_of, time_figure, time_range
from pgdyno.report.charts.event_marks import Marks, marks_of


@dataclass(frozen=True)
class Clockwork:
    """What all charts of a run share."""

    run: RunFile
    intervals: Sequence[Interval]
    """Those of the whole run, none of them short."""
    marks: Marks
    x_range: Range1d
    timeline: Timeline

    def series(self, table: str) -> dict[str, Any]:
        """The samples of a table, as the run file's reader has them, that were taken under load."""
        return self.kept(self.run.series(table))

    def kept(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The rows of ``columns``, among which is at_ms, that fall under load."""
        rows = self.timeline.under_load(floats(columns["at_ms"]))
        return {name: values[rows] for name, values in columns.items()}

    def rate(self, at_ms: Floats, counter: Floats) -> tuple[Floats, Floats]:
        """Growth of a counter per second; unknown where the load was down in between."""
        return rate(at_ms, counter, self.timeline.number_of(at_ms))

    def broken(
        self, at_ms: Floats, columns: Mapping[str, Floats]
    ) -> tuple[Floats, dict[str, Floats]]:
        """``columns`` with a row of nothing wherever the load was down."""
        return break_gaps(at_ms, columns, self.timeline.number_of(at_ms))

    def until_end(self, intervals: Sequence[Interval]) -> list[Interval]:
        """``intervals`` but those that end while the load is being stopped."""
        end_ms = self.timeline.stretches[-1][1]
        return [each for each in intervals if each.at_ms < end_ms]

    @property
    def mixed(self) -> bool:
        """Whether several settings were in force, so that an average over them means nothing."""
        return bool(self.marks.changed)


def clockwork(run: RunFile, course: Course | None = None) -> Clockwork:
    """Reads what all time charts need; ``course`` is marked on them.

    What ends while the load is being stopped is left out: it would look like a drop.
    """
    intervals = run.intervals()
    measured = max((n for n, each in enumerate(intervals) if each.slice_id is not None), default=-1)
    intervals = intervals[: measured + 1] or intervals
    ends = [interval.at_ms + interval.duration_ms for interval in intervals[-1:]]
    ends += [s.ended_ms for s in run.slices() if s.ended_ms is not None]
    end_ms = max(ends, default=float(run.run.ended_ms or 1000))
    timeline = Timeline.of(intervals, end_ms)
    marks = marks_of(run, end_ms, course)
    return Clockwork(run, timed(intervals), marks, time_range(end_ms), timeline)


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
    times_ms, whole = clock.broken(buckets.at_ms, thinned)
    data = {f"part{i}": values for i, values in enumerate(whole.values())}
    edges = stack(whole)
    for i, (bottom, top) in enumerate(edges.values()):
        data |= {f"bottom{i}": bottom, f"top{i}": top}
    source = source_of(times_ms, data)
    plot = time_figure(clock.x_range, height)
    parts = pieces(whole)
    for i, name in enumerate(whole):
        style: dict[str, Any] = {"fill_color": colours[name], "fill_alpha": 0.85}
        if len(parts) < 2:
            plot.varea("x", f"bottom{i}", f"top{i}", source=source, **style)
        else:
            plot.patches(*_outlines(times_ms / 1000, *edges[name], parts), line_color=None, **style)
    rows = {name: f"@part{i}{{{number_format}}}" for i, name in enumerate(whole)}
    read_off(plot, source, dict(reversed(rows.items())), f"top{len(rows) - 1}")
    return finish(clock, plot)


def _outlines(x: Floats, bottom: Floats, top: Floats, parts: Sequence[slice]) -> tuple[Any, Any]:
    """Each piece of an area as an outline of its own: areas are drawn through what is not there."""
    return (
        [np.concatenate((x[part], x[part][::-1])).astype("float32") for part in parts],
        [np.concatenate((top[part], bottom[part][::-1])).astype("float32") for part in parts],
    )
