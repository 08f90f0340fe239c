"""How much a server takes, on the terminal, on the page and as CSV."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_runs import Level, run_of_slice, text_of
from result_samples import LAW, investigate_result, knee_result

from pgdyno.record import RunFile
from pgdyno.report.charts.searches import capacity_charts
from pgdyno.report.page.html import render
from pgdyno.report.rows import result_rows
from pgdyno.results.investigate import InvestigateResult
from pgdyno.results.knee import Capacity, KneeResult

LEVEL = Level(tps=900, service_ms=4, pool_wait_ms=0)


def run_with(path: Path, result: KneeResult | InvestigateResult | None, command: str) -> RunFile:
    """A run file with a slice at one point, and the result."""
    return run_of_slice(path, result, command, "point", {"clients": {"web": 4}})


def test_a_knee_on_the_terminal(tmp_path: Path) -> None:
    text = text_of(run_with(tmp_path / "run.db", knee_result(), "knee"))
    rows = {line.split()[0]: line for line in text.splitlines() if line[:1].isdigit()}
    assert list(rows) == ["1", "2", "4", "8"]
    assert rows["4"].endswith("knee, highest")
    assert rows["8"].endswith("highest")
    assert rows["2"].endswith("not steady")
    assert "3,600 – 4,400" in rows["4"]
    assert "The knee is at 4 clients\n" in text
    assert "limit       server CPU: the CPU is busy" in text
    flat = " ".join(text.split())
    assert "λ 1,000 tps of one client [900, 1,100], σ 0.10 serialized [0.050, 0.20]" in flat
    assert "κ 0 per pair [0, 0.010]; it levels off, growth in proportion would" in flat
    assert "its highest throughput with 10.0" in flat
    assert "16 clients" not in text.splitlines()[0]


def test_a_rate_on_the_terminal(tmp_path: Path) -> None:
    text = text_of(run_with(tmp_path / "run.db", knee_result(rate=True), "knee"))
    assert text.splitlines()[2].startswith("rate/s")
    assert "met 3 of 3" in text
    assert "met 0 of 3" in text
    assert "law" not in text


def test_a_law_that_is_not_followed_has_no_parameters(tmp_path: Path) -> None:
    law = {**LAW, "follows": False, "sentence": "the curve does not follow the law"}
    text = text_of(run_with(tmp_path / "run.db", knee_result(law=law), "knee"))
    assert "law         the curve does not follow the law" in text
    assert "λ" not in text


def test_a_search_that_did_not_end_shows_what_was_measured(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run.db", None, "knee")
    assert "\n4 " in text_of(run)
    (row,) = result_rows(run)
    assert (row["clients"], row["rate_tps"]) == (4, None)
    assert row["throughput_tps"] > 100
    assert "How much it takes" not in render(run)


@pytest.mark.parametrize("rate", [False, True])
def test_the_page_has_the_curve(tmp_path: Path, rate: bool) -> None:
    result = knee_result(rate=rate)
    run = run_with(tmp_path / "run.db", result, "knee")
    page = render(run)
    for said in ("How much it takes", "knee-tps", "knee-p99", "steady from the start"):
        assert said in page
    throughput, latency = capacity_charts(result)
    assert [key.label for key in throughput.key][:2] == ["mean", "95 % interval"]
    assert ("limit p99 < 20ms" in [key.label for key in latency.key]) == rate
    assert ("Universal Scalability Law, fitted" in [k.label for k in throughput.key]) != rate
    assert len(throughput.table.rows) == 4
    rows = list(result_rows(run))
    assert [row["knee"] for row in rows] == [False, False, True, False]


def test_a_curve_of_one_point_has_no_chart() -> None:
    result = knee_result()
    assert capacity_charts(result.model_copy(update={"curve": result.curve[:1]})) == []
    assert capacity_charts(None) == []


def test_the_last_section_of_an_investigation(tmp_path: Path) -> None:
    knee = knee_result()
    capacity = Capacity.model_validate(
        {name: getattr(knee, name) for name in Capacity.model_fields}
    )
    run = run_with(tmp_path / "run.db", investigate_result(capacity=capacity), "investigate")
    assert "capacity    the knee is at 4 clients" in text_of(run)
    page = render(run)
    assert "How much it takes" in page
    assert "The knee is at 4 clients." in page
