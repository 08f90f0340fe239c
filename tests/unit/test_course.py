"""Sudden changes and drops of a run, and the knee of a ramp, found in run files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import report_runs
from inline_snapshot import snapshot
from msgspec.structs import replace
from report_runs import FREE, POOLED, SPEC, Writer

from pgdyno.facts.course import Absence, Course, SearchEnd, course_of
from pgdyno.facts.scaling import scaling_of
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


def _search(absent: Absence | None) -> SearchEnd | None:
    return absent and absent.search


def _searches(found: Course) -> set[SearchEnd | None]:
    """Return the ends of the searches for changes and drops."""
    absences = (found.changes_absent, found.latency_changes_absent, found.drops_absent)
    return {_search(each) for each in absences}


def falling(writer: Writer, *, at_s: int = 34, seconds: int = 60) -> None:
    for second in range(seconds):
        writer.second(FREE if second < at_s else POOLED)


def text_of(run: RunFile) -> str:
    return "\n".join(line.text for line in summary_lines(run, 120))


def test_a_fall_is_told_with_time_before_and_after_everywhere(tmp_path: Path) -> None:
    run = written(tmp_path, falling)
    (change,) = course(run).changes
    assert change.at_ms == pytest.approx(34_000, abs=50)
    assert change.before == pytest.approx(FREE.tps, rel=0.05)
    assert change.after == pytest.approx(POOLED.tps, rel=0.05)
    said = "at 0:34 throughput fell from 5,300 to 2,471 tps"
    assert said in text_of(run)
    assert said in render(run).replace("\N{NO-BREAK SPACE}", " ")
    events = next(chart for chart in make_page(run).time_charts if chart.id == "events")
    assert "sudden change" in events.description


def slowing(writer: Writer) -> None:
    """An open loop holds its rate while the server takes twice as long."""
    for second in range(60):
        writer.second(FREE if second < 34 else replace(FREE, service_ms=2 * FREE.service_ms))


def test_slower_responses_at_the_same_rate_are_told_everywhere(tmp_path: Path) -> None:
    run = written(tmp_path, slowing)
    found = course(run)
    assert list(found.changes) == []
    median, *others = found.latency_changes
    assert (median.percentile, others) == (50, [])  # p99 doubled as well, which is not said again
    assert median.at_ms == pytest.approx(34_000, abs=50)
    assert median.before == pytest.approx(FREE.service_ms, rel=0.05)
    assert median.ratio == pytest.approx(2, rel=0.05)
    assert found.latency_json()["changes"][0]["percentile"] == 50
    said = f"at 0:34 {median.sentence}"
    assert said == snapshot(
        "at 0:34 p50 of the response time rose from 3 to 5.8 ms; nothing that was watched"
        " overlapped it"
    )
    assert said in " ".join(text_of(run).split())
    assert said in render(run).replace("\N{NO-BREAK SPACE}", " ")


def test_what_throughput_of_a_closed_loop_says_is_not_said_twice(tmp_path: Path) -> None:
    found = course(written(tmp_path, falling))
    assert len(found.changes) == 1
    assert list(found.latency_changes) == []
    assert _search(found.latency_changes_absent) is SearchEnd.SHOWN_BY_THROUGHPUT


def test_a_tail_that_grows_alone_is_told(tmp_path: Path) -> None:
    def tailed(writer: Writer) -> None:
        for second in range(60):
            writer.second(FREE, sigma=0.6 if second < 30 else 1.2)

    (change,) = course(written(tmp_path, tailed)).latency_changes
    assert (change.percentile, change.at_ms) == (99, pytest.approx(30_000, abs=50))
    assert change.ratio > 2


def test_few_transactions_tell_nothing_about_response_times(tmp_path: Path) -> None:
    def rare(writer: Writer) -> None:
        for _ in range(60):
            writer.second(replace(FREE, tps=3))

    run = written(tmp_path, rare)
    assert _search(course(run).latency_changes_absent) is SearchEnd.TOO_FEW_TRANSACTIONS
    assert "response times: not examined" in " ".join(text_of(run).split())


def test_a_steady_run_has_none_and_a_short_one_is_too_short(tmp_path: Path) -> None:
    steady = written(tmp_path, lambda writer: falling(writer, at_s=60))
    assert course(steady).changes == []
    assert _searches(course(steady)) == {SearchEnd.NONE_FOUND}
    (tmp_path / "short").mkdir()
    short = course(written(tmp_path / "short", lambda w: falling(w, at_s=4, seconds=4), seconds=4))
    assert _searches(short) == {SearchEnd.TOO_SHORT}


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
    by_plan = SearchEnd.PLANNED_RATE if plan == "a wave" else SearchEnd.NONE_FOUND
    assert _search(found.changes_absent) is by_plan


def test_clients_that_change_are_no_finding(tmp_path: Path) -> None:
    def stepped(writer: Writer) -> None:
        for second in range(60):
            writer.second(FREE, clients=2 if second < 30 else 16)

    assert list(course(written(tmp_path, stepped, load=STEPS)).changes) == []


@pytest.mark.parametrize(("vacuum_s", "overlaps"), [(33, True), (20, False)])
def test_a_change_is_listed_with_what_overlapped_it(
    tmp_path: Path, vacuum_s: int, overlaps: bool
) -> None:
    def with_vacuum(writer: Writer) -> None:
        falling(writer)
        writer.recorder.add_event(
            "vacuum", "vacuum of shop", ns=writer.recorder.started_ns + vacuum_s * 10**9
        )

    (change,) = course(written(tmp_path, with_vacuum)).changes
    assert ("vacuum of shop" in change.overlapped) is overlaps
    assert ("overlapped with" in change.sentence) is bool(change.overlapped)
    assert change.to_json()["overlapped_with"] == list(change.overlapped)


def overlapped(path: Path, beside: Callable[[Writer, int], None]) -> tuple[str, ...]:
    """What the only change, at 34 s, is tied to if ``beside`` writes more samples each second."""

    def fill(writer: Writer) -> None:
        for second in range(60):
            beside(writer, second)
            writer.second(FREE if second < 34 else POOLED)

    (change,) = course(written(path, fill)).changes
    return change.overlapped


def test_what_was_there_all_the_time_explains_no_change(tmp_path: Path) -> None:
    """Sessions of both levels wait for the WAL flush."""
    assert overlapped(tmp_path, lambda *_: None) == ()


@pytest.mark.parametrize(("from_s", "tied"), [(34, True), (0, False), (60, False)])
def test_stolen_cpu_time_that_begins_with_a_change_is_tied_to_it(
    tmp_path: Path, from_s: int, tied: bool
) -> None:
    def stealing(writer: Writer, second: int) -> None:
        writer.cpu["steal"] += 600 * (second >= from_s)

    found = overlapped(tmp_path, stealing)
    assert found == (snapshot(("stolen CPU time went from 3.6 % to 24 %",)) if tied else ())


@pytest.mark.parametrize(("from_s", "tied"), [(34, True), (0, False)])
def test_another_program_that_begins_with_a_change_is_tied_to_it(
    tmp_path: Path, from_s: int, tied: bool
) -> None:
    def busy(writer: Writer, second: int) -> None:
        row = {"whose": "other", "program": "backup", "count": 1}
        row["cpu_ms"] = 5000.0 + 1000 * max(0, second - from_s)
        writer.recorder.add_rows("metric_program", [row], ns=writer.ns)

    found = overlapped(tmp_path, busy)
    assert found == (snapshot(("backup went from 0 % to 50 % of the CPU time",)) if tied else ())


@pytest.mark.parametrize(
    ("per_s", "offset", "tied"), [(0.02, 0.32, True), (0.02, 0.82, False), (0.5, 0.0, False)]
)
def test_a_segment_switch_is_tied_only_if_it_is_near_and_rare(
    tmp_path: Path, per_s: float, offset: float, tied: bool
) -> None:
    def logging(writer: Writer, second: int) -> None:
        written = int((10 + offset + second * per_s) * (16 << 20))
        writer.recorder.add_rows("metric_wal", [{"insert_lsn_bytes": written}], ns=writer.ns)

    found = overlapped(tmp_path, logging)
    assert found == (snapshot(("a switch to the next WAL segment",)) if tied else ())


@pytest.mark.parametrize("freezes", [True, False])
def test_a_vacuum_to_prevent_wraparound_is_called_so(tmp_path: Path, freezes: bool) -> None:
    def vacuuming(writer: Writer, second: int) -> None:
        if second >= 34:
            row = {"pid": 7, "relation": "shop", "phase": "scanning heap", "automatic": 1}
            row["to_prevent_wraparound"] = int(freezes)
            writer.recorder.add_rows("metric_vacuum", [row], ns=writer.ns)

    assert (
        overlapped(tmp_path, vacuuming)
        == snapshot({True: ("vacuum of shop to prevent wraparound",), False: ("vacuum of shop",)})[
            freezes
        ]
    )


def test_a_drop_is_told_with_what_overlapped_it(tmp_path: Path) -> None:
    run = RunFile(report_runs.plain_run(tmp_path / "run.db"))
    found = course(run)
    (drop,) = found.drops
    assert drop.window_ms[0] == pytest.approx(41_000, abs=50)
    assert drop.events == ("checkpoint (timed)",)
    sentence = found.drop_sentence(drop)
    assert sentence == snapshot(
        "throughput nearly stopped for 2 s, 117 tps where the median is 2,471; overlapped with"
        " checkpoint (timed)"
    )
    assert f"at 0:41 {sentence}" in " ".join(text_of(run).split())


def test_rates_that_are_low_by_plan_are_no_drop(tmp_path: Path) -> None:
    def resting(writer: Writer) -> None:
        for second in range(60):
            writer.second(FREE, dip=0.05 if 30 <= second < 35 else 1.0)

    rate = {"rate": 5310, "steps": [{"at": "30s", "rate": 260}, {"at": "35s", "rate": 5310}]}
    group = {"name": "web", "count": 16, "arrival": rate}
    assert list(course(written(tmp_path, resting, clients=[group])).drops) == []
    (tmp_path / "closed").mkdir()
    assert len(course(written(tmp_path / "closed", resting)).drops) == 1


def test_random_arrivals_that_leave_a_second_empty_are_no_drop_and_no_change(
    tmp_path: Path,
) -> None:
    arrivals = np.random.default_rng(1).poisson(4, 120)
    arrivals[60] = 0

    def sparse(writer: Writer) -> None:
        for count in arrivals:
            writer.second(replace(FREE, tps=count + 0.5), clients=16)

    group = {"name": "web", "count": 16, "arrival": {"rate": 4}}
    found = course(written(tmp_path, sparse, seconds=120, clients=[group]))
    assert (list(found.drops), list(found.all_changes)) == ([], [])
    assert _search(found.drops_absent) is SearchEnd.NONE_FOUND


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
    assert scaling.sentence == snapshot(
        "no knee within 1 to 8 clients: throughput still grows with the clients"
    )


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
    assert drop.events == snapshot(('the event "lock table a"',))


@pytest.mark.parametrize("load", [{"hold": "60s"}, STEPS])
def test_results_fit_their_schema(tmp_path: Path, load: Mapping[str, Any]) -> None:
    def fill(writer: Writer) -> None:
        if "steps" in load:
            saturating(writer, most=6, counts=(1, 2, 4, 8, 16))
        else:
            falling(writer)

    run = written(tmp_path, fill, load=load)
    result = run_result(run, [piece.id for piece in run.slices()], None).to_json()
    whole = json.loads(json.dumps(result))
    jsonschema.validate(whole, json.loads(SCHEMA.read_text()))
    assert bool(whole["throughput_by_clients"]) == ("steps" in load)
    assert bool(whole["throughput_over_time"]["changes"]) == ("steps" not in load)


def test_the_reason_not_to_trust_a_run_is_not_repeated(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.db", 10, command="run", spec=SPEC)
    with writer.slice("run") as slice_id:
        writer.recorder.void_slice(slice_id, "the server went away")
    found = course(RunFile(writer.finish()))
    assert _searches(found) == {SearchEnd.UNTRUSTED}
