"""How much a server takes, on the terminal, on the page and as CSV."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot
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
    text = text_of(run_with(tmp_path / "run.db", knee_result(), "knee"), 98)
    rows = {line.split()[0]: line for line in text.splitlines() if line[:1].isdigit()}
    assert list(rows) == ["1", "2", "4", "8"]
    assert rows["4"].endswith("knee, highest")
    assert rows["8"].endswith("highest")
    assert rows["2"].endswith("not steady")
    assert "3,600 – 4,400" in rows["4"]
    assert "16 clients" not in text.splitlines()[0]
    assert text == snapshot("""\
PostgreSQL 18.6, started by pgdyno · 2 cores, 24 GB, ext4 · tpcb-like at scale 20

clients             tps  95 % interval  p50 ms  p99 ms     its 95 %  slices           note
1                 1,000    900 – 1,100    1.00    2.00  1.80 – 2.20       3
2                 2,000  1,800 – 2,200    1.00    4.00  3.60 – 4.40       3     not steady
4                 4,000  3,600 – 4,400    1.00    8.00  7.20 – 8.80       3  knee, highest
8                 4,000  3,600 – 4,400    1.00    16.0  14.4 – 17.6       3        highest

The knee is at 4 clients

limit       server CPU: the CPU is busy
sustained   3,890 tps over 21 s, p99 2.10 ms, steady from the start
law         the curve follows the Universal Scalability Law within 2 %: λ 1,000 tps of one client
            [900, 1,100], σ 0.10 serialized [0.050, 0.20], κ 0 per pair [0, 0.010]; it levels off,
            growth in proportion would reach its highest throughput with 10.0\
""")


def test_a_rate_on_the_terminal(tmp_path: Path) -> None:
    text = text_of(run_with(tmp_path / "run.db", knee_result(rate=True), "knee"))
    assert text.splitlines()[2].startswith("rate/s")
    assert "met 3 of 3" in text
    assert "met 0 of 3" in text
    assert "law" not in text


def test_a_law_that_is_not_followed_has_no_parameters(tmp_path: Path) -> None:
    law = {**LAW, "follows": False, "sentence": "the curve does not follow the law"}
    text = text_of(run_with(tmp_path / "run.db", knee_result(law=law), "knee"))
    assert "λ" not in text
    assert [line for line in text.splitlines() if line.startswith("law")] == snapshot(
        ["law         the curve does not follow the law"]
    )


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
