"""Charts of the load's own figures: against the number of clients, and where response time goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from bokeh.models import ColumnDataSource, DataRange1d, HoverTool, NumeralTickFormatter, Range1d
from bokeh.models.renderers import DataRenderer
from bokeh.plotting import figure

from pgdyno.record import Interval, RunFile
from pgdyno.record.latencies import ScriptKind
from pgdyno.report import numbers, palette
from pgdyno.report.chart import Chart, Key, name_row, plain_figure, row_figure, tip
from pgdyno.report.series import Floats
from pgdyno.report.story import Story
from pgdyno.report.tables import figures_table

if TYPE_CHECKING:
    from pgdyno._engine import Histogram

_WAITS: dict[str, ScriptKind] = {"client lag": "client_lag", "pool wait": "pool_wait",
                                 "connecting": "connect"}  # fmt: skip
"""What passes before a transaction is sent, by the kind of histogram that has it."""

LEVELS_MIN = 3
"""Fewer numbers of clients than this make no curve."""
LEVELS_MAX = 40
"""A longer ramp is put into that many classes."""
STATEMENTS_MAX = 4
"""Statements of a transaction shown apart; the rest is summed."""

LAG = "client lag"
POOL = "pool wait"
CONNECT = "connecting"
OTHER = "other statements"


def client_charts(run: RunFile) -> list[Chart]:
    """Throughput and response time against clients, if a ramp or steps made them vary.

    Where some send at a rate, what is done follows the rate and not the clients.
    """
    groups = run.run.spec.get("clients") or []
    if any(isinstance(group.get("arrival"), Mapping) for group in groups):
        return []
    trials = {s.id for s in run.slices() if s.trial_id is not None}
    intervals = [
        i for i in run.intervals()
        if i.clients and i.duration_ms >= 100 and i.slice_id not in trials
    ]  # fmt: skip
    classes = _client_classes(intervals)
    if len(classes) < LEVELS_MIN:
        return []
    return [_tps_against_clients(intervals, classes), _latency_against_clients(run, classes)]


def _client_classes(intervals: Sequence[Interval]) -> dict[int, list[Interval]]:
    """Number of clients → its intervals; many numbers are rounded up to multiples."""
    most = max((i.clients for i in intervals), default=0)
    width = max(1, -(-most // LEVELS_MAX))
    classes: dict[int, list[Interval]] = defaultdict(list)
    for interval in intervals:
        classes[min(-(-interval.clients // width) * width, most)].append(interval)
    return dict(sorted(classes.items()))


def _tps_against_clients(
    intervals: Sequence[Interval], classes: Mapping[int, Sequence[Interval]]
) -> Chart:
    means = {
        level: 1000 * sum(i.done for i in members) / sum(i.duration_ms for i in members)
        for level, members in classes.items()
    }
    plot = _against_clients(max(classes))
    plot.scatter(
        [i.clients for i in intervals][-1500:],
        [i.throughput_tps for i in intervals][-1500:],
        size=5, fill_color=palette.GREY, fill_alpha=0.45, line_color=None,
    )  # fmt: skip
    source = ColumnDataSource({"clients": list(means), "tps": list(means.values())})
    line = plot.line("clients", "tps", source=source, line_color=palette.BLUE, line_width=2)
    plot.scatter("clients", "tps", source=source, size=6, color=palette.BLUE)
    _hover_clients(plot, line, [("tps", "@tps{0,0}")])
    best = max(means, key=lambda level: means[level])
    near = next(level for level in means if means[level] >= 0.95 * means[best])
    return Chart(
        id="tps-clients",
        title="Throughput against clients, transactions per second",
        says=f"At most {numbers.tps(means[best])} per second, with {best} clients; {near} clients"
        " already reach 95 % of that.",
        plot=plot,
        table=figures_table(
            "Throughput against clients",
            ["Clients", "tps"],
            [[str(level), numbers.tps(mean)] for level, mean in means.items()],
        ),
        key=[Key("mean", palette.BLUE, "line"), Key("one interval", palette.GREY)],
    )


def _latency_against_clients(run: RunFile, classes: Mapping[int, Sequence[Interval]]) -> Chart:
    merged = _merged_by_class(run, classes)
    shown = {"p50": (palette.GREEN, 50), "p95": (palette.BLUE, 95), "p99": (palette.ORANGE, 99)}
    data: dict[str, list[float]] = {
        name: [histogram.percentile(p) / 1e6 for histogram in merged.values()]
        for name, (_, p) in shown.items()
    }
    source = ColumnDataSource({"clients": [float(level) for level in merged], **data})
    plot = _against_clients(max(classes))
    for name, (colour, _) in shown.items():
        line = plot.line("clients", name, source=source, line_color=colour, line_width=2)
        plot.scatter("clients", name, source=source, size=5, color=colour)
    _hover_clients(plot, line, [(name, f"@{name}{{0,0.[00]}} ms") for name in shown])
    first, last = next(iter(merged)), next(reversed(merged))
    p95 = dict(zip(merged, data["p95"], strict=True))
    return Chart(
        id="latency-clients",
        title="Response time against clients, milliseconds",
        says=f"p95 is {numbers.ms(p95[first])} with {first} clients and {numbers.ms(p95[last])}"
        f" with {last}.",
        plot=plot,
        table=figures_table(
            "Response time against clients",
            ["Clients", *shown],
            [
                [str(level), *(numbers.ms(data[name][row]) for name in shown)]
                for row, level in enumerate(merged)
            ],
        ),
        key=[Key(name, colour, "line") for name, (colour, _) in shown.items()],
    )


def _merged_by_class(
    run: RunFile, classes: Mapping[int, Sequence[Interval]]
) -> dict[int, Histogram]:
    """Response times of each class of intervals; classes in which nothing ended are left out."""
    level_at = {
        (interval.at_ms, interval.slice_id): level
        for level, members in classes.items()
        for interval in members
    }
    merged = _merged_histograms(run, "response", level_at.get)
    return {level: merged[level] for level in classes if level in merged}


def _merged_histograms(
    run: RunFile, kind: str, key_of: Callable[[tuple[int, int | None]], int | None]
) -> dict[int, Histogram]:
    """Histograms of all intervals with the same key; ``key_of`` takes (at_ms, slice_id).

    In a long run one interval holds the histograms of its neighbours; theirs are empty.
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


def _against_clients(most: int) -> figure:
    plot = plain_figure(
        250, x_range=Range1d(start=0, end=most * 1.03), y_range=DataRange1d(start=0)
    )
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
    return plot


def _hover_clients(plot: figure, line: DataRenderer, rows: Sequence[tuple[str, str]]) -> None:
    plot.add_tools(
        HoverTool(
            renderers=[line], mode="vline", line_policy="nearest",
            tooltips=tip([("clients", "@clients"), *rows]),
        )
    )  # fmt: skip


def budget_chart(run: RunFile, story: Story) -> Chart | None:
    """Mean response time of a transaction, taken apart; one row for each setting worth showing."""
    rows = {name: _budget(run, ids) for name, ids in story.budget_states().items()}
    rows = {name: parts for name, parts in rows.items() if parts}
    if not rows:
        return None
    names = _part_names(rows)
    colours = _part_colours(names)
    widest = max(sum(parts.values()) for parts in rows.values())
    plot = row_figure(len(rows), widest * 1.04)
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
    for position, (row, parts) in enumerate(rows.items()):
        name_row(plot, position, f"{row} · {numbers.ms(sum(parts.values()))}")
    _draw_parts(plot, list(rows.values()), colours)
    return Chart(
        id="budget",
        title="Mean response time of a transaction, milliseconds",
        says=_budget_says(rows),
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
        key=[Key(name, colours[name]) for name in names],
    )  # fmt: skip


def _budget(run: RunFile, slice_ids: list[int] | None) -> dict[str, float]:
    """Part → mean milliseconds per transaction. The parts add up to the mean response time.

    Statements' times are a transaction's own; what is left of its service is the time between
    statements (the generator's) and statements of transactions that failed.
    """
    done = run.ledger(slice_ids).done
    if not done:
        return {}
    waits = {name: run.histogram(kind, slice_ids).mean / 1e6 for name, kind in _WAITS.items()}
    service = run.histogram("service", slice_ids).mean / 1e6
    spent: dict[str, float] = defaultdict(float)
    for total in run.statements(slice_ids):
        spent[_short(total.statement)] += total.service.mean * total.service.count / done / 1e6
    largest = sorted(spent, key=lambda name: -spent[name])[:STATEMENTS_MAX]
    parts = dict(waits)
    parts |= {name: spent[name] for name in spent if name in largest}
    parts[OTHER] = max(service - sum(spent[name] for name in largest), 0.0)
    return parts


def _short(statement: str) -> str:
    text = " ".join(statement.split())
    return text if len(text) <= 34 else f"{text[:33]}…"


def _part_names(rows: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Parts that are anywhere worth a colour, in the order of a transaction."""
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


def _draw_parts(
    plot: figure, rows: Sequence[Mapping[str, float]], colours: Mapping[str, str]
) -> None:
    """A bar for each row, its parts beside each other."""
    drawn: dict[str, list[object]] = {
        "y": [], "left": [], "right": [], "name": [], "says": [], "colour": []
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
        HoverTool(renderers=[bars], tooltips=tip([("part", "@name"), ("mean", "@says")]))
    )


def _budget_says(rows: Mapping[str, Mapping[str, float]]) -> str:
    sentences = []
    for name, parts in rows.items():
        total = sum(parts.values())
        most = max(parts, key=lambda part: parts[part])
        sentences.append(
            f"{name}: {numbers.ms(total)}, the largest part {most} with"
            f" {numbers.ms(parts[most])} ({numbers.percent(parts[most] / total)})"
        )
    return numbers.sentence("; ".join(sentences))


def response_parts(run: RunFile) -> tuple[Floats, dict[str, Floats]]:
    """Mean waits and service in milliseconds over time, where anything ended."""
    means = {}
    for name, kind in {"service": "service", **_WAITS}.items():
        merged = _merged_histograms(run, kind, lambda place: place[0])
        means[name] = {at_ms: histogram.mean / 1e6 for at_ms, histogram in merged.items()}
    times = sorted(means["service"])
    parts = {name: np.array([at.get(t, 0.0) for t in times]) for name, at in means.items()}
    return np.array(times, dtype=np.float64), parts
