"""Charts show time under load alone, whole intervals, events with names, plain numbers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import price_runs
import pytest
import report_runs
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.facts.intervals import timed
from pgdyno.record import Interval, RunFile
from pgdyno.report import session_waits
from pgdyno.report.charts._series import break_gaps, pieces, rate
from pgdyno.report.charts.chart import log_ticks
from pgdyno.report.charts.clients import client_charts
from pgdyno.report.charts.time_axis import Timeline, time_axis
from pgdyno.report.page.html import make_page
from pgdyno.report.view import View
from pgdyno.report.words import headlines


def interval(at_ms: int, duration_ms: float, done: int, slice_id: int | None = 1) -> Interval:
    return Interval(
        at_ms=at_ms, duration_ms=duration_ms, slice_id=slice_id, client_group=None, script=None,
        clients=4, connections=4, intended=done, sent=done, done=done, failed=0, skipped=0,
        cancelled=0, backlog=0, retried=0, expected_errors=0, late=0,
    )  # fmt: skip


def test_a_last_partial_second_makes_no_spike() -> None:
    seconds = [interval(1000 * n, 1000, 500) for n in range(5)]
    merged = timed([*seconds, interval(5000, 12, 60)])
    assert [each.duration_ms for each in merged] == [1000, 1000, 1000, 1000, 1012]
    assert merged[-1].done == 560
    assert max(each.throughput_tps for each in merged) < 560


def test_a_short_interval_of_no_slice_is_left_out() -> None:
    pieces_of_time = [interval(0, 1000, 500), interval(1000, 300, 900, None),
                      interval(1300, 1000, 500, 2)]  # fmt: skip
    assert [each.done for each in timed(pieces_of_time)] == [500, 500]


@given(st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 9)), min_size=1, max_size=40))
def test_merging_loses_nothing_within_a_slice(parts: list[tuple[int, int]]) -> None:
    at_ms, intervals = 0, []
    for length, done in parts:
        intervals.append(interval(at_ms, length, done))
        at_ms += length
    merged = timed(intervals)
    assert sum(each.done for each in merged) <= sum(done for _, done in parts)
    least = 0.5 * float(np.median([length for length, _ in parts]))
    assert all(each.duration_ms >= least for each in merged)


def test_time_without_load_is_no_time() -> None:
    line = Timeline.of([interval(0, 1000, 1), interval(1000, 1000, 1), interval(9000, 1000, 1)], 0)
    assert line.periods == [(0, 2000), (9000, 10_000)]
    moments = np.array([500.0, 1990, 5000, 9500, 20_000])
    assert line.under_load(moments).tolist() == [True, True, False, True, False]
    at_ms = np.array([1000.0, 2000, 9000, 10_000])
    _, per_second = rate(at_ms, np.array([0.0, 10, 9000, 9010]), line.number_of(at_ms))
    assert per_second[[0, 2]].tolist() == [10, 10]
    assert np.isnan(per_second[1])


def test_an_area_ends_where_the_load_ends() -> None:
    at_ms = np.array([0.0, 1000, 2000, 3000])
    period = np.array([0, 0, 1, 1])
    _, columns = break_gaps(at_ms, {"a": np.ones(4), "b": np.ones(4)}, period)
    assert pieces(columns) == [slice(0, 2), slice(3, 5)]


def test_the_axis_of_a_price_list_ends_with_the_load_and_not_with_the_drills(
    tmp_path: Path,
) -> None:
    run = RunFile(price_runs.price_run(tmp_path / "run.db"))
    axis = time_axis(run)
    last = axis.intervals[-1]
    assert axis.x_range.end == pytest.approx((last.at_ms + last.duration_ms) / 1000, abs=1)
    assert (run.run.ended_ms or 0) / 1000 > axis.x_range.end


def test_waits_are_events_in_words() -> None:
    assert session_waits.label("LWLock:WALWrite") == "LWLock:WALWrite (queue for the WAL flush)"
    assert session_waits.label("IO:WalSync") == "IO:WalSync (the WAL flush)"
    assert session_waits.label("Extension:Unheard") == "Extension:Unheard"
    averages = {"running": 1.0, **{f"IO:E{n}": 1.0 + n for n in range(12)}, "IO:Tiny": 0.001}
    named = session_waits.largest(averages)
    assert named[:2] == ["running", "IO:E11"]
    assert len(named) == 1 + session_waits.SHOWN_MAX
    gathered = session_waits.with_others_summed(averages, named)
    assert sum(gathered.values()) == pytest.approx(sum(averages.values()))
    assert list(gathered)[-1] == session_waits.OTHER
    colours = session_waits.colours(gathered)
    assert len(set(colours.values())) >= len(colours) - 1


def test_the_page_names_events(tmp_path: Path) -> None:
    page = make_page(RunFile(report_runs.plain_run(tmp_path / "run.db")))
    sessions = next(chart for chart in page.time_charts if chart.id == "sessions")
    assert any("LWLock:WALWrite (queue for the WAL flush)" in row[0] for row in sessions.table.rows)


@given(st.floats(0.001, 5000), st.floats(1.01, 10_000))
def test_a_log_axis_has_numbers_enough(least: float, factor: float) -> None:
    most = least * factor
    shown = [tick for tick in log_ticks([np.array([least, most])]) if least / 2 <= tick <= most * 2]
    assert len(shown) >= 3
    assert all("e" not in f"{tick:g}" for tick in shown if 0.001 <= tick < 100_000)


def test_throughput_against_clients_keeps_settings_apart(tmp_path: Path) -> None:
    writer = report_runs.Writer(tmp_path / "run.db", 60, command="compare", spec_text="")
    trial = writer.recorder.add_trial(kind="compare", title="x")
    for side, change in (("a", {}), ("b", {"settings": {"fsync": "off"}})):
        for clients in (4, 8, 16):
            with writer.slice("trial", trial_id=trial, side=side, change=change):
                level = report_runs.FREE if side == "a" else report_runs.ASYNC
                writer.second(level, clients=clients)
    throughput, *latencies = client_charts(RunFile(writer.finish()))
    assert [key.label for key in throughput.key][:2] == ["without a change", "fsync = off"]
    assert {row[0] for row in throughput.table.rows} == {"without a change", "fsync = off"}
    assert len(latencies) == 2


@given(st.text(alphabet="ab ;,:()", min_size=1, max_size=400))
def test_headlines_are_short(text: str) -> None:
    assert len(headlines.shortened(text)) <= headlines.LETTERS_MAX
    summary = SimpleNamespace(view=View("compare"), verdict=text)
    headline, lead = headlines.headline_and_rest(summary)  # type: ignore[arg-type]
    assert len(headline) <= headlines.LETTERS_MAX
    assert lead or headline.lower() == text.lower()


def test_the_text_below_a_headline_does_not_repeat_it() -> None:
    whole = f"better: 2.02x in 6 pairs; {'identical slices differ ' * 4}by up to 27 %"
    headline, lead = headlines.headline_of(whole)
    assert headline == "Better: 2.02x in 6 pairs"
    assert lead.startswith("Identical slices differ")


@pytest.mark.parametrize(
    "whole",
    [
        "2 cores are busy with other programs: pgdyno (2 processes, 1.6 cores), postgres (0.3"
        " cores, of another server) and chromium",
        "throughput of all clients rises with the change 4.29x [3.90, 4.70], in twelve pairs [2"
        " void, measured again], says the trial",
        "a statement that reads whole tables again and again for each transaction (orders,"
        " customers, lines)",
    ],
)
def test_no_headline_ends_within_or_before_a_parenthesis(whole: str) -> None:
    headline = headlines.shortened(whole)
    assert len(headline) <= headlines.LETTERS_MAX
    assert not whole.removeprefix(headline).startswith(" (")
    if not headline.endswith("…"):
        assert all(headline.count(a) == headline.count(b) for a, b in ("()", "[]"))


@pytest.mark.parametrize(
    "make", [report_runs.plain_run, report_runs.comparison_run, report_runs.investigation_run]
)
def test_titles_of_pages_are_short(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    page = make_page(RunFile(make(tmp_path / "run.db")))
    assert len(page.title) <= headlines.LETTERS_MAX
    assert len(page.verdict) <= headlines.LETTERS_MAX
    assert all(len(entry.title) <= headlines.LETTERS_MAX for entry in page.contents)


def test_a_run_opens_with_its_figures(tmp_path: Path) -> None:
    page = make_page(RunFile(report_runs.plain_run(tmp_path / "run.db")))
    assert page.contents[0].id == "latency"
    assert [it.label for it in page.headline][:3] == ["Throughput", "Response time p99", "Failed"]
    assert "transactions per second, 99 % within" in page.verdict
    assert page.lead.startswith("Limit:")
    assert page.statements is not None
    assert list(page.statements.head[:5]) == ["Statement", "share", "done", "failed", "mean"]
    shares = [float(row[1].rstrip(" %")) for row in page.statements.rows]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=3)
