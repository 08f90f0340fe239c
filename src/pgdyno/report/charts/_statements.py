"""The chart of the server's time by statement: groups that begin alike, stacked over time."""

from __future__ import annotations

import numpy as np

from pgdyno.record.statements import beginning
from pgdyno.report import palette
from pgdyno.report.charts._series import Floats, floats, pivot
from pgdyno.report.charts.chart import Chart, Key
from pgdyno.report.charts.time_axis import TimeAxis, stacked
from pgdyno.report.words import numbers
from pgdyno.report.words.cutting import cut
from pgdyno.report.words.tables import figures_table

GROUPS_MAX = 6
TEXT_MAX = 60
REST = "all others"


def server_statements(axis: TimeAxis) -> Chart | None:
    """Return the chart of sessions at work by statement; None if their counts were not read."""
    counts = axis.series("statement_count")
    elapsed_ms = floats(counts["duration_ms"])
    if axis.run.run.command == "check" or not np.nansum(elapsed_ms):
        return None
    ids = counts["statement_id"].astype(np.int64)
    texts = axis.run.statement_texts(set(ids.tolist()))
    groups = [beginning(texts[number]) for number in ids.tolist()]
    busy = floats(counts["exec_ms"]) / np.maximum(elapsed_ms, 1.0)
    at_ms, columns = pivot(floats(counts["at_ms"]) + elapsed_ms / 2, groups, busy)
    shown = _first(columns)
    colours = dict(zip(shown, palette.SERIES, strict=False))
    rows = [[name, numbers.significant(float(part.mean()))] for name, part in shown.items()]
    return Chart(
        id="server-statements",
        title="Sessions at work by statement, as the server counts them",
        description="Time of executing statements per second: with the time that they waited.",
        plot=stacked(axis, at_ms, dict(reversed(shown.items())), colours, "0.00"),
        table=figures_table(
            "Sessions at work by statement, on average", ["Statement", "sessions"], rows
        ),
        key=[Key(name, colours[name]) for name in shown],
    )


def _first(columns: dict[str, Floats]) -> dict[str, Floats]:
    """Return the groups that take the most time, with short names, at last all others together."""
    ordered = sorted(columns, key=lambda name: -float(columns[name].sum()))
    shown: dict[str, Floats] = {}
    for position, name in enumerate(ordered):
        label = cut(name, TEXT_MAX) if position < GROUPS_MAX else REST
        shown[label] = shown.get(label, 0.0) + columns[name]
    return shown
