"""The exam itself: its plan, its specs, its grades."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exam import __main__ as program
from exam.cells import cells
from exam.grading import figures, outcome, wilson
from exam.machine import cpu_s_of
from exam.model import SCENARIOS, Case, Cause, Cell, Proof, cases_of
from exam.scene import Scene, Seen
from exam.specs import fields_of, multiplied
from pgdyno.diagnose import NOTHING
from pgdyno.rules.rule import rules_of_loads
from pgdyno.server import ConnInfo
from pgdyno.spec import spec_from_fields


def cause(**more: Any) -> Cause:
    return Cause("slow", ("commit-flush",), lambda scene: Proof("", True), **more)


def answer(**more: Any) -> dict[str, Any]:
    right = {
        "rank1": "commit-flush",
        "said": "commit-flush",
        "proved": True,
        "owned": 0.8,
    }
    return {**right, "other_programs_cores": 0.0, **more}


def test_a_scene_is_the_same_if_reached_in_another_way(tmp_path: Path) -> None:
    direct = ConnInfo(host=str(tmp_path), port=5432, user="u", password=None, database="cell")
    seen = [[Seen(1, "active", "", "", "")]]
    scene = Scene(direct, {}, tmp_path, tmp_path, tmp_path, 1, {}, 1, tmp_path, seen)
    relayed = Scene.at(
        ConnInfo(host="127.0.0.1", port=6432, user="u", password=None, database="x"), scene
    )
    assert (relayed.conninfo.port, relayed.conninfo.database) == (6432, "cell")
    assert relayed.samples == seen


@pytest.mark.parametrize(
    ("said", "graded"),
    [
        ({}, "correct"),
        ({"rank1": "hot-row", "said": "hot-row"}, "wrong"),
        ({"rank1": None, "said": "nothing-found"}, "wrong"),
        ({"rank1": None, "said": "unexplained"}, "unexplained"),
        ({"proved": False}, "not producible here"),
        ({"owned": 0.19}, "not producible here"),
        ({"owned": None}, "correct"),
        ({"other_programs_cores": 1.0}, "disturbed"),
    ],
)
def test_outcomes(said: dict[str, Any], graded: str) -> None:
    assert outcome(cause(), answer(**said), busy_machine=False) == graded


def test_a_fault_that_cannot_be_made_is_not_passed() -> None:
    assert (
        outcome(cause(), {"missing": "no PgBouncer"}, busy_machine=False) == "not producible here"
    )
    assert outcome(cause(), {"error": "server-gone"}, busy_machine=False) == "failed"


def test_programs_of_a_case_that_have_ended_are_no_neighbours() -> None:
    before_s = cpu_s_of({os.getpid()})
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert cpu_s_of({os.getpid()}) - before_s > 0.4, "ticks round"


def test_intervals_are_wilson_s() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    # Newcombe 1998, table I: 81 of 263 is 0.2553 to 0.3662 by the score method.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)


def test_false_alarms_are_counted_among_healthy_loads_only() -> None:
    rows = [
        {"outcome": "correct", "healthy": True, "rank1": None},
        {"outcome": "wrong", "healthy": True, "rank1": "hot-row"},
        {"outcome": "wrong", "healthy": False, "rank1": "hot-row"},
        {"outcome": "disturbed", "healthy": True, "rank1": "hot-row"},
    ]
    half = figures(rows)
    assert (half["n"], half["wrong"], half["not_graded"]) == (3, 2, 1)
    assert (half["healthy_runs"], half["healthy_false_alarms"]) == (2, 1)
    assert half["cost_mean"] == pytest.approx(4 / 3, abs=1e-3)


def test_each_seed_asks_both_halves_of_each_cause() -> None:
    cell = Cell("cell", (cause(scaled=("disk.wal",)),))
    cases = list(cases_of([cell], seeds=40, versions=(18, 15), pattern="*"))
    assert len(cases) == 80
    assert {each.intensity for each in cases} == {0.5, 1.0, 2.0}
    for newer, older in zip(cases[::2], cases[1::2], strict=True):
        assert newer.half != older.half
    first = [each.half for each in cases[::2]]
    assert 10 < first.count("held_out") < 30


def test_numbers_are_multiplied_where_they_stand() -> None:
    assert multiplied("slow:flush=5ms", 0.5) == "slow:flush=2.5ms"
    assert multiplied("8000", 2) == "16000"
    assert multiplied(16, 0.5) == 8
    assert multiplied(0.008, 2) == 0.016


@pytest.mark.parametrize("cell", cells(), ids=lambda cell: cell.name)
def test_the_specs_of_a_cell_are_valid(cell: Cell) -> None:
    for each in cell.causes:
        for version in each.versions:
            case = Case(cell.name, each, 1, version)
            spec = spec_from_fields(fields_of(case, busy_machine=False), where=case.name)
            assert spec.load.seed == case.random_seed


def test_the_accepted_verdicts_exist() -> None:
    known = {rule.id for rule in rules_of_loads()} | {"held", NOTHING}
    for cell in cells():
        for each in cell.causes:
            assert known.issuperset(each.accepts), f"{cell.name}/{each.name}"


def test_every_spec_belongs_to_a_cause() -> None:
    named = {f"{cell.name}/{each.name}.toml" for cell in cells() for each in cell.causes}
    assert {str(path.relative_to(SCENARIOS)) for path in SCENARIOS.rglob("*.toml")} == named


def test_an_exam_that_was_broken_off_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def carried_out(case: Case, given: object) -> dict[str, Any]:
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append(case.name)
        named = {"cell": case.cell, "cause": case.cause.name, "seed": case.seed}
        rest = {"version": case.version, "intensity": case.intensity, "half": case.half}
        graded = {"healthy": False, "outcome": "correct", "throughput_tps": 1.0}
        return {**named, **rest, **graded, **answer()}

    monkeypatch.setattr(program, "carry_out", carried_out)
    words = ["--cells", "commit-wait", "--versions", "18", "--output", str(tmp_path / "exam.json")]
    home = os.environ["PGDYNO_HOME"]
    with pytest.raises(KeyboardInterrupt):
        program.main(words)
    first, asked[:] = list(asked), []
    monkeypatch.setattr(program, "carry_out", lambda case, given: carried_out(case, given))
    assert program.main(words) == 0
    assert os.environ["PGDYNO_HOME"] == home, "that of other tests of this process"
    assert len(first) == 2
    assert asked == ["commit-wait/standby/1/18"]
    result = json.loads((tmp_path / "exam.json").read_text())
    assert len(result["cases"]) == 3
    assert result["calibration"]["n"] + result["held_out"]["n"] == 3
    assert "graded" in capsys.readouterr().out
