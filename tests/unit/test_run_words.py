"""Sentences on a run do not claim more than it has: p99 of few samples, drops of a stalled run."""

from __future__ import annotations

from pathlib import Path

import pytest
from diagnose_runs import Load, written

from pgdyno.facts.course import SearchEnd, course_of
from pgdyno.report.summary import RunSummary
from pgdyno.report.words.headlines import headline_and_rest
from pgdyno.report.words.sentences import _client_words


@pytest.mark.parametrize(("tps", "has_p99"), [(2.0, False), (1000.0, True)])
def test_the_headline_has_no_p99_of_few_samples(
    tmp_path: Path, tps: float, *, has_p99: bool
) -> None:
    with written(tmp_path, Load(tps=tps)) as run:
        summary = RunSummary(run)
        assert summary.before is not None
        assert (summary.before.latency_p99_ms is not None) == has_p99
        assert ("99 % within" in " ".join(headline_and_rest(summary))) == has_p99


def test_a_run_that_stood_still_most_of_the_time_has_no_usual_throughput(tmp_path: Path) -> None:
    stalled = Load(tps_by_second=[1000.0] * 3 + [0.0] * 7)
    with written(tmp_path, stalled) as run:
        course = course_of(run, [part.id for part in run.slices()])
    assert not course.drops
    assert course.drops_absent
    assert course.drops_absent.search is SearchEnd.TOO_SHORT
    with written(tmp_path, Load()) as run:
        absent = course_of(run, [part.id for part in run.slices()]).drops_absent
    assert absent
    assert absent.search is SearchEnd.NONE_FOUND


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({"think": "50s", "latency_limit": "50ms"}, "1 client with pauses of 50s, late after 50ms"),
        ({"think": "0ms"}, "1 client"),
        ({}, "1 client"),
    ],
)
def test_the_clients_times_have_units(times: dict[str, str], said: str) -> None:
    spec = {"clients": [{"name": "web", "count": 1, **times}]}
    assert _client_words(spec, {}, pools=True) == [said]
