"""Charts of what was tried: before and after for each change, pair by pair, and how waits moved.

One row for each change with its name above the row, so that long names fit a phone. Before and
after come from the same trial, measured in turns, so a machine that drifts drifts for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bokeh.models import (
    ColumnDataSource,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.models.annotations import Span
from bokeh.plotting import figure

from pgdyno.record import RunFile, throughput_tps
from pgdyno.report import palette, wait_events
from pgdyno.report.charts.chart import Chart, Key, name_row, plain_figure, row_figure, tip
from pgdyno.report.summary import Attempt, Ratio, RunSummary
from pgdyno.report.words import numbers
from pgdyno.report.words.tables import figures_table

WHISKERS = "Markers show after, whiskers its 95 % interval."
LABEL_MAX = 46
"""Letters of a row's name that fit a phone."""


@dataclass(frozen=True)
class Row:
    """A change as one chart shows it: from, to, interval of to, and what was predicted."""

    label: str
    outcome: str
    before: float
    after: float
    lo: float
    hi: float
    predicted: float | None


def chain_charts(story: RunSummary) -> list[Chart]:
    """Throughput and p99 before and after each change that was measured; where clients held a rate,
    throughput cannot move."""
    charts = [_throughput_chart(story.attempts), _latency_chart(story.attempts)]
    return [chart for chart in charts if chart is not None]


def _throughput_chart(attempts: Sequence[Attempt]) -> Chart | None:
    rows = []
    for attempt in attempts:
        trial, effect = attempt.trial, attempt.throughput
        before, after = trial.baseline_tps, trial.changed_tps
        if before and after and effect and not attempt.rate_held:
            rows.append(_row(attempt, before, after, effect, trial.predicted_ratio))
    return _dumbbells("chain-tps", "Throughput before and after, tps", rows, numbers.tps, "0,0")


def _latency_chart(attempts: Sequence[Attempt]) -> Chart | None:
    rows = []
    for attempt in attempts:
        before, after, effect = attempt.p99_before_ms, attempt.p99_after_ms, attempt.latency_p99
        if before and after and effect:
            rows.append(_row(attempt, before, after, effect, None))
    return _dumbbells(
        "chain-p99", "p99 of response time before and after, ms", rows, numbers.ms, "0,0.[0]"
    )


def _row(
    attempt: Attempt, before: float, after: float, effect: Ratio, predicted: float | None
) -> Row:
    """A row whose whiskers are as far from ``after`` as the interval's ends are from the ratio."""
    title = attempt.title
    if len(title) > LABEL_MAX:
        title = f"{title[: LABEL_MAX - 1]}…"
    return Row(
        label=title,
        outcome=attempt.outcome,
        before=before,
        after=after,
        lo=after * effect.lo / effect.ratio,
        hi=after * effect.hi / effect.ratio,
        predicted=None if predicted is None else before * predicted,
    )


def _dumbbells(
    chart_id: str, title: str, rows: Sequence[Row], say: Callable[[float], str], ticks: str
) -> Chart | None:
    if not rows:
        return None
    widest = max(max(r.before, r.hi, r.predicted or 0) for r in rows)
    plot = row_figure(len(rows), widest * 1.06)
    plot.xaxis.formatter = NumeralTickFormatter(format=ticks)
    for position, row in enumerate(rows):
        name_row(plot, position, f"{row.label} · {row.outcome}")
    _draw_rows(plot, rows, say)
    last = rows[-1]
    outcomes = dict.fromkeys(row.outcome for row in rows)
    key = [Key("before", palette.GREY)]
    key += [Key(outcome, _decision(outcome)[0]) for outcome in outcomes]
    if any(row.predicted for row in rows):
        key.append(Key("predicted", palette.PURPLE, "line"))
    return Chart(
        id=chart_id,
        title=title,
        says=_chain_says(rows, say) if len(rows) > 1 else
        f"{last.label}: from {say(last.before)} to {say(last.after)}.",
        plot=plot,
        table=figures_table(
            title,
            ["Change", "before", "after", "95 % interval", "predicted", "decision"],
            [
                [r.label, say(r.before), say(r.after), f"{say(r.lo)} to {say(r.hi)}",
                 say(r.predicted) if r.predicted else numbers.ABSENT, r.outcome]
                for r in rows
            ],
        ),
        key=key,
    )  # fmt: skip


def _chain_says(rows: Sequence[Row], say: Callable[[float], str]) -> str:
    kept = [row for row in rows if row.outcome == "kept"]
    if not kept:
        return f"{len(rows)} changes measured, none kept. {WHISKERS}"
    steps = [f"{row.label} brought {say(row.before)} to {say(row.after)}"
             for row in kept]  # fmt: skip
    return f"{len(rows)} changes measured; of those kept, {numbers.listed(steps)}. {WHISKERS}"


def _decision(outcome: str) -> tuple[str, str]:
    """Colour and marker; a bare verdict looks like the decision it would lead to."""
    as_decision = {"better": "kept", "worse": "taken back"}.get(outcome, outcome)
    return palette.DECISIONS.get(as_decision, (palette.GREY, "x"))


def _draw_rows(plot: figure, rows: Sequence[Row], say: Callable[[float], str]) -> None:
    """Before as a bar across, a pale way to after, its marker and its whiskers."""
    places = list(range(len(rows)))
    colours = [_decision(row.outcome)[0] for row in rows]
    source = ColumnDataSource(
        {
            "y": places,
            "before": [row.before for row in rows],
            "after": [row.after for row in rows],
            "lo": [row.lo for row in rows],
            "hi": [row.hi for row in rows],
            "colour": colours,
            "marker": [_decision(row.outcome)[1] for row in rows],
            "what": [row.label for row in rows],
            "says": [
                f"{say(r.before)} → {say(r.after)} ({say(r.lo)} to {say(r.hi)})" for r in rows
            ],
            "outcome": [row.outcome for row in rows],
        }
    )
    plot.segment("before", "y", "after", "y", source=source, line_color="colour", line_width=5,
                 line_alpha=0.3)  # fmt: skip
    plot.segment("lo", "y", "hi", "y", source=source, line_color="colour", line_width=2)
    ends = [(end, y, c) for row, y, c in zip(rows, places, colours, strict=True)
            for end in (row.lo, row.hi)]  # fmt: skip
    _strokes(plot, ends, height=0.11, width=2)
    predicted = [(r.predicted, y, palette.PURPLE) for r, y in zip(rows, places, strict=True)
                 if r.predicted]  # fmt: skip
    _strokes(plot, predicted, height=0.19, width=3)
    _strokes(plot, [(r.before, y, palette.GREY) for r, y in zip(rows, places, strict=True)],
             height=0.16, width=3)  # fmt: skip
    after = plot.scatter("after", "y", source=source, marker="marker", size=11,
                         fill_color="colour", line_color="colour", line_width=2)  # fmt: skip
    tips = tip([("change", "@what"), ("before → after", "@says"), ("decision", "@outcome")])
    plot.add_tools(HoverTool(renderers=[after], tooltips=tips))


def _strokes(
    plot: figure, strokes: Sequence[tuple[float, int, str]], *, height: float, width: float
) -> None:
    """Short upright lines at (x, row) in a colour."""
    if strokes:
        x, y, colours = (list(column) for column in zip(*strokes, strict=True))
        plot.segment(x, [v - height for v in y], x, [v + height for v in y], line_color=colours,
                     line_width=width)  # fmt: skip


def pairs_chart(run: RunFile, story: RunSummary) -> Chart | None:
    """Every pair of a comparison by itself, with the mean, its interval and the noise floor."""
    attempt = story.comparison
    if attempt is None:
        return None
    effect = attempt.latency_p99 if attempt.rate_held else attempt.throughput
    ratios = _pair_ratios(run, attempt)
    if not ratios or effect is None:
        return None
    what = "p99" if attempt.rate_held else "Throughput"
    plot = plain_figure(230)
    plot.xgrid.visible = False
    pairs = list(ratios)
    plot.scatter(pairs, list(ratios.values()), size=9, fill_color=palette.BLUE,
                 line_color=palette.BLUE)  # fmt: skip
    key = [Key("one pair", palette.BLUE), Key("mean with 95 % interval", palette.ORANGE, "line")]
    ends = [min(pairs) - 0.5, max(pairs) + 0.5]
    plot.varea(ends, [effect.lo] * 2, [effect.hi] * 2, fill_color=palette.ORANGE, fill_alpha=0.22)
    plot.line(ends, [effect.ratio] * 2, line_color=palette.ORANGE, line_width=2)
    noise = story.noise_half_width
    if noise is not None:
        plot.varea(ends, [1 - noise] * 2, [1 + noise] * 2, fill_color=palette.GREY, fill_alpha=0.3)
        key.append(Key("noise floor: identical slices", palette.GREY, "shade"))
    plot.add_layout(Span(dimension="width", location=1, line_color=palette.GREY, line_width=1.5))
    plot.x_range = Range1d(start=ends[0], end=ends[1])
    plot.xaxis.ticker = pairs if len(pairs) <= 12 else plot.xaxis.ticker
    plot.yaxis.formatter = NumeralTickFormatter(format="0.00")
    better = sum((ratio < 1) == attempt.rate_held for ratio in ratios.values() if ratio != 1)
    return Chart(
        id="pairs",
        title=f"{what} ratio of each pair, changed to unchanged",
        says=f"{better} of {len(ratios)} pairs were faster with the change; together {effect}.",
        plot=plot,
        table=figures_table(
            f"{what} ratio of each pair",
            ["Pair", "ratio"],
            [[str(pair), numbers.times(ratio)] for pair, ratio in ratios.items()],
        ),
        key=key,
    )


def _pair_ratios(run: RunFile, attempt: Attempt) -> dict[int, float]:
    """Pair number → what was compared of side b over that of side a, for pairs that count."""
    values = [
        (_compared(run, a.id, attempt), _compared(run, b.id, attempt))
        for a, b in run.pairs(attempt.trial.id)
    ]
    return {number: b / a for number, (a, b) in enumerate(values, start=1) if a and b}


def _compared(run: RunFile, slice_id: int, attempt: Attempt) -> float:
    if attempt.rate_held:
        return run.histogram("response", [slice_id]).percentile(99)
    return throughput_tps(run, [slice_id])


def waits_chart(run: RunFile, story: RunSummary) -> Chart | None:
    """What the server's active sessions waited for under each setting: how the limit moves."""
    states = _settings(story)
    bars = {name: bar for name, ids in states.items() if (bar := _event_averages(run, ids))}
    if len(bars) < 2:
        return None
    named = wait_events.chosen(_together(bars.values()))
    bars = {name: wait_events.gathered(bar, named) for name, bar in bars.items()}
    present = {event for bar in bars.values() for event in bar}
    order = [event for event in (*named, wait_events.OTHER) if event in present]
    colours = wait_events.colours(order)
    widest = max(sum(bar.values()) for bar in bars.values())
    plot = row_figure(len(bars), widest * 1.04)
    for position, name in enumerate(bars):
        name_row(plot, position, name)
    for event, edges in _edges(bars, order).items():
        plot.hbar(list(range(len(bars))), left=edges[0], right=edges[1], height=0.3,
                  fill_color=colours[event], line_color=None)  # fmt: skip
    cores = float(run.run.server.get("cores") or run.run.host.get("cores") or 0)
    in_sight = 0 < cores <= widest * 1.04
    if in_sight:
        rows_at = range(len(bars))
        plot.segment([cores] * len(bars), [y - 0.24 for y in rows_at], [cores] * len(bars),
                     [y + 0.24 for y in rows_at], line_color=palette.RED, line_width=3)  # fmt: skip
    head = ["Setting", *(wait_events.label(event) for event in order), "all"]
    rows = [
        [name, *(numbers.significant(bar.get(c, 0.0), 2) for c in order),
         numbers.significant(sum(bar.values()))]
        for name, bar in bars.items()
    ]  # fmt: skip
    key = [Key(wait_events.label(event), colours[event]) for event in order]
    if in_sight:
        key.append(Key(f"{cores:g} cores", palette.RED, "line"))
    return Chart(
        id="waits-by-setting",
        title="Average active sessions under each setting, by what they wait for",
        says=_waits_say(bars),
        plot=plot,
        table=figures_table("Average active sessions", head, rows),
        key=key,
    )


def _edges(
    bars: Mapping[str, Mapping[str, float]], order: Sequence[str]
) -> dict[str, tuple[list[float], list[float]]]:
    """Wait event → where its part of each bar begins and ends."""
    ends = [0.0] * len(bars)
    edges = {}
    for event in order:
        begins = ends
        ends = [end + bar.get(event, 0.0) for end, bar in zip(begins, bars.values(), strict=True)]
        edges[event] = (begins, ends)
    return edges


def _settings(story: RunSummary) -> dict[str, list[int]]:
    """Name → slices: as it was, then each change that was kept or offered."""
    shown = [a for a in story.attempts if a.slices["a"] and a.slices["b"]]
    if not shown:
        return {}
    states = {"as it was": shown[0].slices["a"]}
    for attempt in shown:
        if attempt.outcome != "rejected":
            states[f"with {attempt.title} · {attempt.outcome}"] = attempt.slices["b"]
    return states


def _event_averages(run: RunFile, slice_ids: list[int]) -> Mapping[str, float]:
    averages: dict[str, float] = {}
    for wait in run.waits(slice_ids):
        if wait.backend_type == "client backend" and wait.state == "active" and wait.average:
            name = wait_events.event_of(wait.wait_event_type, wait.wait_event)
            averages[name] = averages.get(name, 0.0) + wait.average
    return averages


def _together(bars: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The largest average of each event in any of the bars: what is large in one is named."""
    largest: dict[str, float] = {}
    for bar in bars:
        for event, average in bar.items():
            largest[event] = max(largest.get(event, 0.0), average)
    return largest


def _waits_say(bars: Mapping[str, Mapping[str, float]]) -> str:
    parts = []
    for name, bar in bars.items():
        most = max(bar, key=lambda event: bar[event])
        share = numbers.percent(bar[most] / sum(bar.values()))
        label = name.split(" · ")[0]
        parts.append(f"{label} {most} leads with {share}")
    return numbers.sentence("; ".join(parts))
