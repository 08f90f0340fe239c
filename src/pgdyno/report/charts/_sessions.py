"""The chart of client sessions over time by state."""

from __future__ import annotations

import numpy as np

from pgdyno.record.sessionages import STATES
from pgdyno.report import palette
from pgdyno.report.charts._series import floats, pivot
from pgdyno.report.charts.chart import Chart, Key
from pgdyno.report.charts.time_axis import TimeAxis, stacked
from pgdyno.report.words import sessions
from pgdyno.report.words.tables import figures_table

COLOURS = dict(
    zip(
        STATES,
        (palette.GREEN, palette.BLUE, palette.ORANGE, palette.RED, palette.PURPLE, palette.GREY),
        strict=True,
    )
)


def session_states(axis: TimeAxis) -> Chart | None:
    """Return the chart of client sessions by state; the key names all six, also unused ones."""
    samples = axis.series("metric_activity")
    if not len(samples["at_ms"]):
        return None
    at_ms, columns = pivot(floats(samples["at_ms"]), samples["state"], floats(samples["count"]))
    columns = {state: columns.get(state, np.zeros(len(at_ms))) for state in STATES}
    plot = stacked(axis, at_ms, columns, COLOURS, "0", height=200)
    ids = axis.measured_ids
    table = sessions.origins_table(axis.run, ids) or figures_table(
        "Client sessions by state, on average",
        ["State", "sessions"],
        [[state, f"{values.mean():.3g}"] for state, values in columns.items()],
    )
    return Chart(
        id="session-states",
        title="Client sessions by state",
        description=f"On average {sessions.sentence(axis.run, ids)}.",
        plot=plot,
        table=table,
        key=[Key(state, COLOURS[state]) for state in reversed(STATES)],
    )
