"""The same effect has the same digits in the terminal, on the page, in sentences and in JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import price_runs
import pytest
import report_runs
from hypothesis import given
from hypothesis import strategies as st

from pgdyno import numbers
from pgdyno.facts.failures import FailedTransactions
from pgdyno.price._gain import GainTrial
from pgdyno.price.sentences import gain_words
from pgdyno.record import RunFile
from pgdyno.report.attempts import Ratio
from pgdyno.report.page.html import make_page
from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.report.words import price_list, sentences
from pgdyno.results.price import Gain
from pgdyno.stats import PairedEffect, decide, paired_effect
from pgdyno.trial.pairs import TrialAnswer

RATIOS = st.floats(min_value=0.02, max_value=500)


@given(RATIOS, RATIOS, RATIOS)
def test_the_kept_ratio_is_written_as_the_measured_one(a: float, b: float, c: float) -> None:
    lo, ratio, hi = sorted((a, b, c))
    words = numbers.effect(ratio, lo, hi)
    assert words == numbers.effect(numbers.rounded(ratio), numbers.rounded(lo), numbers.rounded(hi))
    assert words == str(Ratio(ratio, lo, hi))
    assert words in decide(PairedEffect(ratio, lo, hi, 6, 0.1)).sentence


def terminal(run: RunFile) -> str:
    return " ".join(" ".join(line.text for line in summary_lines(run, 400)).split())


def page_words(run: RunFile) -> str:
    """Every text of the page's parts, tables of charts included."""
    return " ".join(re.findall(r"\S+", repr(make_page(run))))


@pytest.mark.parametrize("make", [report_runs.comparison_run, report_runs.investigation_run])
def test_an_effect_is_one_number(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    run = RunFile(make(tmp_path / "run.db"))
    shown, page = terminal(run), page_words(run)
    measured = [a for a in RunSummary(run).attempts if a.throughput and not a.rate_held]
    assert measured
    for attempt in measured:
        assert str(attempt.throughput) in shown
        assert str(attempt.throughput) in page
        said = re.escape(numbers.ratio(attempt.throughput.ratio))
        assert re.search(rf"\b{said} \[", page)


def test_a_comparison_has_one_pair_of_levels(tmp_path: Path) -> None:
    run = RunFile(report_runs.comparison_run(tmp_path / "run.db"))
    attempt = RunSummary(run).comparison
    assert attempt is not None
    page, shown = make_page(run), terminal(run)
    tps = next(it for it in page.headline if it.label == "Throughput")
    assert f"{tps.was} → {tps.value} tps" in shown
    assert tps.note == str(attempt.throughput)
    p99 = next(it for it in page.headline if it.label == "Response time p99")
    assert f"{p99.was} → {p99.value} {p99.unit}" in shown
    chart = next(chart for chart in page.charts if chart.id == "chain-tps")
    assert chart.table.rows[0][1:3] == [tps.was, tps.value]
    chart = next(chart for chart in page.charts if chart.id == "chain-p99")
    assert chart.table.rows[0][2] == f"{p99.value} {p99.unit}"


def test_the_headline_of_an_investigation_is_the_same_in_both_media(tmp_path: Path) -> None:
    run = RunFile(report_runs.investigation_run(tmp_path / "run.db"))
    summary = RunSummary(run)
    page, shown = make_page(run), terminal(run)
    assert page.headline[0].note == summary.gain_words
    assert f"tps ({summary.gain_words})" in shown


def test_a_price_is_one_number(tmp_path: Path) -> None:
    run = RunFile(price_runs.price_run(tmp_path / "run.db"))
    summary = RunSummary(run)
    shown, page = terminal(run), page_words(run)
    gains = [row for row in price_list.prices(summary) if isinstance(row.gain, Gain)]
    assert gains
    for row in gains:
        assert isinstance(row.gain, Gain)
        words = numbers.effect(row.gain.throughput_ratio, *row.gain.ci95)
        assert words in shown
        assert words in page
        if row.gain.compared == "throughput":
            assert words in gain_words(row.gain)


LEVELS = re.compile(
    r"(?P<ratio>[\d.,]+)x \[[^]]*\][, ]+(?P<before>[\d.,]+) → (?P<after>[\d.,]+) (?:tps|ms|s)\b"
)
"""A ratio with its interval, and the figures before and after beside it."""
HEADLINE = re.compile(
    r"(?P<before>[\d.,]+) → (?P<after>[\d.,]+) (?:tps|ms|s) \((?P<ratio>[\d.]+)x[ ,)]"
)
"""The line of an investigation: the figures before and after, and their ratio."""


def number(text: str) -> float:
    return float(text.replace(",", ""))


def levels_in(text: str) -> list[tuple[float, float, float]]:
    """Each ratio in a text with the figures before and after beside it."""
    found = [*LEVELS.finditer(text), *HEADLINE.finditer(text)]
    return [(number(m["before"]), number(m["after"]), number(m["ratio"])) for m in found]


def agree(before: float, after: float, ratio: float) -> bool:
    """Figures are shown with three digits, ratios with two decimals."""
    return after / before == pytest.approx(ratio, rel=0.012, abs=0.006)


MAKERS = [report_runs.comparison_run, report_runs.investigation_run, price_runs.price_run]


@pytest.mark.parametrize("make", MAKERS)
def test_before_and_after_have_the_ratio_beside_them(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    run = RunFile(make(tmp_path / "run.db"))
    summary, page = RunSummary(run), make_page(run)
    shown = levels_in(terminal(run))
    assert shown or summary.result_of("price") is not None
    assert all(agree(*levels) for levels in shown)
    for figure in page.headline:
        if figure.was:
            ratio = re.match(r"([\d.,]+)x", figure.note)
            assert ratio is not None
            assert agree(number(figure.was), number(figure.value), number(ratio[1]))
    by_id = {"chain-tps": "throughput", "chain-p99": "latency_p99"}
    for chart in page.charts:
        if chart.id in by_id:
            attempts = [a for a in summary.attempts if getattr(a, by_id[chart.id])]
            assert_chart(chart.table.rows, [getattr(a, by_id[chart.id]) for a in attempts])


def assert_chart(rows: Sequence[Sequence[str]], effects: Sequence[Ratio]) -> None:
    """The markers have the ratio, and the whiskers are its interval times the figure before."""
    assert len(rows) == len(effects)
    for row, effect in zip(rows, effects, strict=True):
        before, after = (number(cell.removesuffix(" ms")) for cell in row[1:3])
        lo, hi = (number(end.removesuffix(" ms")) for end in row[3].split(" to "))
        assert agree(before, after, effect.ratio)
        assert agree(before, lo, effect.lo)
        assert agree(before, hi, effect.hi)


def test_a_chapter_has_the_ratio_of_its_levels(tmp_path: Path) -> None:
    run = RunFile(report_runs.comparison_run(tmp_path / "run.db"))
    attempt = RunSummary(run).comparison
    assert attempt is not None
    words = [", ".join(each) for each in sentences.level_words(attempt).values()]
    assert [agree(*levels_in(each)[0]) for each in words] == [True, True]


def test_results_have_the_ratio_of_their_levels() -> None:
    """What investigate, price and compare record as JSON, made from the answer of a trial."""
    answer = answer_of([410.0, 380.0, 520.0], [900.0, 640.0, 1100.0])
    ratio = answer.throughput.ratio
    assert answer.changed_tps / answer.baseline_tps == pytest.approx(ratio, rel=1e-4)
    gain = GainTrial(answer).as_result()
    assert isinstance(gain, Gain)
    assert gain.changed_tps / gain.baseline_tps == pytest.approx(gain.throughput_ratio, rel=1e-3)


def answer_of(tps_a: list[float], tps_b: list[float]) -> TrialAnswer:
    """The answer of a trial whose slices did these throughputs, with p99 in inverse proportion."""
    p99_a, p99_b = ([1e9 / tps for tps in side] for side in (tps_a, tps_b))
    effect = paired_effect(tps_a, tps_b)
    none_failed = FailedTransactions(count=0, ended=100, top=None)
    return TrialAnswer(
        trial_id=1, throughput=effect, latency_p99=paired_effect(p99_a, p99_b),
        measure="throughput", verdict=decide(effect), tps_a=tuple(tps_a), tps_b=tuple(tps_b),
        latency_p99_a=tuple(p99_a), latency_p99_b=tuple(p99_b), slices_a=(1, 3, 5),
        slices_b=(2, 4, 6), failures_a=none_failed, failures_b=none_failed, set_by={},
    )  # fmt: skip


def test_a_figure_that_did_not_decide_is_not_called_better(tmp_path: Path) -> None:
    run = RunFile(report_runs.comparison_run(tmp_path / "run.db"))
    charts = {chart.id: chart for chart in make_page(run).charts}
    assert charts["chain-tps"].table.rows[0][-1] == "better"
    assert charts["chain-p99"].table.rows[0][-1] == "—"


def test_an_investigation_that_kept_nothing_has_one_baseline(tmp_path: Path) -> None:
    run = RunFile(report_runs.investigation_run(tmp_path / "run.db", kept=False))
    summary = RunSummary(run)
    assert not summary.changed
    assert summary.after == summary.before
    assert summary.before is not None
    tile = make_page(run).headline[0]
    assert tile.value == numbers.tps(summary.before.throughput_tps)
    assert tile.note == summary.before.source == "in the slice before the trials"
    assert f"{tile.value} tps · p99" in terminal(run)


def test_charts_of_a_run_have_the_figures_of_its_headline(tmp_path: Path) -> None:
    """Its slices begin after a ramp, which the charts draw and no figure counts."""
    run = RunFile(report_runs.plain_run(tmp_path / "run.db"))
    page, summary = make_page(run), RunSummary(run)
    assert summary.before is not None
    p99 = next(it for it in page.headline if it.label == "Response time p99")
    charts = {chart.id: chart for chart in page.time_charts}
    assert f"p99 {p99.value} {p99.unit}" in charts["latency"].description
    assert f"{page.headline[0].value} on average" in charts["throughput"].description
