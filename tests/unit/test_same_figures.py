"""One quantity of a result has one value: in the terminal, on the page, in JSON and in CSV."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import report_runs
import result_samples

from pgdyno import numbers
from pgdyno._engine import Histogram
from pgdyno.compare.change import _with_verdict, compare_question
from pgdyno.conduct import Session
from pgdyno.facts.failures import FailedTransactions
from pgdyno.investigate._outcome import InvestigationOutcome, result_of
from pgdyno.investigate._progress import AnsweredTrial, Kept, Progress
from pgdyno.investigate._proposals import AssessedProposal
from pgdyno.investigate._records import step_of
from pgdyno.investigate._trials import decision_of
from pgdyno.record import RunFile
from pgdyno.remedy import assess, catalogue, circumstances
from pgdyno.report.page.html import make_page
from pgdyno.report.rows import result_rows
from pgdyno.report.summary import RunSummary
from pgdyno.results import load, store
from pgdyno.results.compare import CompareResult
from pgdyno.results.investigate import InvestigateResult
from pgdyno.results.knee import Capacity, KneeResult
from pgdyno.results.pool import PoolResult
from pgdyno.search._bisection import RateSearch
from pgdyno.search._curve import Curve, Hold, Searched
from pgdyno.search._knee_result import capacity_of_clients, capacity_of_rates
from pgdyno.search._points import PointSlice
from pgdyno.search._pool_result import PoolSearched, pool_figures
from pgdyno.search._sizes import SizeSearch
from pgdyno.search.slo import parse_limits
from pgdyno.spec import Change, spec_from_fields
from pgdyno.spec.pooler import PoolerSpec
from pgdyno.trial._arms import Arm, SliceFigures
from pgdyno.trial._judging import Matters, judge
from pgdyno.trial.pairs import Noise, TrialAnswer, _columns
from pgdyno.trial.question import Question
from pgdyno.trial.result import Steadiness, run_result

if TYPE_CHECKING:
    from pgdyno.results import Result

NUMBER = r"\d[\d,]*(?:\.\d+)?"
TPS = re.compile(rf"({NUMBER}) (?:tps|transactions per second)\b")
P99 = re.compile(rf"p99 ({NUMBER}) ms")
LESS = re.compile(rf"({NUMBER}) % less than in the shorter slices")
FROM_TO = re.compile(rf"({NUMBER}) → ({NUMBER}) (tps|ms)\b")


def number(text: str) -> float:
    return float(text.replace(",", ""))


def same(shown: float, kept: float) -> bool:
    """Three digits are shown, and more of what is 1,000 or longer."""
    return math.isclose(shown, kept, rel_tol=0.006, abs_tol=0.0006)


def texts_of(value: Any) -> Iterable[str]:
    """Every text in the parts of a page."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from texts_of(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from texts_of(each)
    elif hasattr(value, "__struct_fields__"):
        for name in value.__struct_fields__:
            yield from texts_of(getattr(value, name))
    elif hasattr(value, "__dict__"):
        yield from texts_of(vars(value))


def media(run: RunFile) -> dict[str, str]:
    """What a reader sees of a run, by medium."""
    page = "\n".join(texts_of(make_page(run)))
    return {"terminal": report_runs.text_of(run, 400), "page": page}


def recorded(run: RunFile) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The result in JSON and in CSV."""
    result = load(run)
    assert result is not None
    return json.loads(result.model_dump_json()), [dict(row) for row in result_rows(run)]


def stored(path: Path, result: Result, command: str) -> RunFile:
    return report_runs.run_of_slice(path, result, command, "hold", {})


LEVELS = {1: 900.0, 2: 1800.0, 4: 3300.0, 8: 3500.0, 16: 3400.0, 32: 3000.0}


def point_slice(point: float, tps: float, p99_ms: float, seconds: float, why: str = "") -> Any:
    """A slice of which the p99 differs from slice to slice, and one half is like the other."""
    response = Histogram()
    for place in range(2000):
        response.record(round(1e6 * p99_ms * (1 if place >= 1960 else 0.3)))
    return PointSlice(
        round(point), seconds, tps, (tps, tps), response, 0.2 * p99_ms,
        behind=False, failing="", why=why,
    )  # fmt: skip


def sizes_searched() -> tuple[SizeSearch, Curve]:
    """A search whose slices of one size spread, and have different lengths."""
    rng = random.Random(3)
    search, curve, taken = SizeSearch(32, rng), Curve(), 0
    while wanted := search.next_round(40 - taken):
        for size in wanted:
            near = min(LEVELS, key=lambda each: abs(math.log(each / size)))
            speed = math.exp(rng.gauss(0, 0.15))
            tps = LEVELS[near] * speed
            curve.add(size, point_slice(size, tps, 27 / speed, rng.choice([1.0, 4.0])))
            search.add(size, tps)
            taken += 1
    return search, curve


def hold_at(point: float, tps: float) -> Hold:
    """A long slice with a third less throughput, and a longer p99."""
    measured = point_slice(point, 0.7 * tps, 34.9, 20.0)
    return Hold(point, measured, Steadiness(True, "steady from the start"))


def searched(curve: Curve, hold: Hold, slo: str = "") -> Searched:
    return Searched(
        group="web", limits=parse_limits(slo) if slo else (), curve=curve, hold=hold, limit=None,
        out_of_time=False, elapsed_s=60.0,
    )  # fmt: skip


def knee_of_clients(path: Path) -> RunFile:
    search, curve = sizes_searched()
    found = search.found()
    assert found is not None
    measured = searched(curve, hold_at(found.answer, 3300.0))
    capacity = capacity_of_clients(measured, found, why_most="enough")
    return stored(path, knee_result(capacity), "knee")


def knee_of_rates(path: Path) -> RunFile:
    rng = random.Random(5)
    search, curve = RateSearch(400.0, 10.0, 1e6, rng), Curve()
    for _ in range(40):
        if (rate := search.next_rate()) is None:
            break
        met = rate < 900 * math.exp(rng.gauss(0, 0.03))
        tps, why = rate * math.exp(rng.gauss(0, 0.02)), "" if met else "p99 is 60 ms"
        p99_ms = rng.uniform(20, 35) if met else 60.0
        curve.add(rate, point_slice(rate, tps, p99_ms, rng.choice([1.0, 4.0]), why))
        search.add(rate, met=met)
    assert search.met is not None
    measured = searched(curve, hold_at(search.met, search.met), "p99<40ms")
    capacity = capacity_of_rates(measured, search, clients=64)
    return stored(path, knee_result(capacity), "knee")


def knee_result(capacity: Capacity) -> KneeResult:
    head = {name: getattr(result_samples.knee_result(), name) for name in result_samples._HEAD}
    return KneeResult.model_validate({**dict(capacity), **head})


def pool_run(path: Path) -> RunFile:
    search, curve = sizes_searched()
    found = search.found()
    assert found is not None
    figures = pool_figures(
        PoolSearched(
            group="web", clients=100, pooler=PoolerSpec(), rate_tps=None, limits=(), instances=1,
            found=found, curve=curve, hold=hold_at(found.knee, 3300.0), limit=None, larger=None,
            why_no_larger="enough", out_of_time=False, elapsed_s=60.0,
        )
    )  # fmt: skip
    head = {name: getattr(result_samples.pool_result(), name) for name in result_samples._HEAD}
    return stored(path, PoolResult.model_validate({**figures, **head}), "pool")


@pytest.mark.parametrize(
    ("make", "answer", "column"),
    [
        (knee_of_clients, "knee", "clients"),
        (knee_of_rates, "knee", "rate_tps"),
        (pool_run, "best", "size"),
    ],
)
def test_a_search_has_one_value_of_each_figure(
    make: Any, answer: str, column: str, tmp_path: Path
) -> None:
    run = make(tmp_path / "run.db")
    result, rows = recorded(run)
    found = result[answer]
    assert found is not None
    at = {each[column]: each for each in result["curve"]}
    point = at[found[column]]
    assert (found["tps"], found["p99_ms"], found["ci95"]) == (
        point["tps"], point["p99_ms"], point["ci95"],
    )  # fmt: skip
    assert {row[column]: (row["throughput_tps"], row["response_ms_p99"]) for row in rows} == {
        each[column]: (each["tps"], each["p99_ms"]) for each in result["curve"]
    }
    (chosen,) = [row for row in rows if row[answer]]
    assert chosen[column] == found[column]
    sentence, sustained = result["sentence"], result["sustained"]
    if column != "rate_tps":
        assert same(number(TPS.findall(sentence)[0]), found["tps"])
    assert same(number(P99.findall(sentence)[0]), found["p99_ms"])
    (less,) = LESS.findall(sustained["sentence"])
    shown = at[found[column]]["tps"]
    assert number(less) == pytest.approx(100 * (1 - sustained["tps"] / shown), abs=0.6)
    assert same(number(P99.findall(sustained["sentence"])[0]), sustained["p99_ms"])
    for text in media(run).values():
        for each in result["curve"]:
            assert numbers.tps(each["tps"]) in text
            assert numbers.ms_figure(each["p99_ms"]) in text
        for words in (sentence, sustained["sentence"]):
            figures = {*TPS.findall(words), *P99.findall(words), *LESS.findall(words)}
            assert figures
            assert all(figure in text for figure in figures)


def uneven(writer: report_runs.Writer, kind: str, change: Mapping[str, Any], ratio: float) -> int:
    """A trial whose slices differ in throughput and in length."""
    trial_id = writer.recorder.add_trial(kind=kind, title="pool 2 → 16", change=change)
    for pair in range(1, 7):
        for side in "ab":
            tps = (1000 + 300 * pair) * (ratio if side == "b" else 1.0)
            columns = {"trial_id": trial_id, "pair": pair, "side": side}
            if side == "b":
                columns["change"] = change
            with writer.slice("noise" if kind == "noise" else "trial", **columns):
                for _ in range(1 + pair % 3):
                    writer.second(report_runs.Level(tps, 8000 / tps))
    return trial_id


SPEC = spec_from_fields({"clients": [{"name": "web", "count": 16, "pool": {"max": 2}}]})
POOL = Change(pool_max={"web": 16})


def answer_of(run: RunFile, trial_id: int) -> TrialAnswer:
    """The answer of a recorded trial, by the functions that decide about one."""
    pairs = run.pairs(trial_id)
    sides = {
        "a": Arm([SliceFigures.of(run, a.id) for a, _ in pairs]),
        "b": Arm([SliceFigures.of(run, b.id) for _, b in pairs]),
    }
    judged = judge(SPEC, sides, 0.95, matters=Matters())
    failed = FailedTransactions(count=0, ended=100, top=None)
    return TrialAnswer(
        trial_id=trial_id, throughput=judged.throughput, latency_p99=judged.latency_p99,
        measure=judged.measure, verdict=judged.verdict, tps_a=tuple(sides["a"].tps(SPEC)),
        tps_b=tuple(sides["b"].tps(SPEC)), latency_p99_a=tuple(sides["a"].latency_p99_ns),
        latency_p99_b=tuple(sides["b"].latency_p99_ns), slices_a=tuple(sides["a"].ids),
        slices_b=tuple(sides["b"].ids), failures_a=failed, failures_b=failed, set_by={},
    )  # fmt: skip


def noise_in(answer: TrialAnswer) -> Noise:
    return Noise(answer.throughput, answer.latency_p99, "throughput")


def comparison(path: Path) -> RunFile:
    writer = report_runs.Writer(path, 60, command="compare")
    noise_id = uneven(writer, "noise", {}, 1.0)
    trial_id = uneven(writer, "compare", POOL.to_json(), 1.8)
    writer.recorder.flush()
    run = RunFile(path)
    answers = [answer_of(run, each) for each in (noise_id, trial_id)]
    for each in answers:
        writer.recorder.update_trial(each.trial_id, **_columns(each))
    session = cast("Session", SimpleNamespace(reader=lambda: run))
    question = compare_question(POOL, circumstances(SPEC), title="pool 2 → 16", seconds=2.0)
    store(writer.recorder, _with_verdict(session, answers[1], noise_in(answers[0]), question))
    return RunFile(writer.finish())


def investigation(path: Path) -> RunFile:
    writer = report_runs.Writer(path, 60, command="investigate")
    with writer.slice("baseline"):
        for _ in range(5):
            writer.second(report_runs.POOLED)
    noise_id = uneven(writer, "noise", {}, 1.0)
    trial_id = uneven(writer, "remedy", POOL.to_json(), 1.8)
    writer.recorder.flush()
    run = RunFile(path)
    answers = [answer_of(run, each) for each in (noise_id, trial_id)]
    proposal = AssessedProposal(
        "client-pool", catalogue()["pool-size"], assess(POOL, circumstances(SPEC)),
        "pool 2 → 16", 1.7, None, specific=True,
    )  # fmt: skip
    decision = decision_of(proposal, answers[1], may_keep=True)
    for each in answers:
        writer.recorder.update_trial(each.trial_id, **_columns(each))
    writer.recorder.update_trial(
        trial_id, decision=decision, finding="client-pool", remedy="pool-size", step=1,
        predicted_ratio=1.7,
    )  # fmt: skip
    progress = Progress()
    progress.kept = [Kept(proposal, answers[1])]
    progress.steps = [step_of(proposal, answers[1], decision, None, ())]
    question = Question("remedy", "pool 2 → 16", Change(), POOL, 2.0)
    progress.trials = [AnsweredTrial(question, answers[1])]
    outcome = InvestigationOutcome("D0", noise_in(answers[0]), run.valid_slices("baseline"))
    result = result_of(run, progress, outcome)
    assert isinstance(result, InvestigateResult)
    assert result.total is not None
    store(writer.recorder, result)
    return RunFile(writer.finish())


@pytest.mark.parametrize("make", [comparison, investigation])
def test_a_trial_has_one_value_of_each_figure(make: Any, tmp_path: Path) -> None:
    run = make(tmp_path / "run.db")
    result, rows = recorded(run)
    total = result if make is comparison else result["total"]
    tps, effect = total["throughput_tps"], total["effect"]
    assert tps["after"] / tps["before"] == pytest.approx(effect["throughput_ratio"], rel=1e-3)
    if make is comparison:
        of_trial = [row for row in rows if row["trial"] == 2]
        for side, level in (("a", tps["before"]), ("b", tps["after"])):
            logs = [math.log(row["throughput_tps"]) for row in of_trial if row["side"] == side]
            assert math.exp(sum(logs) / len(logs)) == pytest.approx(level, rel=1e-3)
    else:
        assert rows[0]["throughput_ratio"] == effect["throughput_ratio"]
        assert (rows[0]["lo"], rows[0]["hi"]) == tuple(effect["ci95"])
        assert (result["baseline_tps"], result["final_tps"]) == (tps["before"], tps["after"])
    words = numbers.ratio(effect["throughput_ratio"])
    p99 = total["latency_p99"]["ratio"]
    for text in media(run).values():
        assert words in text
    found = FROM_TO.findall(media(run)["terminal"])
    assert found
    for before, after, unit in found:
        ratio = effect["throughput_ratio"] if unit == "tps" else p99
        assert number(after) / number(before) == pytest.approx(ratio, rel=0.012)
        if unit == "tps":
            assert same(number(before), tps["before"])
            assert same(number(after), tps["after"])
        else:
            assert before in media(run)["page"]
            assert after in media(run)["page"]
    tile = next(each for each in make_page(run).headline if each.label == "Throughput")
    assert tile.was is not None
    assert same(number(tile.was), tps["before"])
    assert same(number(tile.value), tps["after"])


def test_a_run_has_one_value_of_each_figure(tmp_path: Path) -> None:
    writer = report_runs.Writer(tmp_path / "run.db", 61, command="run")
    with writer.slice("ramp"):
        for second in range(10):
            writer.second(report_runs.POOLED, clients=max(1, second * 16 // 10))
    with writer.slice("run"):
        for second in range(50):
            writer.second(report_runs.POOLED, errors=second % 11 == 0)
    writer.recorder.flush()
    with RunFile(tmp_path / "run.db") as measured_so_far:
        ids = measured_so_far.valid_slices("run")
        assert ids
        store(writer.recorder, run_result(measured_so_far, ids, None))
    run = RunFile(writer.finish())
    result, rows = recorded(run)
    for column in ("done", "failed"):
        assert sum(row[column] for row in rows) == result["ledger"][column]
    measured = [row for row in rows if row["at_s"] >= 9.9]
    seconds = sum(row["seconds"] for row in measured)
    done = sum(row["done"] for row in measured)
    assert done / seconds == pytest.approx(result["throughput_tps"], rel=0.001)
    response = result["latency_ms"]["response"]
    summary = RunSummary(run)
    assert summary.before is not None
    assert summary.before.throughput_tps == pytest.approx(result["throughput_tps"], rel=1e-4)
    assert summary.before.latency_p99_ms == pytest.approx(response["p99"], rel=1e-3)
    for text in media(run).values():
        assert numbers.tps(result["throughput_tps"]) in text
        for name in ("p50", "p95", "p99", "max"):
            assert numbers.ms_figure(response[name]) in text
        for figure in P99.findall(text):
            near = [row["response_ms_p99"] for row in rows]
            assert any(same(number(figure), each) for each in (response["p99"], *near))


def test_a_comparison_reads_back_as_it_was_made(tmp_path: Path) -> None:
    """The control: a figure that differs is seen."""
    run = comparison(tmp_path / "run.db")
    result = load(run)
    assert isinstance(result, CompareResult)
    assert result.throughput_tps is not None
    assert not same(result.throughput_tps.before, 1.26 * result.throughput_tps.before)
    assert not same(27.7, 34.9)
