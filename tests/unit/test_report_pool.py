"""The size of a connection pool, on the terminal, on the page and as CSV."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_runs import Level, run_of_slice, text_of
from result_samples import pool_result

from pgdyno.record import RunFile
from pgdyno.report.charts.searches import pool_charts
from pgdyno.report.page.html import render
from pgdyno.report.rows import result_rows
from pgdyno.results.pool import PoolResult

LEVEL = Level(tps=900, service_ms=4, pool_wait_ms=0)


def run_with(path: Path, result: PoolResult | None) -> RunFile:
    """A run file with a slice at one size, and the result."""
    return run_of_slice(path, result, "pool", "point", {"pool_max": {"web": 4}})


def test_a_pool_size_on_the_terminal(tmp_path: Path) -> None:
    text = text_of(run_with(tmp_path / "run.db", pool_result()))
    rows = {line.split()[0]: line for line in text.splitlines() if line[:1].isdigit()}
    assert list(rows) == ["1", "2", "4", "8"]
    assert rows["4"].endswith("best, highest")
    assert rows["8"].endswith("limit not met")
    assert "The best pool has 4 connections\n" in text
    assert "limit       server CPU: the CPU is busy" in text
    assert "beyond      hot row: throughput falls by 12 %" in text
    assert "instances   4 / 2 instances = 2 each" in text
    assert "HikariCP        maximumPoolSize = 2" in text
    assert "through a pool of" not in text.splitlines()[0]


def test_no_size_has_no_settings(tmp_path: Path) -> None:
    without = pool_result(best=None, settings=[], arithmetic=None, sentence="no size meets it")
    text = text_of(run_with(tmp_path / "run.db", without))
    assert "No size meets it" in text
    assert "best" not in text.split("No size")[0].replace("best of", "")
    assert "HikariCP" not in text


def test_a_search_that_did_not_end_shows_what_was_measured(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run.db", None)
    assert "\n4 " in text_of(run)
    (row,) = result_rows(run)
    assert row["size"] == 4
    assert "Pool size" not in render(run)


def test_the_page_has_curve_and_settings(tmp_path: Path) -> None:
    result = pool_result()
    run = run_with(tmp_path / "run.db", result)
    page = render(run)
    for said in ("Pool size", "pool-tps", "pool-p99", "maximumPoolSize = 2", "falls by"):
        assert said in page
    throughput, latency = pool_charts(result)
    assert [key.label for key in throughput.key] == ["mean", "best size", "its 95 % interval"]
    assert "limit p99 < 20ms" in [key.label for key in latency.key]
    assert [row["best"] for row in result_rows(run)] == [False, False, True, False]


@pytest.mark.parametrize("points", [0, 1])
def test_a_curve_without_a_course_has_no_chart(points: int) -> None:
    result = pool_result()
    assert pool_charts(result.model_copy(update={"curve": result.curve[:points]})) == []
    assert pool_charts(None) == []
