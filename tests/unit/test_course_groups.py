"""Sudden changes of response times by client group: found, named, and not listed twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from inline_snapshot import snapshot
from msgspec import Struct
from record_samples import add_second, at, group_row, new_recorder, script_row
from report_runs import histogram
from test_course import SCHEMA, course, text_of

from pgdyno.facts.changes import PercentileChange
from pgdyno.facts.course import Course
from pgdyno.record import RunFile
from pgdyno.report.page.html import render
from pgdyno.trial.result import run_result

SECONDS = 120
HALF = SECONDS // 2


class Level(Struct, frozen=True):
    """Transactions per second of a group, and its median response time and spread."""

    tps: int
    median_ms: float
    sigma: float = 0.6


READS = Level(3000, 1.0)
CHECKOUT = Level(1500, 4.0)


def written(
    path: Path, before: Mapping[str, Level], after: Mapping[str, Level], *, noise: float = 0.05
) -> RunFile:
    """A run whose groups change from one level to another after half of it."""
    spec = {
        "name": "shop",
        "clients": [{"name": name, "count": 8, "arrival": {"rate": level.tps}}
                    for name, level in before.items()],
        "load": {"hold": f"{SECONDS}s"},
    }  # fmt: skip
    rng = np.random.default_rng(3)
    recorder = new_recorder(path / "run.db", spec=spec)
    slice_id = recorder.open_slice("run", ns=at(recorder, 0))
    for second in range(SECONDS):
        levels = before if second < HALF else after
        rows = []
        for name, level in levels.items():
            service = histogram(
                level.tps, level.median_ms * float(np.exp(noise * rng.normal())), level.sigma
            )
            rows.append(
                script_row(
                    name, intended=level.tps, sent=level.tps, done=level.tps, clients=8,
                    response=service, service=service,
                )
            )  # fmt: skip
        groups = [group_row(name, clients=8, connections=8) for name in levels]
        add_second(recorder, second, rows, groups=groups)
    recorder.close_slice(slice_id, ns=at(recorder, SECONDS))
    recorder.finish("done")
    return RunFile(path / "run.db")


def changes(found: Course) -> list[tuple[str | None, int]]:
    return [(each.group, each.percentile) for each in found.latency_changes]


def tail_of(level: Level, times: float) -> Level:
    """The level with a p99 so many times as long, and the same median."""
    return Level(level.tps, level.median_ms, level.sigma + float(np.log(times)) / 2.33)


def test_a_tail_of_one_group_is_found_and_named_everywhere(tmp_path: Path) -> None:
    before = {"reads": READS, "checkout": CHECKOUT}
    run = written(tmp_path, before, before | {"checkout": tail_of(CHECKOUT, 3)})
    (change,) = course(run).latency_changes
    assert (change.group, change.percentile) == ("checkout", 99)
    assert change.at_ms == pytest.approx(1000 * HALF, abs=1000)
    assert change.ratio == pytest.approx(3, rel=0.2)
    said = f"at 1:00 {change.sentence}"
    assert said == snapshot(
        "at 1:00 p99 of the response time of group checkout rose from 15 to 44 ms; nothing that"
        " was watched overlapped it"
    )
    assert said in " ".join(text_of(run).split())
    assert said in render(run).replace("\N{NO-BREAK SPACE}", " ")
    result = run_result(run, [piece.id for piece in run.slices()], None).to_json()
    jsonschema.validate(result, json.loads(SCHEMA.read_text()))
    (listed,) = result["latency_over_time"]["changes"]
    assert (listed["client_group"], listed["within_s"]) == ("checkout", 0)


def test_a_small_group_does_not_drown_in_a_large_one(tmp_path: Path) -> None:
    """Of 3,050 transactions per second 50 are three times as slow, which no percentile of all
    shows; and 50 in a second are too few for p99, but those of some seconds are enough."""
    small = Level(50, 4.0)
    before = {"reads": READS, "checkout": small}
    slower = course(
        written(tmp_path, before, before | {"checkout": Level(50, 12.0)})
    ).latency_changes
    assert [(each.group, each.percentile) for each in slower] == [("checkout", 50)]


def test_a_tail_is_searched_in_merged_intervals_where_transactions_are_few(tmp_path: Path) -> None:
    small = Level(250, 4.0)
    before = {"reads": READS, "checkout": small}
    run = written(tmp_path, before, before | {"checkout": tail_of(small, 4)})
    (change,) = course(run).latency_changes
    assert (change.group, change.percentile) == ("checkout", 99)
    assert 4000 < change.within_ms <= 8000
    assert abs(change.at_ms - 1000 * HALF) <= change.within_ms
    assert change.sentence == snapshot(
        "p99 of the response time of group checkout rose from 16 to 60 ms (one value for each 5"
        " s); nothing that was watched overlapped it"
    )


def test_what_all_groups_show_alike_is_said_once(tmp_path: Path) -> None:
    before = {"reads": READS, "checkout": CHECKOUT}
    after = {"reads": Level(3000, 2.0), "checkout": Level(1500, 8.0)}
    assert changes(course(written(tmp_path, before, after))) == [(None, 50)]


def test_groups_that_change_differently_are_each_named(tmp_path: Path) -> None:
    before = {"reads": READS, "checkout": CHECKOUT}
    after = {"reads": Level(3000, 1.5), "checkout": Level(1500, 12.0)}
    found = changes(course(written(tmp_path, before, after)))
    assert sorted(found, key=str) == [("checkout", 50), ("reads", 50)]


def test_a_group_with_too_few_transactions_is_said_not_to_be_examined(tmp_path: Path) -> None:
    before = {"reads": READS, "checkout": Level(1, 4.0)}
    run = written(tmp_path, before, before)
    found = course(run)
    assert list(found.latency_changes) == []
    assert found.latency_unsearched == ["checkout"]
    said = "response times of group checkout alone: not examined, too few transactions ended"
    assert said in " ".join(text_of(run).split())
    assert found.latency_json()["groups_not_examined"] == ["checkout"]


def test_a_single_group_is_not_named(tmp_path: Path) -> None:
    run = written(tmp_path, {"reads": READS}, {"reads": Level(3000, 2.0)})
    assert changes(course(run)) == [(None, 50)]
    assert "of group" not in text_of(run)


@pytest.mark.parametrize(
    ("apart_ms", "within_ms", "same"), [(1500, 0, True), (4000, 0, False), (4000, 5000, True)]
)
def test_two_changes_are_at_one_moment_as_far_as_it_is_known(
    apart_ms: int, within_ms: int, same: bool
) -> None:
    one = PercentileChange(60_000, 1.0, 2.0, percentile=99)
    other = PercentileChange(60_000 + apart_ms, 1.0, 2.0, percentile=99, within_ms=within_ms)
    assert one.is_with(other) is same
    assert other.is_with(one) is same
