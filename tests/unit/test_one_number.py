"""The same effect has the same digits in the terminal, on the page, in sentences and in JSON."""

from __future__ import annotations

import re
from pathlib import Path

import price_runs
import pytest
import report_runs
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.price.sentences import gain_words
from pgdyno.record import RunFile
from pgdyno.report.page.html import make_page
from pgdyno.report.summary import Ratio, RunSummary
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.report.words import price_list
from pgdyno.results.price import Gain
from pgdyno.stats import Effect, decide
from pgdyno.stats.words import effect_words, ratio_words, rounded

RATIOS = st.floats(min_value=0.02, max_value=500)


@given(RATIOS, RATIOS, RATIOS)
def test_the_kept_ratio_is_written_as_the_measured_one(a: float, b: float, c: float) -> None:
    lo, ratio, hi = sorted((a, b, c))
    words = effect_words(ratio, lo, hi)
    assert words == effect_words(rounded(ratio), rounded(lo), rounded(hi))
    assert words == str(Ratio(ratio, lo, hi))
    assert words in decide(Effect(ratio, lo, hi, 6, 0.1), None).sentence


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
        said = re.escape(ratio_words(attempt.throughput.ratio))
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
    chart = next(chart for chart in page.step_charts if chart.id == "chain-tps")
    assert chart.table.rows[0][1:3] == [tps.was, tps.value]
    chart = next(chart for chart in page.step_charts if chart.id == "chain-p99")
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
        words = effect_words(row.gain.throughput_ratio, *row.gain.ci95)
        assert words in shown
        assert words in page
        if row.gain.compared == "throughput":
            assert words in gain_words(row.gain)
