"""Charts of the parts of the response time: by statement and over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, NumeralTickFormatter
from bokeh.plotting import figure

from pgdyno import numbers
from pgdyno.record import RunFile
from pgdyno.record.latencies import ScriptKind
from pgdyno.report import palette
from pgdyno.report.charts._series import Floats
from pgdyno.report.charts.chart import Chart, KeyEntry, label_row, row_figure, tooltip
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import prose
from pgdyno.report.words.prose import cut
from pgdyno.report.words.tables import figures_table

if TYPE_CHECKING:
    from pgdyno._engine import Histogram

_WAITS: dict[str, ScriptKind] = {"client lag": "client_lag", "pool wait": "pool_wait",
                                 "connecting": "connect"}  # fmt: skip
"""Parts of the response time before a transaction is sent, and their kinds of histograms."""

STATEMENTS_MAX = 4
"""Number of statements that are shown by name; the others are summed."""

LAG = "client lag"
POOL = "pool wait"
CONNECT = "connecting"
OTHER = "other statements"


def merged_histograms(
    run: RunFile, kind: str, key_of: Callable[[tuple[int, int | None]], int | None]
) -> dict[int, Histogram]:
    """Return the merged histograms of all intervals with the same key; ``key_of`` takes (at_ms,
    slice_id).

    In a long run, one interval has the histograms of its neighbours, whose own are empty.
    """
    from pgdyno._engine import Histogram

    columns = run.series("interval")
    merged: dict[int, Histogram] = {}
    rows = zip(columns["at_ms"], columns["slice_id"], columns[f"{kind}_hist"], strict=True)
    for at_ms, slice_id, blob in rows:
        key = key_of((int(at_ms), None if np.isnan(slice_id) else int(slice_id)))
        if blob and key is not None:
            merged.setdefault(key, Histogram()).add_encoded(blob)
    return {key: histogram for key, histogram in merged.items() if histogram.count}


def budget_chart(run: RunFile, summary: RunSummary) -> Chart | None:
    """Return the chart of the parts of a transaction's mean response time, a row for each state."""
    rows = {name: _budget(run, ids) for name, ids in summary.budget_states().items()}
    rows = {name: parts for name, parts in rows.items() if parts}
    if not rows:
        return None
    names = _part_names(rows)
    colours = _part_colours(names)
    widest = max(sum(parts.values()) for parts in rows.values())
    plot = row_figure(len(rows), widest * 1.04)
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
    for position, (row, parts) in enumerate(rows.items()):
        label_row(plot, position, f"{row} · {numbers.ms(sum(parts.values()))}")
    draw_parts(plot, list(rows.values()), colours)
    return Chart(
        id="budget",
        title="Mean response time of a transaction, milliseconds",
        description=_budget_description(rows),
        plot=plot,
        table=figures_table(
            "Mean response time of a transaction",
            ["Setting", *names, "all"],
            [
                [row, *(numbers.ms(parts.get(name, 0.0)) for name in names),
                 numbers.ms(sum(parts.values()))]
                for row, parts in rows.items()
            ],
        ),
        key=[KeyEntry(name, colours[name]) for name in names],
    )  # fmt: skip


def _budget(run: RunFile, slice_ids: list[int] | None) -> dict[str, float]:
    """Return the mean milliseconds per transaction of each part. They add up to the mean response
    time.

    The service time beyond the statements shown is that of other statements, of statements in
    failed transactions, and of the load generator between statements.
    """
    done = run.ledger(slice_ids).done
    if not done:
        return {}
    waits = {name: run.histogram(kind, slice_ids).mean / 1e6 for name, kind in _WAITS.items()}
    service = run.histogram("service", slice_ids).mean / 1e6
    spent: dict[str, float] = defaultdict(float)
    for total in run.statements(slice_ids):
        spent[_short(total.statement)] += total.spent_ns / done / 1e6
    largest = sorted(spent, key=lambda name: -spent[name])[:STATEMENTS_MAX]
    parts = dict(waits)
    parts |= {name: spent[name] for name in spent if name in largest}
    parts[OTHER] = max(service - sum(spent[name] for name in largest), 0.0)
    return parts


def _short(statement: str) -> str:
    return cut(statement, 34)


def _part_names(rows: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the parts that are large enough to show, in the order of a transaction."""
    totals: dict[str, float] = defaultdict(float)
    for parts in rows.values():
        for name, value in parts.items():
            totals[name] += value
    all_time = sum(totals.values())
    names = [name for name in totals if name != OTHER and totals[name] > 0.0005 * all_time]
    return [*names, OTHER]


def _part_colours(names: Sequence[str]) -> dict[str, str]:
    fixed = {LAG: palette.BROWN, POOL: palette.RED, CONNECT: palette.PURPLE, OTHER: palette.GREY}
    free = [c for c in palette.SERIES if c not in fixed.values()]
    rest = iter(free)
    return {name: fixed[name] if name in fixed else next(rest) for name in names}


def draw_parts(
    plot: figure, rows: Sequence[Mapping[str, float]], colours: Mapping[str, str]
) -> None:
    """Draw a bar of consecutive parts for each row."""
    drawn: dict[str, list[object]] = {
        "y": [], "left": [], "right": [], "name": [], "mean": [], "colour": []
    }  # fmt: skip
    for position, parts in enumerate(rows):
        left = 0.0
        for name, colour in colours.items():
            right = left + parts.get(name, 0.0)
            cells = (position, left, right, name, numbers.ms(right - left), colour)
            for column, cell in zip(drawn.values(), cells, strict=True):
                column.append(cell)
            left = right
    bars = plot.hbar(
        y="y", left="left", right="right", height=0.3, source=ColumnDataSource(drawn),
        fill_color="colour", line_color=None,
    )  # fmt: skip
    plot.add_tools(
        HoverTool(renderers=[bars], tooltips=tooltip([("part", "@name"), ("mean", "@mean")]))
    )


def _budget_description(rows: Mapping[str, Mapping[str, float]]) -> str:
    sentences = []
    for name, parts in rows.items():
        total = sum(parts.values())
        most = max(parts, key=lambda part: parts[part])
        sentences.append(
            f'{name}: {numbers.ms(total)}; the largest part is "{most}",'
            f" {numbers.ms(parts[most])} ({numbers.percent(parts[most] / total)})"
        )
    return prose.sentence("; ".join(sentences))


def response_parts(run: RunFile) -> tuple[Floats, dict[str, Floats]]:
    """Return mean waits and mean service time over time, in milliseconds."""
    means = {}
    for name, kind in {"service": "service", **_WAITS}.items():
        merged = merged_histograms(run, kind, lambda interval: interval[0])
        means[name] = {at_ms: histogram.mean / 1e6 for at_ms, histogram in merged.items()}
    times = sorted(means["service"])
    parts = {name: np.array([at.get(t, 0.0) for t in times]) for name, at in means.items()}
    return np.array(times, dtype=np.float64), parts
