"""The shared parts of all charts over time: axis, zoom, marks, functions to draw, and the periods
under load.

There is no load between slices, during restarts and during drills. Such periods are gaps in the
charts and are left out of averages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from bokeh.models import DataRange1d, Range1d
from bokeh.plotting import figure
from msgspec import Struct

from pgdyno.facts.course import Course
from pgdyno.facts.intervals import GAP_MS, timed, whole
from pgdyno.record import Interval, RunFile, SliceKind
from pgdyno.report.charts._series import Buckets, Floats, break_gaps, floats, pieces, rate, stack
from pgdyno.report.charts.chart import add_time_tooltip, source_of, time_figure, time_range
from pgdyno.report.charts.event_marks import EventMarks, marks_of
from pgdyno.report.view import view_of

Columns = dict[str, npt.NDArray[Any]]
"""Samples by column: numbers or text, one value for each sample."""
EDGE_MS = 60
"""Tolerance for samples that are taken at a slice boundary, just outside an interval."""


class TimeAxis(Struct, frozen=True):
    """The time axis of all charts of a run, with its marks and the periods under load."""

    run: RunFile
    intervals: Sequence[Interval]
    """Intervals of the whole run, without short ones."""
    marks: EventMarks
    x_range: Range1d
    timeline: Timeline
    starts_ms: frozenset[float]
    """Starts of the intervals that are long enough for a percentile or a mean."""

    def series(self, table: str) -> Columns:
        """Return the samples of a table that were taken under load."""
        return self.under_load(self.run.series(table))

    def under_load(self, columns: Mapping[str, npt.NDArray[Any]]) -> Columns:
        """Return the rows of ``columns``, one of which is at_ms, that are under load."""
        rows = self.timeline.under_load(floats(columns["at_ms"]))
        return {name: values[rows] for name, values in columns.items()}

    def of_whole_intervals(
        self, columns: Mapping[str, npt.NDArray[Any]]
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the rows of ``columns``, one of which is at_ms, without those of short intervals
        at the edges of slices."""
        rows = np.array([at_ms in self.starts_ms for at_ms in columns["at_ms"].tolist()], bool)
        return {name: values[rows] for name, values in columns.items()}

    def rate(self, at_ms: Floats, counter: Floats) -> tuple[Floats, Floats]:
        """Return the growth of a counter per second; NaN across periods without load."""
        return rate(at_ms, counter, self.timeline.number_of(at_ms))

    def broken(
        self, at_ms: Floats, columns: Mapping[str, Floats]
    ) -> tuple[Floats, dict[str, Floats]]:
        """Return ``columns`` with a row of NaN in each gap and each period without load."""
        return break_gaps(at_ms, columns, self.timeline.number_of(at_ms))

    def until_end(self, intervals: Sequence[Interval]) -> list[Interval]:
        """Return ``intervals`` without those that begin while the load is stopping."""
        end_ms = self.timeline.periods[-1][1]
        return [each for each in intervals if each.at_ms < end_ms]

    @property
    def measured_ids(self) -> list[int] | None:
        """Slices that the figures of a run or a soak are of, without ramp, warm-up and what is
        void; None for the whole run."""
        if not view_of(self.run.run.command).is_run:
            return None
        return self.run.valid_slices(SliceKind.RUN) or None

    @property
    def measured(self) -> Sequence[Interval]:
        """Intervals of those slices."""
        ids = self.measured_ids
        within = [each for each in self.intervals if ids is None or each.slice_id in ids]
        return within or self.intervals

    @property
    def mixed(self) -> bool:
        """True if several settings were in force, so that an average over all has no meaning."""
        return bool(self.marks.changed)


def time_axis(run: RunFile, course: Course | None = None) -> TimeAxis:
    """Return the time axis of a run, with marks for its ``course``.

    Intervals while the load is stopping are left out: they would look like a drop.
    """
    intervals = run.intervals()
    measured = max((n for n, each in enumerate(intervals) if each.slice_id is not None), default=-1)
    intervals = intervals[: measured + 1] or intervals
    ends = [interval.at_ms + interval.duration_ms for interval in intervals[-1:]]
    ends += [s.ended_ms for s in run.slices() if s.ended_ms is not None]
    end_ms = max(ends, default=float(run.run.ended_ms or 1000))
    timeline = Timeline.of(intervals, end_ms)
    marks = marks_of(run, end_ms, course)
    starts_ms = frozenset(float(each.at_ms) for each in whole(intervals))
    return TimeAxis(run, timed(intervals), marks, time_range(end_ms), timeline, starts_ms)


def finish(axis: TimeAxis, plot: figure) -> figure:
    """Fit the y axis to the data drawn so far, then draw the marks behind it."""
    if isinstance(plot.y_range, DataRange1d):
        plot.y_range.renderers = list(plot.renderers)
    axis.marks.draw_on(plot)
    return plot


def stacked(
    axis: TimeAxis,
    at_ms: Floats,
    columns: Mapping[str, Floats],
    colours: Mapping[str, str],
    number_format: str,
    height: int = 250,
) -> figure:
    """Return a figure of stacked areas, the first at the bottom, with a tooltip of all."""
    buckets = Buckets(at_ms)
    thinned = {name: buckets.reduce(values) for name, values in columns.items()}
    times_ms, broken = axis.broken(buckets.at_ms, thinned)
    return stacked_areas(axis, times_ms, broken, colours, number_format, height)


def stacked_areas(
    axis: TimeAxis,
    times_ms: Floats,
    columns: Mapping[str, Floats],
    colours: Mapping[str, str],
    number_format: str,
    height: int = 250,
) -> figure:
    """Return a figure of stacked areas through all points; NaN in all columns is a gap."""
    data = {f"part{i}": values for i, values in enumerate(columns.values())}
    edges = stack(columns)
    for i, (bottom, top) in enumerate(edges.values()):
        data |= {f"bottom{i}": bottom, f"top{i}": top}
    source = source_of(times_ms, data)
    plot = time_figure(axis.x_range, height)
    parts = pieces(columns)
    for i, name in enumerate(columns):
        colour = colours[name]
        if len(parts) < 2:
            plot.varea(
                "x", f"bottom{i}", f"top{i}", source=source, fill_color=colour, fill_alpha=0.85
            )
        else:
            outlines = _outlines(times_ms / 1000, *edges[name], parts)
            plot.patches(*outlines, line_color=None, fill_color=colour, fill_alpha=0.85)
    rows = {name: f"@part{i}{{{number_format}}}" for i, name in enumerate(columns)}
    add_time_tooltip(plot, source, dict(reversed(rows.items())), f"top{len(rows) - 1}")
    return finish(axis, plot)


def _outlines(x: Floats, bottom: Floats, top: Floats, parts: Sequence[slice]) -> tuple[Any, Any]:
    """Return the outline of each piece of an area; an area glyph would be drawn across gaps."""
    return (
        [np.concatenate((x[part], x[part][::-1])).astype("float32") for part in parts],
        [np.concatenate((top[part], bottom[part][::-1])).astype("float32") for part in parts],
    )


class Timeline(Struct, frozen=True):
    """The periods under load in order, as pairs of start and end in milliseconds."""

    periods: Sequence[tuple[float, float]]

    @classmethod
    def of(cls, intervals: Sequence[Interval], end_ms: float) -> Timeline:
        """Return the periods that ``intervals`` cover; without any, all time until ``end_ms``."""
        found: list[tuple[float, float]] = []
        for each in intervals:
            ended_ms = each.at_ms + each.duration_ms
            if found and each.at_ms - found[-1][1] <= GAP_MS:
                found[-1] = (found[-1][0], max(found[-1][1], ended_ms))
            else:
                found.append((each.at_ms, ended_ms))
        return cls(found or [(0.0, end_ms)])

    def number_of(self, at_ms: Floats) -> npt.NDArray[np.intp]:
        """Return for each time the number of its period, or of the last one before it."""
        begins = np.array([begin for begin, _ in self.periods]) - EDGE_MS
        return np.searchsorted(begins, at_ms, side="right") - 1

    def under_load(self, at_ms: Floats) -> npt.NDArray[np.bool_]:
        """Return for each time whether it is within a period."""
        numbers = self.number_of(at_ms)
        ends = np.array([end for _, end in self.periods])
        return (numbers >= 0) & (at_ms <= ends[np.maximum(numbers, 0)] + EDGE_MS)
