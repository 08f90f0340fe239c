"""The story of a run as read from its file."""

from __future__ import annotations

from pathlib import Path

import pytest
import report_runs

from pgdyno.record import RunFile
from pgdyno.report.attempts import difference
from pgdyno.report.summary import RunSummary
from pgdyno.spec.change import Change


@pytest.fixture(scope="module")
def investigation(tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    path = tmp_path_factory.mktemp("story") / "run.db"
    return RunSummary(RunFile(report_runs.investigation_run(path)))


def test_attempts_stand_under_the_finding_that_suggested_them(investigation: RunSummary) -> None:
    chain = [(s.finding, [a.title for a in s.attempts]) for s in investigation.steps]
    assert chain == [
        ("client-pool-limit", ["pool 2 → 16"]),
        ("commit-flush", ["commit_delay = 100us", "synchronous_commit = off"]),
    ]
    assert investigation.steps[1].sentence == report_runs.FLUSH_FINDING.sentence


def test_a_change_is_told_without_what_was_kept_before_it(investigation: RunSummary) -> None:
    changes = [a.change.to_json() for a in investigation.attempts]
    assert changes[0] == report_runs.POOL_16
    assert changes[1] == {"settings": {"commit_delay": "100"}}


def test_the_end_is_judged_by_slices_with_what_was_kept_in_force(investigation: RunSummary) -> None:
    assert investigation.changed
    assert investigation.before is not None
    assert investigation.after is not None
    assert investigation.before.throughput_tps == 2480
    assert investigation.after.throughput_tps == 5310
    assert investigation.after.latency_p99_ms < investigation.before.latency_p99_ms


def test_a_recheck_is_named_after_what_was_taken_back(investigation: RunSummary) -> None:
    assert [(a.title, a.outcome) for a in investigation.rechecks] == [
        ("pool 2 → 16", "still earns")
    ]


def test_identical_slices_are_shown_with_what_six_pairs_show(investigation: RunSummary) -> None:
    assert investigation.noise_interval == (0.969, 1.031)
    assert investigation.six_pairs_show == 0.045


def test_a_run_that_broke_off_has_a_verdict_and_no_figures(tmp_path: Path) -> None:
    summary = RunSummary(RunFile(report_runs.empty_run(tmp_path / "run.db")))
    assert summary.verdict == "the run failed before a verdict"
    assert summary.before is None
    assert summary.next_limit is None
    assert summary.steps == []


def test_a_ledger_that_does_not_add_up_is_not_trusted(tmp_path: Path) -> None:
    writer = report_runs.Writer(tmp_path / "run.db", 2, command="run")
    writer.second(report_runs.POOLED)
    writer.left += 7
    writer.second(report_runs.POOLED)
    summary = RunSummary(RunFile(writer.finish()))
    assert summary.distrust == ["the ledger does not add up"]


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"synchronous_commit": "off"}, "synchronous-commit-off"),
        ({"synchronous_commit": "on"}, None),
        ({"work_mem": "64MB"}, "work-mem"),
        ({"cursor_tuple_fraction": "0.2"}, None),
    ],
)
def test_a_comparison_knows_the_price_of_what_the_user_changed(
    tmp_path: Path, settings: dict[str, str], remedy: str | None
) -> None:
    writer = report_runs.Writer(tmp_path / "run.db", 30, command="compare")
    tried = report_runs.Tried(
        "compare", "asked", report_runs.FREE, report_runs.ASYNC, {"settings": settings}
    )
    report_runs.write_trial(writer, tried)
    attempt = RunSummary(RunFile(writer.finish())).comparison
    assert attempt is not None
    assert (attempt.remedy.id if attempt.remedy else None) == remedy


def test_without_leaves_what_differs() -> None:
    base = Change(settings={"a": "1", "b": "2"}, pool_max={"web": 4})
    change = Change(settings={"a": "1", "b": "3", "c": "4"}, pool_max={"web": 4})
    assert difference(change, base) == Change(settings={"b": "3", "c": "4"})
    assert difference(change.over(base), Change()) == change.over(base)
