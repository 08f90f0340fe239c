"""The view of a price list: gain and loss of each candidate, and another server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from pgdyno.report.view import (
    BlankLine,
    Charts,
    InTerminal,
    Item,
    Numbered,
    OnPage,
    Part,
    Section,
    Term,
    Terms,
    Text,
    View,
)
from pgdyno.report.words import price_list, prose, sentences
from pgdyno.report.words.tables import Table

if TYPE_CHECKING:
    from pgdyno.json_types import Row
    from pgdyno.report.charts.chart import Chart
    from pgdyno.report.summary import RunSummary
    from pgdyno.results.price import Price, PriceResult

NAME_MAX = 22
"""Maximum length of a candidate's name in the terminal; the full title follows below."""
_LOSS_COLUMNS = (
    *("cuts", "happened", "acked", "lost_median", "lost_max", "lost_ms_median", "lost_ms_max"),
    *("upper_bound", "corrupt", "refused", "bound_ms", "recovery_s_median", "why", "broke_off"),
)


def _sections(summary: RunSummary) -> list[Section]:
    parts = [*_in_terminal(summary), *(_on_page(summary) if price_list.prices(summary) else ())]
    return [Section("ladder", "Gain and loss", parts)]


def _in_terminal(summary: RunSummary) -> Iterator[Part]:
    """Yield the tables of gains and losses, then a sentence for each candidate."""
    yield InTerminal(Terms({"noise": sentences.noise_sentence(summary)}))
    yield BlankLine()
    gains = price_list.gain_rows(summary, name_max=NAME_MAX)
    yield InTerminal(Table("", price_list.gain_head(summary), gains))
    yield InTerminal(Table("", price_list.LOSS_HEAD, _loss_rows(summary)))
    yield InTerminal(Terms([*map(_candidate, price_list.prices(summary))], label_width=4))
    yield BlankLine()
    differences = [
        Term("" if number else "compared", sentence)
        for number, sentence in enumerate(price_list.differences(summary))
    ]
    ending = [
        Term("verdict", summary.verdict),
        Term("p99", price_list.p99_words(summary)),
        *differences,
        Term("time", sentences.time_taken(summary.info)),
        Term("run file", str(summary.run.path)),
    ]
    yield InTerminal(Terms(ending))


def _candidate(price: Price) -> Term:
    style = "" if price.durability_class == "D0" else "yellow"
    sentence = f"{price.title}: {'; '.join(price_list.sentence_parts(price))}"
    return Term(price.durability_class, sentence, style)


def _loss_rows(summary: RunSummary) -> list[Sequence[str]]:
    """Return a row for each drill, named by its candidate and its fault."""
    rows = price_list.loss_rows(summary, name_max=NAME_MAX)
    names = max((len(row[0]) for row in rows), default=0)
    return [[f"{name:<{names}}  {drill}", *cells] for name, drill, *cells in rows]


def _on_page(summary: RunSummary) -> Iterator[Part]:
    def charts() -> list[Chart]:
        from pgdyno.report.charts.price import price_chart

        return [chart] if (chart := price_chart(summary)) else []

    if noise := sentences.noise_sentence(summary):
        yield OnPage(Text(f"Noise floor: {prose.sentence(noise)}"))
    yield Charts(charts, side_by_side=False)
    yield from map(OnPage, price_list.tables(summary))
    if p99 := price_list.p99_words(summary):
        yield OnPage(Text(f"p99: {prose.sentence(p99)}"))
    yield Numbered([Item(title, text) for title, text in price_list.sentences(summary)])
    for sentence in price_list.differences(summary):
        yield OnPage(Text(prose.sentence(sentence)))


def rows(result: PriceResult) -> Iterator[Row]:
    """Yield one row per candidate and fault."""
    for price in result.prices:
        gain = _gain_columns(price)
        for loss in price.losses:
            figures = {column: getattr(loss, column, None) for column in _LOSS_COLUMNS}
            yield {**gain, "fault": loss.fault, "variant": loss.variant, **figures}


def _gain_columns(price: Price) -> Row:
    gain = price_list.gain_of(price)
    return {
        "candidate": price.candidate,
        "durability_class": price.durability_class,
        "throughput_ratio": gain and gain.throughput_ratio,
        "lo": gain and gain.ci95[0],
        "hi": gain and gain.ci95[1],
        "latency_p99_ratio": gain and gain.latency_p99_ratio,
    }


VIEW = View(price_list.COMMAND, _sections, verdict=attrgetter("verdict"), rows=rows, lines_max=200)
