"""The size of a connection pool, on the terminal, on the page and as CSV."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot
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
    text = text_of(run_with(tmp_path / "run.db", pool_result()), 98)
    rows = {line.split()[0]: line for line in text.splitlines() if line[:1].isdigit()}
    assert list(rows) == ["1", "2", "4", "8"]
    assert rows["4"].endswith("best, highest")
    assert rows["8"].endswith("limit not met")
    assert text == snapshot("""\
PostgreSQL 18.6, started by pgdyno · 2 cores, 24 GB, ext4 · tpcb-like at scale 20 · 16 clients

size                tps  p50 ms  p99 ms  on its connection, ms  slices           note
1                 1,000    10.0    64.0                   1.00       3  limit not met
2                 2,000    10.0    32.0                   1.00       3  limit not met
4                 3,900    10.0    18.0                   1.00       3  best, highest
8                 3,900    10.0    8.00                   1.00       3  limit not met

The best pool has 4 connections

limit       server CPU: the CPU is busy
larger      hot row: throughput falls by 12 %
sustained   not measured
unfinished  the time budget ended before all sizes that decide were measured often enough
instances   4 / 2 instances = 2 each, 4 in all

HikariCP        maximumPoolSize = 2   fixed\
""")
    assert "through a pool of" not in text.splitlines()[0]


def test_no_size_has_no_settings(tmp_path: Path) -> None:
    without = pool_result(best=None, settings=[], arithmetic=None, sentence="no size meets it")
    text = text_of(run_with(tmp_path / "run.db", without), 98)
    assert text == snapshot("""\
PostgreSQL 18.6, started by pgdyno · 2 cores, 24 GB, ext4 · tpcb-like at scale 20 · 16 clients

size                tps  p50 ms  p99 ms  on its connection, ms  slices           note
1                 1,000    10.0    64.0                   1.00       3  limit not met
2                 2,000    10.0    32.0                   1.00       3  limit not met
4                 3,900    10.0    18.0                   1.00       3        highest
8                 3,900    10.0    8.00                   1.00       3  limit not met

No size meets it

limit       server CPU: the CPU is busy
sustained   not measured
unfinished  the time budget ended before all sizes that decide were measured often enough\
""")


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
