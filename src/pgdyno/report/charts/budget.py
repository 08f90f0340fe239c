"""Chart of the latency budget: the response time and the largest statements, by part."""

from __future__ import annotations

from collections.abc import Sequence

from bokeh.models import NumeralTickFormatter

from pgdyno import numbers
from pgdyno.report import palette
from pgdyno.report.charts.chart import Chart, KeyEntry, label_row, row_figure
from pgdyno.report.charts.latency import draw_parts
from pgdyno.report.words import prose
from pgdyno.report.words.budget import (
    STATEMENT_SHARE_MIN,
    STATEMENTS_MAX,
    budget_words,
    rest_ms,
    short_statement,
    shown_parts,
)
from pgdyno.report.words.tables import figures_table
from pgdyno.results.budget import LatencyBudget

OTHER = "other parts"


def parts_chart(budget: LatencyBudget | None) -> Chart | None:
    """Return the chart; None without a budget."""
    if budget is None or not budget.parts:
        return None
    shown = {part.words: part.ms for part in shown_parts(budget)}
    rows = {f"response · {numbers.ms(budget.response_ms)}": {**shown, OTHER: rest_ms(budget)}}
    rows |= _statement_rows(budget, list(shown))
    colours = dict(zip(shown, (c for c in palette.SERIES if c != palette.GREY), strict=False))
    colours[OTHER] = palette.GREY
    plot = row_figure(len(rows), 1.04 * max(sum(parts.values()) for parts in rows.values()))
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
    for position, row in enumerate(rows):
        label_row(plot, position, row)
    draw_parts(plot, list(rows.values()), colours)
    return Chart(
        id="parts",
        title="Parts of the mean response time, milliseconds",
        description=prose.sentence(budget_words(budget)),
        plot=plot,
        table=figures_table(
            "Parts of the mean response time",
            ["", *colours],
            [
                [row, *(numbers.ms(parts.get(name, 0.0)) for name in colours)]
                for row, parts in rows.items()
            ],
        ),
        key=[KeyEntry(name, colour) for name, colour in colours.items()],
    )


def _statement_rows(budget: LatencyBudget, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return a row for each of the largest statements, per execution."""
    rows = {}
    for each in budget.statements[:STATEMENTS_MAX]:
        if each.share < STATEMENT_SHARE_MIN or len(budget.statements) < 2:
            continue
        parts = {part.words: part.ms for part in each.parts if part.words in names}
        parts[OTHER] = max(0.0, each.ms - sum(parts.values()))
        rows[f"{short_statement(each.statement)} · {numbers.ms(each.ms)}"] = parts
    return rows
