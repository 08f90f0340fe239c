"""Sudden changes and drops of a run, and the knee of a ramp, found in run files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import report_runs
from report_runs import FREE, POOLED, SPEC, Writer

from pgdyno.diagnose.course import Course, course_of
from pgdyno.diagnose.scaling import scaling_of
from pgdyno.record import RunFile
from pgdyno.report.page.html import make_page, render
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.trial.result import run_result

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "result-run.schema.json"
STEPS = {"hold": "60s", "steps": [{"at": "0s", "share": 0.1}]}
Fill = Callable[[Writer], None]


def written(path: Path, fill: Fill, *, seconds: int = 60, **spec: Any) -> RunFile:
    """A run whose one slice ``fill`` writes."""
    load = {"load": {"hold": f"{seconds}s"}}
    writer = Writer(path / "run.db", seconds, command="run", spec=SPEC | load | spec)
    with writer.slice("run"):
        fill(writer)
    return RunFile(writer.finish())


def course(run: RunFile) -> Course:
    return course_of(run, [piece.id for piece in run.slices(kind="run")])


def falling(writer: Writer, *, at_s: int = 34, seconds: int = 60) -> None:
    for second in range(seconds):
        writer.second(FREE if second < at_s else POOLED)


def text_of(run: RunFile) -> str:
    return "\n".join(line.text for line in summary_lines(run, 120))


def test_a_fall_is_told_with_time_before_and_after_everywhere(tmp_path: Path) -> None:
    run = written(tmp_path, falling)
    (change,) = course(run).changes
    assert change.at_ms == pytest.approx(34_000, abs=50)
    assert change.before_tps == pytest.approx(FREE.tps, rel=0.05)
    assert change.after_tps == pytest.approx(POOLED.tps, rel=0.05)
    said = "at 0:34 throughput fell from 5,300 to 2,471 tps"
    assert said in text_of(run)
    assert said in render(run).replace("\N{NO-BREAK SPACE}", " ")
    events = next(chart for chart in make_page(run).time_charts if chart.id == "events")
    assert "sudden change" in events.description


def test_a_steady_run_has_none_and_a_short_one_is_too_short(tmp_path: Path) -> None:
    steady = written(tmp_path, lambda writer: falling(writer, at_s=60))
    assert course(steady).changes == []
    assert course(steady).changes_absent == "none was found"
    assert course(steady).drops_absent == "none was found"
    (tmp_path / "short").mkdir()
    short = course(written(tmp_path / "short", lambda w: falling(w, at_s=4, seconds=4), seconds=4))
    assert "too short to judge" in short.changes_absent
    assert "too short to judge" in short.drops_absent


def test_a_slow_drift_is_no_sudden_change(tmp_path: Path) -> None:
    def drifting(writer: Writer) -> None:
        for second in range(60):
            writer.second(replace(FREE, tps=5000 - 50 * second))

    assert course(written(tmp_path, drifting)).changes == []


PLANNED: dict[str, Mapping[str, Any]] = {
    "an event of the spec": {"events": [{"at": "34s", "sql": "vacuum freeze"}]},
    "a step of a rate": {
        "clients": [
            {
                "name": "web",
                "count": 16,
                "arrival": {"rate": 5310, "steps": [{"at": "34s", "rate": 2480}]},
            }
        ]
    },
    "a wave": {
        "clients": [
            {
                "name": "web",
                "count": 16,
                "arrival": {"rate": 5310, "burst": {"every": "60s", "length": "26s", "rate": 2480}},
            }
        ]
    },
}


@pytest.mark.parametrize("plan", PLANNED)
def test_what_changes_by_plan_is_no_finding(tmp_path: Path, plan: str) -> None:
    found = course(written(tmp_path, falling, **PLANNED[plan]))
    assert list(found.changes) == []
    if plan == "a wave":
        assert found.changes_absent == "not examined: the rate changes by plan (burst)"
    else:
        assert found.changes_absent == "none was found"


def test_clients_that_change_are_no_finding(tmp_path: Path) -> None:
    def stepped(writer: Writer) -> None:
        for second in range(60):
            writer.second(FREE, clients=2 if second < 30 else 16)

    assert list(course(written(tmp_path, stepped, load=STEPS)).changes) == []


def test_a_drop_is_told_with_what_overlapped_it(tmp_path: Path) -> None:
    run = RunFile(report_runs.plain_run(tmp_path / "run.db"))
    found = course(run)
    (drop,) = found.drops
    assert drop.window_ms[0] == pytest.approx(41_000, abs=50)
    assert drop.events == ("checkpoint (timed)",)
    sentence = found.drop_sentence(drop)
    assert sentence.endswith("overlapped with checkpoint (timed)")
    assert f"at 0:41 {sentence}" in " ".join(text_of(run).split())
    assert "because" not in sentence


def test_rates_that_are_low_by_plan_are_no_drop(tmp_path: Path) -> None:
    def resting(writer: Writer) -> None:
        for second in range(60):
            writer.second(FREE, dip=0.05 if 30 <= second < 35 else 1.0)

    rate = {"rate": 5310, "steps": [{"at": "30s", "rate": 260}, {"at": "35s", "rate": 5310}]}
    group = {"name": "web", "count": 16, "arrival": rate}
    assert list(course(written(tmp_path, resting, clients=[group])).drops) == []
    (tmp_path / "closed").mkdir()
    assert len(course(written(tmp_path / "closed", resting)).drops) == 1


def saturating(writer: Writer, *, most: int, counts: tuple[int, ...]) -> None:
    """Throughput that grows with the clients up to ``most`` of them, 3 s at each count."""
    for clients in counts:
        share = min(1.0, clients / 16 * 1.6) if clients < 16 else 1.0
        for _ in range(3):
            writer.second(replace(FREE, tps=800 * min(clients, most) / share), clients=clients)


def test_the_knee_of_steps_is_told_with_its_interval(tmp_path: Path) -> None:
    counts = (1, 2, 4, 6, 8, 12, 16)
    run = written(
        tmp_path, lambda writer: saturating(writer, most=6, counts=counts), seconds=21, load=STEPS
    )
    scaling = scaling_of(run)
    assert scaling is not None
    assert scaling.fit is not None
    assert scaling.knee_clients == pytest.approx(6, rel=0.25)
    lo, hi = scaling.fit.knee_ci95
    assert lo <= scaling.knee_clients <= hi
    assert f"knee        {scaling.sentence[:40]}" in text_of(run)
    chart = next(c for c in make_page(run).client_charts if c.id == "tps-clients")
    assert f"Knee: {scaling.sentence}." in chart.description


def test_without_saturation_there_is_no_knee_within_the_range(tmp_path: Path) -> None:
    run = written(
        tmp_path, lambda w: saturating(w, most=16, counts=(1, 2, 4, 8)), seconds=12, load=STEPS
    )
    scaling = scaling_of(run)
    assert scaling is not None
    assert scaling.knee_clients is None
    assert scaling.sentence.startswith("no knee within 1 to 8 clients")


@pytest.mark.parametrize("load", [{"hold": "60s"}, {"hold": "60s", "ramp": "0ms", "steps": []}])
def test_without_ramp_or_steps_there_is_no_curve(tmp_path: Path, load: Mapping[str, Any]) -> None:
    """Also where clients come to their last transaction at different times."""
    run = written(
        tmp_path, lambda w: saturating(w, most=4, counts=(8, 6, 4, 2)), seconds=12, load=load
    )
    assert scaling_of(run) is None


def test_a_statement_of_the_spec_that_overlaps_a_drop_is_quoted(tmp_path: Path) -> None:
    def locked(writer: Writer) -> None:
        for second in range(40):
            writer.second(FREE, dip=0.01 if second in (20, 21) else 1.0)
        writer.event("sql", "lock table a", at_ms=20_000, duration_ms=2_000)

    (drop,) = course(written(tmp_path, locked, seconds=40)).drops
    assert drop.events == ('the event "lock table a"',)


@pytest.mark.parametrize("load", [{"hold": "60s"}, STEPS])
def test_results_fit_their_schema(tmp_path: Path, load: Mapping[str, Any]) -> None:
    def fill(writer: Writer) -> None:
        if "steps" in load:
            saturating(writer, most=6, counts=(1, 2, 4, 8, 16))
        else:
            falling(writer)

    run = written(tmp_path, fill, load=load)
    result = run_result(run, [piece.id for piece in run.slices()], []).to_json()
    whole = json.loads(json.dumps(result))
    jsonschema.validate(whole, json.loads(SCHEMA.read_text()))
    assert bool(whole["throughput_by_clients"]) == ("steps" in load)
    assert bool(whole["throughput_over_time"]["changes"]) == ("steps" not in load)
