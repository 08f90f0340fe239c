"""Storms of connections, on the terminal, on the page and as CSV."""

from __future__ import annotations

from pathlib import Path

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
    text = text_of(run_with(tmp_path / "run.db", storm_result()), 140)
    lines = [line for line in text.splitlines() if line[:1].isdigit() and " that " not in line]
    rows = {line.split()[0]: line for line in lines}
    assert rows["100"].endswith("largest")
    assert rows["200"].endswith("120 of 200 clients were connected after 10 s")
    assert "100 clients that connect at once are survived, steady after 1.5 s\n" in text
    assert "errors      9 × 53300: sorry, too many clients already" in text
    assert "as it is" in text
    assert "3 of 3 storms survived instead of 0" in text


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
    assert "for want of time: 10 at a time" in text_of(run_with(tmp_path / "run.db", result))


def test_a_search_that_did_not_end_shows_what_was_measured(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run.db", None)
    assert "connections" in text_of(run, 140)
    assert len(list(result_rows(run))) == 1
    assert render(run)
