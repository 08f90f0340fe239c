"""Marks of events on every time axis, and the chart of events.

Events are thin lines with a tooltip, longer ones also a pale band; slices measured with a change in
force are shaded. Changes of settings between slices are shown only in the chart of events, because
the shading already shows them in the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.models.renderers import DataRenderer
from bokeh.plotting import figure
from msgspec import Struct

from pgdyno import numbers
from pgdyno.facts.course import Course
from pgdyno.record import Event, RunFile, Slice, SliceKind
from pgdyno.record.finding import Finding
from pgdyno.report import palette
from pgdyno.report.charts.chart import (
    Chart,
    KeyEntry,
    hover_clock,
    plain_figure,
    time_figure,
    tooltip,
)
from pgdyno.report.words.tables import Table

LISTED_MAX = 60
"""Maximum number of rows of the table of events."""

ONE = {
    "sql": "SQL event",
    "setting": "change of a setting",
    "change": "sudden change",
    "own": "intervention of pgdyno",
}
SEVERAL = {
    "sql": "SQL events",
    "setting": "changes of settings",
    "change": "sudden changes",
    "level": "changes named during the run",
    "own": "interventions of pgdyno",
}

SHADE = KeyEntry("change in force", palette.GREY, "shade")


class Mark(Struct, frozen=True):
    """An event in the charts."""

    kind: str
    label: str
    from_ms: float
    to_ms: float


class EventMarks(Struct, frozen=True):
    """All events and shaded periods of a run, which every time chart shows."""

    marks: Sequence[Mark]
    trials: Sequence[Mark]
    """Each trial, from its first to its last slice."""
    changed: Sequence[Slice]
    """Slices of trials with a change in force."""
    end_ms: float

    def draw_on(self, plot: figure) -> None:
        """Draw the shading, and a line with a label for each event, behind the data of ``plot``."""
        if self.changed:
            self.shade(plot)
        lined = [m for m in self.marks if not (self.changed and m.kind in ("setting", "restart"))]
        if not lined:
            return
        source = _source(lined)
        bands = plot.vstrip(
            "from_s", "to_s", source=source, fill_color="colour", fill_alpha=0.12, line_color=None
        )
        lines = plot.vspan("from_s", source=source, line_color="colour", line_alpha=0.55)
        bands.level = lines.level = "underlay"
        plot.add_tools(_hover([lines]))

    def shade(self, plot: figure) -> None:
        """Shade the slices with a change in force."""
        strips = plot.vstrip(
            [s.started_ms / 1000 for s in self.changed],
            [(s.ended_ms or self.end_ms) / 1000 for s in self.changed],
            fill_color=palette.GREY,
            fill_alpha=0.16,
            line_color=None,
        )
        strips.level = "underlay"


def marks_of(run: RunFile, end_ms: float, course: Course | None = None) -> EventMarks:
    """Return the marks of ``run`` and of its ``course``; without a course, stalls are taken from
    the evidence of findings."""
    marks = [_mark(event) for event in run.events() if not is_missing_probe(event)]
    marks += _stalls(run.findings()) if course is None else _course_marks(course)
    changed = [s for s in run.slices(SliceKind.TRIAL) if s.side == "b"]
    in_order = sorted(marks, key=lambda mark: mark.from_ms)
    return EventMarks(in_order, list(_trial_marks(run, end_ms)), changed, end_ms)


def is_missing_probe(event: Event) -> bool:
    """Return whether an event reports a probe that could not measure, and so has no time."""
    return event.kind == "probe" and "reason" in event.detail


def event_chart(marks: EventMarks, x_range: Range1d) -> Chart | None:
    """Return a chart with a lane for each kind of event; None if there are no events."""
    shown = [*marks.trials, *marks.marks]
    if not shown:
        return None
    present = {mark.kind for mark in shown}
    kinds = [k for k in palette.EVENTS if k in present] + sorted(present - set(palette.EVENTS))
    plot = time_figure(x_range, height=40 + 26 * len(kinds))
    plot.y_range = plain_figure(1, y_range=(len(kinds) - 0.4, -0.6)).y_range
    plot.yaxis.visible = False
    plot.ygrid.visible = False
    if marks.changed:
        marks.shade(plot)
    source = _source(shown)
    source.data["lane"] = [kinds.index(mark.kind) for mark in shown]
    shortest_ms = marks.end_ms / 400
    source.data["end_s"] = [max(mark.to_ms, mark.from_ms + shortest_ms) / 1000 for mark in shown]
    bars = plot.hbar(
        y="lane", left="from_s", right="end_s", height=0.7, source=source, fill_color="colour",
        line_color="colour",
    )  # fmt: skip
    plot.add_tools(_hover([bars]))
    key = [KeyEntry(_plural(kind), palette.event_colour(kind)) for kind in kinds]
    return Chart(
        id="events",
        title="Events",
        description=_description(shown, kinds),
        plot=plot,
        table=_table(shown),
        key=[*key, SHADE] if marks.changed else key,
    )


def _trial_marks(run: RunFile, end_ms: float) -> Iterable[Mark]:
    for trial in run.trials():
        if slices := run.slices(trial_id=trial.id):
            last_ms = max(piece.ended_ms or end_ms for piece in slices)
            gap_ms = end_ms / 600
            yield Mark("trial", trial.title, slices[0].started_ms + gap_ms, last_ms - gap_ms)


def _mark(event: Event) -> Mark:
    return Mark(event.kind, event.label, event.at_ms, event.at_ms + (event.duration_ms or 0))


def _course_marks(course: Course) -> Iterator[Mark]:
    for change in course.all_changes:
        yield Mark("change", change.sentence, change.at_ms, change.at_ms)
    for drop in course.drops:
        yield Mark("drop", course.drop_sentence(drop), *drop.window_ms)


def _stalls(findings: Iterable[Finding]) -> Iterable[Mark]:
    """Yield the windows in the evidence of stalls, each once."""
    windows = {
        evidence.window_ms: evidence.name
        for finding in findings
        if finding.id == "stall" and finding.rank is not None
        for evidence in finding.evidence
        if evidence.unit == "ms" and evidence.window_ms
    }
    return (Mark("stall", name, start, end) for (start, end), name in windows.items())


def _source(marks: Sequence[Mark]) -> ColumnDataSource:
    return ColumnDataSource(
        {
            "from_s": [mark.from_ms / 1000 for mark in marks],
            "to_s": [mark.to_ms / 1000 for mark in marks],
            "colour": [palette.event_colour(mark.kind) for mark in marks],
            "label": [_label(mark) for mark in marks],
            "kind": [mark.kind for mark in marks],
        }
    )


def _label(mark: Mark) -> str:
    seconds = (mark.to_ms - mark.from_ms) / 1000
    if mark.kind == "drop":  # its sentence has the duration
        return mark.label
    return f"{mark.label}, {numbers.duration(seconds)}" if seconds >= 0.001 else mark.label


def _hover(renderers: list[DataRenderer]) -> HoverTool:
    return HoverTool(
        renderers=renderers,
        tooltips=tooltip([("event", "@label"), ("at", "@from_s{custom}")]),
        formatters={"@from_s": hover_clock()},
    )


def _plural(kind: str) -> str:
    return SEVERAL.get(kind, f"{kind}s")


def _description(marks: Sequence[Mark], kinds: Sequence[str]) -> str:
    counts = {kind: sum(mark.kind == kind for mark in marks) for kind in kinds}
    parts = [
        f"{count} {_plural(kind) if count > 1 else ONE.get(kind, kind)}"
        for kind, count in counts.items()
    ]
    return f"{numbers.listed(parts, most=None)}."


def _table(marks: Sequence[Mark]) -> Table:
    rows = [
        [numbers.clock(m.from_ms / 1000), m.kind, _label(m)]
        for m in sorted(marks, key=lambda mark: mark.from_ms)[:LISTED_MAX]
    ]
    left_out = len(marks) - len(rows)
    caption = "Events in the order in which they began"
    if left_out > 0:
        caption += f"; {left_out} later events are in the run file"
    return Table(caption, ["At", "Kind", "Event"], rows)
