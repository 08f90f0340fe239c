"""Storms of connections, on the terminal, on the page and as CSV."""

from __future__ import annotations

from pathlib import Path

from inline_snapshot import snapshot
from report_runs import Level, run_of_slice, text_of
from result_samples import storm_result

from pgdyno.record import RunFile
from pgdyno.report.charts.storm import storm_charts
from pgdyno.report.page.html import render
from pgdyno.report.rows import result_rows
from pgdyno.results.storm import StormResult

LEVEL = Level(tps=900, service_ms=4, pool_wait_ms=0)


def run_with(path: Path, result: StormResult | None) -> RunFile:
    """A run file with one storm, and the result."""
    return run_of_slice(path, result, "storm", "storm", {"clients": {"web": 1}})


def test_storms_on_the_terminal(tmp_path: Path) -> None:
    text = text_of(run_with(tmp_path / "run.db", storm_result()), 98)
    lines = [line for line in text.splitlines() if line[:1].isdigit() and " that " not in line]
    rows = {line.split()[0]: line for line in lines}
    assert rows["100"].endswith("largest")
    assert rows["200"].endswith("120 of 200 clients were connected after 10 s")
    assert text == snapshot("""\
PostgreSQL 18.6, started by pgdyno · 2 cores, 24 GB, ext4 · tpcb-like at scale 20

clients           survived  steady after, s  connected  connect p50 ms
100                    yes              1.5        100             300
200                     no                         120             300
clients           errors                                          note
100                    0                                       largest
200                    9  120 of 200 clients were connected after 10 s

100 clients that connect at once are survived, steady after 1.5 s

with                                        survived  steady after, s  from – to  errors
as it is                                      0 of 3                                  27
a queue for 10 connections (--pool-max 10)    3 of 3              0.2  0.1 – 0.3       0

errors      9 × 53300: sorry, too many clients already
changes     a queue for 10 connections: 3 of 3 storms survived instead of 0\
""")


def test_storms_on_the_page_and_as_rows(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run.db", storm_result())
    page = render(run)
    assert "Storms, in their order" in page
    assert "Storms of 200 clients, in random order" in page
    assert "storm-steady" in page
    assert "storm-variants" in page
    rows = list(result_rows(run))
    assert [(row["clients"], row["errors"], row["sqlstate"]) for row in rows] == [
        (100, 0, ""), (200, 9, "53300"),
    ]  # fmt: skip


def test_storms_have_charts_of_their_times() -> None:
    by_clients, by_variant = storm_charts(storm_result())
    assert [key.label for key in by_clients.key] == ["survived", "not survived in time"]
    assert by_clients.description == "The largest storm that is survived: 100 clients."
    assert "200 clients" in by_variant.title
    assert storm_charts(None) == []
    assert storm_charts(storm_result(points=(), variants=())) == []


def test_what_was_not_tried_is_told(tmp_path: Path) -> None:
    result = storm_result(untried=["10 at a time (--connecting-max 10)"])
    text = text_of(run_with(tmp_path / "run.db", result))
    assert [line for line in text.splitlines() if "10 at a time" in line] == snapshot(
        ["not tried   for want of time: 10 at a time (--connecting-max 10)"]
    )


def test_a_search_that_did_not_end_shows_what_was_measured(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run.db", None)
    assert "connections" in text_of(run, 140)
    assert len(list(result_rows(run))) == 1
    assert render(run)
