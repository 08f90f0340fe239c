"""Charts show what was measured: no zero for a missing figure, no point outside its band."""

from __future__ import annotations

import random
from pathlib import Path

import drill_runs
import numpy as np
import price_runs
import pytest
import report_runs

from pgdyno.record import RunFile
from pgdyno.report.charts import _server
from pgdyno.report.charts._batches import batch_begins, joined, steps
from pgdyno.report.charts.chart import Chart
from pgdyno.report.charts.drills import DID_NOT_START, ROW, cut_charts
from pgdyno.report.charts.over_time import latency
from pgdyno.report.charts.price import NUMBER_OFFSETS_PX, Point, _bands, _heights, price_chart
from pgdyno.report.charts.time_axis import time_axis
from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal import story
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


def test_every_label_of_a_chapter_is_followed_by_a_space() -> None:
    chapter = FinishedChapter.model_construct(
        number=1, title="A", sentences=(), as_expected=None, luck=("b",), distrust=("85 %",),
        remark="", run_file="a-1.db",
    )  # fmt: skip
    lines = [line.text for line in story._finished_chapter_lines(chapter, 100)]
    assert "   not trusted   85 %" in lines
