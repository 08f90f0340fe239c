"""Charts of trials: before and after of each change, single pairs, and waits under each setting.

Each change has a row with its name above it, so that long names fit a phone. Before and after are
from the same trial of interleaved slices, so that drift of the machine affects both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from bokeh.models import (
    ColumnDataSource,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.models.annotations import Span
from bokeh.plotting import figure
from msgspec import Struct

from pgdyno import numbers
from pgdyno.record import RunFile
from pgdyno.report import palette, session_waits
from pgdyno.report.attempts import Attempt, LevelPair
from pgdyno.report.charts.chart import Chart, KeyEntry, label_row, plain_figure, row_figure, tooltip
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import prose
from pgdyno.report.words.prose import cut
from pgdyno.report.words.tables import figures_table
from pgdyno.results.common import Measure
from pgdyno.trial.recorded import pair_ratios

WHISKERS = "Markers show the value after the change, whiskers its 95 % interval."
AFTER = "after"
"""Outcome of a figure that did not decide the trial."""
LABEL_MAX = 46
"""Length of a row's name that fits a phone."""


class Row(Struct, frozen=True):
    """A change in one chart: before, after with its interval, and the prediction."""

    label: str
    outcome: str
    before: float
    after: float
    lo: float
    hi: float
    predicted: tuple[float, float, float] | None
    """The best guess and its interval, whose ends may be the guess itself."""


def trial_charts(summary: RunSummary) -> list[Chart]:
    """Return the charts of all trials: what changed, the pairs of a comparison, the waits."""
    several = (pairs_chart(summary.run, summary), waits_chart(summary.run, summary))
    return [*chain_charts(summary), *(chart for chart in several if chart)]


def chain_charts(summary: RunSummary) -> list[Chart]:
    """Return the charts of throughput and p99 before and after each measured change. Where clients
    held a rate, throughput cannot change and is left out."""
    charts = [_throughput_chart(summary.attempts), _latency_chart(summary.attempts)]
    return [chart for chart in charts if chart is not None]


def _throughput_chart(attempts: Sequence[Attempt]) -> Chart | None:
    rows = []
    for attempt in attempts:
        if attempt.tps and not attempt.rate_held:
            trial = attempt.trial
            guess, interval = trial.predicted_ratio, trial.predicted_interval
            predicted = None if guess is None else (guess, *(interval or (guess, guess)))
            rows.append(_row(attempt, attempt.tps, attempt.outcome, predicted))
    return _dumbbells("chain-tps", "Throughput before and after, tps", rows, numbers.tps, "0,0")


def _latency_chart(attempts: Sequence[Attempt]) -> Chart | None:
    rows = []
    for attempt in attempts:
        if attempt.p99_ms:
            # A verdict that throughput decided says nothing about p99.
            decides = attempt.rate_held or attempt.trial.decision
            rows.append(_row(attempt, attempt.p99_ms, attempt.outcome if decides else AFTER, None))
    return _dumbbells(
        "chain-p99", "p99 of response time before and after, ms", rows, numbers.ms, "0,0.[0]"
    )


def _row(
    attempt: Attempt,
    levels: LevelPair,
    outcome: str,
    predicted: tuple[float, float, float] | None,
) -> Row:
    """Return a row whose whiskers are the interval of the ratio, scaled to ``before``."""
    guess, low, high = (levels.before * ratio for ratio in predicted or (0.0, 0.0, 0.0))
    return Row(
        label=cut(attempt.title, LABEL_MAX),
        outcome=outcome,
        before=levels.before,
        after=levels.after,
        lo=levels.lo,
        hi=levels.hi,
        predicted=(guess, low, high) if predicted else None,
    )


def _dumbbells(
    chart_id: str, title: str, rows: Sequence[Row], say: Callable[[float], str], ticks: str
) -> Chart | None:
    if not rows:
        return None
    widest = max(max(r.before, r.hi, *(r.predicted or ())) for r in rows)
    plot = row_figure(len(rows), widest * 1.06)
    plot.xaxis.formatter = NumeralTickFormatter(format=ticks)
    for position, row in enumerate(rows):
        label_row(
            plot, position, row.label if row.outcome == AFTER else f"{row.label} · {row.outcome}"
        )
    _draw_rows(plot, rows, say)
    last = rows[-1]
    outcomes = dict.fromkeys(row.outcome for row in rows)
    key = [KeyEntry("before", palette.GREY)]
    key += [KeyEntry(outcome, _decision(outcome)[0]) for outcome in outcomes]
    if any(row.predicted for row in rows):
        key.append(KeyEntry("predicted", palette.PURPLE, "line"))
    return Chart(
        id=chart_id,
        title=title,
        description=_chain_description(rows, say) if len(rows) > 1 else
        f"{last.label}: from {say(last.before)} to {say(last.after)}."
        + (" The verdict is about throughput." if last.outcome == AFTER else ""),
        plot=plot,
        table=figures_table(
            title,
            ["Change", "before", "after", "95 % interval", "predicted", "decision"],
            [
                [r.label, say(r.before), say(r.after), f"{say(r.lo)} to {say(r.hi)}",
                 _predicted(r, say),
                 numbers.ABSENT if r.outcome == AFTER else r.outcome]
                for r in rows
            ],
        ),
        key=key,
    )  # fmt: skip


def _predicted(row: Row, say: Callable[[float], str]) -> str:
    """Return the prediction with its interval."""
    if row.predicted is None:
        return numbers.ABSENT
    guess, low, high = (say(tps) for tps in row.predicted)
    return guess if low == high else f"{guess} ({low} to {high})"


def _chain_description(rows: Sequence[Row], say: Callable[[float], str]) -> str:
    kept = [row for row in rows if row.outcome == "kept"]
    if not kept:
        return f"{len(rows)} changes measured, none kept. {WHISKERS}"
    steps = [f"{row.label} from {say(row.before)} to {say(row.after)}"
             for row in kept]  # fmt: skip
    told = numbers.listed(steps, most=None)
    return f"{len(rows)} changes measured; of those kept, {told}. {WHISKERS}"


def _decision(outcome: str) -> tuple[str, str]:
    """Return colour and marker; a verdict without a decision has those of the likely decision."""
    if outcome == AFTER:
        return palette.BLUE, "circle"
    as_decision = {"better": "kept", "worse": "taken back"}.get(outcome, outcome)
    return palette.DECISIONS.get(as_decision, (palette.GREY, "x"))


def _draw_rows(plot: figure, rows: Sequence[Row], say: Callable[[float], str]) -> None:
    """Draw before as a vertical bar, after as a marker with whiskers, and a pale line between."""
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
    _vertical_lines(plot, ends, height=0.11, width=2)
    known = [(*r.predicted, y) for r, y in zip(rows, places, strict=True) if r.predicted]
    for _, low, high, y in known:
        plot.segment(low, y + 0.19, high, y + 0.19, line_color=palette.PURPLE, line_width=2)
    predicted = [(guess, y, palette.PURPLE) for guess, _, _, y in known]
    _vertical_lines(plot, predicted, height=0.19, width=3)
    _vertical_lines(plot, [(r.before, y, palette.GREY) for r, y in zip(rows, places, strict=True)],
             height=0.16, width=3)  # fmt: skip
    after = plot.scatter("after", "y", source=source, marker="marker", size=11,
                         fill_color="colour", line_color="colour", line_width=2)  # fmt: skip
    tips = tooltip([("change", "@what"), ("before → after", "@says"), ("decision", "@outcome")])
    plot.add_tools(HoverTool(renderers=[after], tooltips=tips))


def _vertical_lines(
    plot: figure, lines: Sequence[tuple[float, int, str]], *, height: float, width: float
) -> None:
    """Draw short vertical lines at (x, row) in a colour."""
    if lines:
        x, y, colours = (list(column) for column in zip(*lines, strict=True))
        plot.segment(x, [v - height for v in y], x, [v + height for v in y], line_color=colours,
                     line_width=width)  # fmt: skip


def pairs_chart(run: RunFile, summary: RunSummary) -> Chart | None:
    """Return the chart of the single pairs of a comparison, with mean and interval."""
    attempt = summary.comparison
    if attempt is None:
        return None
    effect = attempt.latency_p99 if attempt.rate_held else attempt.throughput
    measure: Measure = "latency_p99" if attempt.rate_held else "throughput"
    ratios = pair_ratios(run, attempt.trial.id, measure)
    if not ratios or effect is None:
        return None
    what = "p99" if attempt.rate_held else "Throughput"
    plot = plain_figure(230)
    plot.xgrid.visible = False
    pairs = list(ratios)
    plot.scatter(pairs, list(ratios.values()), size=9, fill_color=palette.BLUE,
                 line_color=palette.BLUE)  # fmt: skip
    key = [
        KeyEntry("one pair", palette.BLUE),
        KeyEntry("mean with 95 % interval", palette.ORANGE, "line"),
    ]
    ends = [min(pairs) - 0.5, max(pairs) + 0.5]
    plot.varea(ends, [effect.lo] * 2, [effect.hi] * 2, fill_color=palette.ORANGE, fill_alpha=0.22)
    plot.line(ends, [effect.ratio] * 2, line_color=palette.ORANGE, line_width=2)
    if summary.noise_interval is not None:
        lo, hi = summary.noise_interval
        plot.varea(ends, [lo] * 2, [hi] * 2, fill_color=palette.GREY, fill_alpha=0.3)
        key.append(KeyEntry("identical slices: 95 % interval", palette.GREY, "shade"))
    plot.add_layout(Span(dimension="width", location=1, line_color=palette.GREY, line_width=1.5))
    plot.x_range = Range1d(start=ends[0], end=ends[1])
    plot.xaxis.ticker = pairs if len(pairs) <= 12 else plot.xaxis.ticker
    plot.yaxis.formatter = NumeralTickFormatter(format="0.00")
    better = sum((ratio < 1) == attempt.rate_held for ratio in ratios.values() if ratio != 1)
    return Chart(
        id="pairs",
        title=f"{what} ratio of each pair, changed to unchanged",
        description=f"{better} of {len(ratios)} pairs were faster with the change; mean {effect}.",
        plot=plot,
        table=figures_table(
            f"{what} ratio of each pair",
            ["Pair", "ratio"],
            [[str(pair), numbers.ratio(ratio)] for pair, ratio in ratios.items()],
        ),
        key=key,
    )


def waits_chart(run: RunFile, summary: RunSummary) -> Chart | None:
    """Return the chart of the waits of active sessions under each setting."""
    states = _settings(summary)
    bars = {
        name: bar for name, (_, ids) in states.items() if (bar := session_waits.averages(run, ids))
    }
    if len(bars) < 2:
        return None
    named = session_waits.largest(_largest_in_any(bars.values()))
    bars = {name: session_waits.with_others_summed(bar, named) for name, bar in bars.items()}
    present = {event for bar in bars.values() for event in bar}
    order = [event for event in (*named, session_waits.OTHER) if event in present]
    colours = session_waits.colours(order)
    widest = max(sum(bar.values()) for bar in bars.values())
    plot = row_figure(len(bars), widest * 1.04)
    for position, name in enumerate(bars):
        label_row(plot, position, name)
    for event, edges in _edges(bars, order).items():
        plot.hbar(list(range(len(bars))), left=edges[0], right=edges[1], height=0.3,
                  fill_color=colours[event], line_color=None)  # fmt: skip
    cores = float(run.run.server.get("cores") or run.run.host.get("cores") or 0)
    in_sight = 0 < cores <= widest * 1.04
    if in_sight:
        rows_at = range(len(bars))
        plot.segment([cores] * len(bars), [y - 0.24 for y in rows_at], [cores] * len(bars),
                     [y + 0.24 for y in rows_at], line_color=palette.RED, line_width=3)  # fmt: skip
    head = ["Setting", *(session_waits.label(event) for event in order), "all"]
    rows = [
        [name, *(numbers.significant(bar.get(c, 0.0), 2) for c in order),
         numbers.significant(sum(bar.values()))]
        for name, bar in bars.items()
    ]  # fmt: skip
    key = [KeyEntry(session_waits.label(event), colours[event]) for event in order]
    if in_sight:
        key.append(KeyEntry(f"{cores:g} cores", palette.RED, "line"))
    return Chart(
        id="waits-by-setting",
        title="Average active sessions under each setting, by wait event",
        description=_waits_description([(states[name][0], bar) for name, bar in bars.items()]),
        plot=plot,
        table=figures_table("Average active sessions", head, rows),
        key=key,
    )


def _edges(
    bars: Mapping[str, Mapping[str, float]], order: Sequence[str]
) -> dict[str, tuple[list[float], list[float]]]:
    """Return by wait event the start and the end of its part of each bar."""
    ends = [0.0] * len(bars)
    edges = {}
    for event in order:
        begins = ends
        ends = [end + bar.get(event, 0.0) for end, bar in zip(begins, bars.values(), strict=True)]
        edges[event] = (begins, ends)
    return edges


def _settings(summary: RunSummary) -> dict[str, tuple[str, list[int]]]:
    """Return the slices without a change, then those of each change not rejected, by name; with the
    name without the decision."""
    shown = [a for a in summary.attempts if a.slices["a"] and a.slices["b"]]
    if not shown:
        return {}
    plain = "without a change"
    states = {plain: (plain, shown[0].slices["a"])}
    for attempt in shown:
        if attempt.outcome != "rejected":
            name = f"with {attempt.title}"
            states[f"{name} · {attempt.outcome}"] = (name, attempt.slices["b"])
    return states


def _largest_in_any(bars: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the largest average of each event in any of the bars."""
    largest: dict[str, float] = {}
    for bar in bars:
        for event, average in bar.items():
            largest[event] = max(largest.get(event, 0.0), average)
    return largest


def _waits_description(bars: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    parts = []
    for name, bar in bars:
        most = max(bar, key=lambda event: bar[event])
        share = bar[most] / sum(bar.values())
        are = "most are" if share > 0.5 else "the largest part is"
        parts.append(f"{name}, {are} {session_waits.phrase(most)} ({numbers.percent(share)})")
    return prose.sentence("; ".join(parts))
