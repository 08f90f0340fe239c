"""Charts show what was measured: no zero for a missing figure, no point outside its band."""

from __future__ import annotations

import random
from pathlib import Path

import drill_runs
import numpy as np
import price_runs
import pytest
import report_runs

from pgdyno import numbers
from pgdyno.facts.intervals import timed
from pgdyno.record import ErrorTotal, RunFile
from pgdyno.report.charts import _server
from pgdyno.report.charts._server import batch_begins, joined, steps
from pgdyno.report.charts.chart import Chart
from pgdyno.report.charts.drills import DID_NOT_START, ROW, cut_charts
from pgdyno.report.charts.latency import _budget_description
from pgdyno.report.charts.over_time import latency, throughput
from pgdyno.report.charts.price import NUMBER_OFFSETS_PX, Point, _bands, _heights, price_chart
from pgdyno.report.charts.time_axis import time_axis
from pgdyno.report.page import html
from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal import story
from pgdyno.report.words import accounts, prose
from pgdyno.report.words.sentences import comparison_sentence
from pgdyno.results.story import FinishedChapter


def markers(chart: Chart) -> dict[int, float]:
    columns = chart.plot.renderers[-1].data_source.data
    return dict(zip(columns["number"], columns["value"], strict=True))


def test_a_cut_that_did_not_start_is_in_a_row_of_its_own() -> None:
    rng = random.Random(3)
    cuts = (
        drill_runs.sample_cut(1, rng, 40),
        drill_runs.sample_cut(2, rng, 0, outcome="refused"),
        drill_runs.sample_cut(3, rng, 0, outcome="no-fault"),
    )
    lost, _, recovery = cut_charts(drill_runs.sample_drill([], cuts=cuts))
    assert markers(lost) == {1: 40, 2: pytest.approx(ROW * 40)}
    assert markers(recovery)[2] > markers(recovery)[1] > 0
    assert lost.plot.y_range.end > ROW * 40
    assert lost.plot.yaxis[0].bounds[1] < ROW * 40
    assert any(getattr(each, "text", "") == DID_NOT_START for each in lost.plot.center)
    assert "in 1 of 3 cuts; 1 did not start; 1 without this figure" in lost.description


def test_cuts_that_all_came_up_have_no_such_row() -> None:
    lost, *_ = cut_charts(drill_runs.sample_drill([0, 0]))
    assert lost.description.startswith("None in 2 cuts")
    assert lost.plot.yaxis[0].bounds == "auto"


def candidates(outcome: str, count: int) -> list[Point]:
    lost_ms = 20.0 if outcome == "commits lost" else None
    return [Point(n, "", 1.0, 0.9, 1.1, outcome, lost_ms, "") for n in range(count)]


@pytest.mark.parametrize("outcome", ["not drilled", "nothing lost", "broken or emptied"])
@pytest.mark.parametrize("count", [1, 4, 9])
def test_all_candidates_are_within_their_band(outcome: str, count: int) -> None:
    points = candidates(outcome, count)
    bands = _bands(points)
    (band,) = [each for each in bands if each.levels]
    heights = _heights(points, bands)
    assert len(set(heights)) == count
    assert all(band.bottom + 0.3 < height < band.top - 0.3 for height in heights)
    edges = [edge for each in bands for edge in (each.bottom, each.top)]
    assert edges == sorted(edges)


def test_losses_on_the_scale_are_not_shifted() -> None:
    points = candidates("commits lost", 3)
    assert len(set(_heights(points, _bands(points)))) == 1


def test_every_measured_candidate_is_on_the_price_chart(tmp_path: Path) -> None:
    with RunFile(price_runs.price_run(tmp_path / "run.db")) as run:
        chart = price_chart(RunSummary(run))
    assert chart is not None
    columns = chart.plot.renderers[-1].data_source.data
    assert len(columns["y"]) == len(chart.table.rows)
    assert all(chart.plot.y_range.start < y < chart.plot.y_range.end for y in columns["y"])
    assert set(columns["number_offset"]) <= set(NUMBER_OFFSETS_PX)


def test_the_last_partial_second_has_no_percentile(tmp_path: Path) -> None:
    with RunFile(report_runs.plain_run(tmp_path / "run.db")) as run:
        axis = time_axis(run)
        starts = sorted(axis.starts_ms)
        chart = latency(axis)
        kept = axis.of_whole_intervals({"at_ms": np.array([starts[0], starts[0] + 1])})
    assert chart is not None
    assert kept["at_ms"].tolist() == [starts[0]]


def test_a_batch_covers_the_time_in_which_it_was_sampled() -> None:
    ends_ms, ticks = np.array([1000.0, 2000, 5000, 6000]), np.full(4, 10.0)
    begins_ms = batch_begins(ends_ms, ticks)
    assert begins_ms.tolist() == [0, 1000, 4000, 5000]
    times_ms, columns = steps(begins_ms, ends_ms, {"a": np.array([1.0, 2, 3, 4])})
    assert times_ms.tolist() == [0, 1000, 1000, 2000, 4000, 4000, 5000, 5000, 6000]
    assert np.isnan(columns["a"]).tolist() == [False] * 4 + [True] + [False] * 4


def test_a_batch_of_few_samplings_is_averaged_with_the_one_before_it() -> None:
    ends_ms, ticks = np.array([1000.0, 1100, 1500, 2500]), np.array([9.0, 1, 2, 10])
    begins_ms = np.array([0.0, 1000, 1300, 1500])
    averages = {"a": np.array([2.0, 12, 50, 1])}
    begins_ms, ends_ms, columns = joined(begins_ms, ends_ms, ticks, averages, 3)
    assert begins_ms.tolist() == [0, 1500]
    assert ends_ms.tolist() == [1100, 2500]
    assert columns["a"].tolist() == [3, 1]


def test_most_is_said_of_more_than_half_only() -> None:
    most = {"IO:WALSync": 6.0, "running": 4.0}
    assert _server._largest_words(most) == (
        "most were waiting in IO:WALSync (the WAL flush) (60 %)"
    )
    split = {"IO:WALSync": 3.1, "LWLock:WALWrite": 3.0, "Lock:transactionid": 3.9}
    assert _server._largest_words(split) == (
        "the largest single share, 39 %, was waiting in Lock:transactionid (a row that another"
        " transaction changed); waits for the WAL flush were 61 % in sum"
    )


def test_charts_and_headline_have_one_percentile_and_one_range(tmp_path: Path) -> None:
    run = RunFile(report_runs.plain_run(tmp_path / "run.db"))
    before, axis, page = RunSummary(run).before, time_axis(run), html.make_page(run)
    times, rates = latency(axis), throughput(axis)
    seconds = [i.throughput_tps for i in timed(run.intervals(axis.measured_ids))]
    assert times is not None
    assert rates is not None
    assert before is not None
    p99 = numbers.ms(before.latency_p99_ms)
    assert f"p99 {p99}" in times.description
    assert f"99 % within {p99}" in page.verdict
    lowest, highest = numbers.tps(min(seconds)), numbers.tps(max(seconds))
    assert f"Between {lowest} and {highest}" in rates.description


def test_the_page_of_a_comparison_has_its_result_once(tmp_path: Path) -> None:
    run = RunFile(report_runs.comparison_run(tmp_path / "run.db"))
    page, compared = html.make_page(run), RunSummary(run).comparison
    assert compared is not None
    result = comparison_sentence(compared)
    blocks = [block for section in page.own for block in section.blocks]
    again = any(block.text.text == prose.sentence(result) for block in blocks if block.text)
    assert (result in RunSummary(run).verdict) != again
    assert "Comparison" in [entry.title for entry in page.contents]


def test_facts_have_names_of_their_own(tmp_path: Path) -> None:
    server = {
        "monitor": True, "database": "shop", "database_bytes": 8_000_000,
        "capabilities": {"io_uring": False},
    }  # fmt: skip
    names = [name for name, _ in accounts._flat(server)]
    assert names == ["role pg_monitor", "database", "size of the database", "built with, io_uring"]


def test_errors_that_the_server_did_not_report_have_no_code() -> None:
    ours = report_error("connect-failed", "cannot connect: refused")
    assert ours.words == "cannot connect: refused"
    assert report_error("40001", "could not serialize").words == "40001 could not serialize"


def report_error(sqlstate: str, message: str) -> ErrorTotal:
    return ErrorTotal("web", "a", "end", sqlstate, False, False, 1, message)


def test_the_largest_part_is_named_in_quotation_marks() -> None:
    assert _budget_description({"measured": {"end": 5.0, "update": 2.5}}) == (
        'Measured: 7.50 ms; the largest part is "end", 5.00 ms (67 %).'
    )


def test_every_label_of_a_chapter_is_followed_by_a_space() -> None:
    chapter = FinishedChapter.model_construct(
        number=1, title="A", sentences=(), as_expected=None, luck=("b",), distrust=("85 %",),
        remark="", run_file="a-1.db",
    )  # fmt: skip
    lines = [line.text for line in story._finished_chapter_lines(chapter, 100)]
    assert "   not trusted   85 %" in lines
