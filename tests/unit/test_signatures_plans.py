"""Signatures that judge by the plans of the load's statements, and by their times with and without
a change, on made-up run files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import Load, concluded, diagnosed
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.plans.tree import FIRST_KEYS
from pgdyno.record.events import SESSION_SETTINGS
from pgdyno.spec import Change

SELECT = "select total from item where kind = :kind"
PLACE = {"client_group": "web", "script": "tpcb-like", "position": 0}
SCAN = {
    "Plan": {
        "Node Type": "Seq Scan",
        "Schema": "public",
        "Relation Name": "item",
        "Alias": "item",
        "Plan Rows": 10,
        "Total Cost": 900.0,
        "Actual Rows": 10,
        "Actual Loops": 1,
        "Actual Total Time": 1.9,
        "Filter": "(item.kind = $1)",
        "Rows Removed by Filter": 59990,
    },
    "Planning Time": 0.05,
    "Execution Time": 1.95,
}
BUSY = Load(
    tps=1000,
    service_ms=2.0,
    statements={SELECT: 1000},
    busy=0.99,
    ready=0.0,
    sessions={("", ""): 1.9},
    statement=SELECT,
    statements_ms=2.0,
)


def looked_at(
    load: Load,
    *trials: tuple[Change, float],
    plan: Mapping[str, Any] | None = SCAN,
    generic: bool | None = True,
    log_error: float = 0.05,
    unusual: Sequence[tuple[str, str, str]] = (),
    analyzed: bool = True,
) -> Load:
    """The load with a look at the plan of its statement, which takes 2 ms, and so many ms with each
    change; settings that are unusual as name, value and default."""
    row = {
        **PLACE,
        "is_generic": generic,
        "is_analyzed": analyzed and plan is not None,
        "plan": None if plan is None else json.dumps(plan),
        "lack": "",
    }
    times = {**PLACE, "runs": 20, "ms": 2.0, "log_error": log_error, "is_replanned": 1}
    tables = {
        "statement_plan": [row],
        "statement_trial": [
            {**times, "change": json.dumps(change.to_json()), "changed_ms": ms}
            for change, ms in trials
        ],
        "unusual_setting": [
            {"name": name, "value": value, "reset": reset, "may_set": 1}
            for name, value, reset in unusual
        ],
    }
    return replace(
        load,
        rows={
            name: (lambda second, rows=rows: rows if second == 1 else [])
            for name, rows in tables.items()
        },
    )


CUSTOM = Change(settings={"plan_cache_mode": "force_custom_plan"})


@pytest.mark.parametrize(("ms", "status"), [(0.1, "found"), (1.98, "cleared")])
def test_a_plan_that_is_kept(tmp_path: Path, ms: float, status: str) -> None:
    found = diagnosed(tmp_path, looked_at(BUSY, (CUSTOM, ms)))["kept-plan"]
    assert found.status == status
    assert [each.change for each in found.proposals] == ([CUSTOM] if status == "found" else [])


def test_a_plan_that_is_kept_is_not_cleared_without_a_trial(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, BUSY)["kept-plan"].status == "skipped"
    assert diagnosed(tmp_path, looked_at(BUSY))["kept-plan"].status == "skipped"


@pytest.mark.parametrize(("error", "status"), [(0.05, "found"), (0.4, "skipped")])
def test_a_change_must_save_more_than_the_error(tmp_path: Path, error: float, status: str) -> None:
    load = looked_at(BUSY, (CUSTOM, 1.5), log_error=error)
    assert diagnosed(tmp_path, load)["kept-plan"].status == status


@pytest.mark.parametrize(("ms", "first"), [(0.1, "missing-index"), (2.0, "other-programs")])
def test_other_programs_cast_no_doubt_on_what_was_timed_and_gains_more(
    tmp_path: Path, ms: float, first: str
) -> None:
    programs = {("ours", "pgdyno"): 0.1, ("other", "stress"): 0.8}
    load = looked_at(replace(BUSY, server=0.5, programs=programs), (INDEX, ms))
    found = diagnosed(tmp_path, load)
    assert found["other-programs"].causes_distrust
    assert found[first].rank == 1


@pytest.mark.parametrize(("error", "status"), [(0.3, "cleared"), (0.69, "skipped")])
def test_a_change_that_may_save_much_is_not_said_to_save_nothing(
    tmp_path: Path, error: float, status: str
) -> None:
    load = looked_at(BUSY, (CUSTOM, 1.98), log_error=error)
    assert diagnosed(tmp_path, load)["kept-plan"].status == status


def test_the_prediction_has_the_error_of_the_times(tmp_path: Path) -> None:
    ends = []
    for error in (0.0, 0.1, 0.5):
        load = looked_at(BUSY, (CUSTOM, 0.5), log_error=error)
        (folder := tmp_path / str(error)).mkdir()
        (proposal,) = diagnosed(folder, load)["kept-plan"].proposals
        assert proposal.predicted_interval is not None
        ends.append(proposal.predicted_interval)
    assert sorted(ends, key=lambda each: each[1] / each[0]) == ends


OFF = [("enable_bitmapscan", "off", "on")]
ON = Change(settings={"enable_bitmapscan": "on"})


@pytest.mark.parametrize(("ms", "status"), [(0.1, "found"), (1.98, "cleared")])
def test_settings_that_were_tried(tmp_path: Path, ms: float, status: str) -> None:
    found = diagnosed(tmp_path, looked_at(BUSY, (ON, ms), unusual=OFF))["costly-settings"]
    assert found.status == status
    assert [each.change for each in found.proposals] == ([ON] if status == "found" else [])


def test_less_is_certain_of_memory_than_of_other_settings(tmp_path: Path) -> None:
    """Many sessions fill it at once, and the trial was one session's."""
    memory = Change(settings={"work_mem": "4MB"})
    load = looked_at(BUSY, (memory, 0.5), unusual=[("work_mem", "64kB", "4MB")])
    (gained,) = diagnosed(tmp_path, load)["costly-settings"].proposals
    (other,) = diagnosed(tmp_path, looked_at(BUSY, (ON, 0.5), unusual=OFF))[
        "costly-settings"
    ].proposals
    assert gained.prediction.low < other.prediction.low
    assert gained.predicted_ratio == other.predicted_ratio
    assert gained.prediction.high == other.prediction.high


def test_work_is_ranked_by_what_goes_without_it_and_waits_by_their_share(tmp_path: Path) -> None:
    waiting = replace(
        BUSY, service_ms=10.0, sessions={("", ""): 1.9, ("IO", "WalSync"): 8.0}, clients=10
    )
    found = diagnosed(tmp_path, looked_at(waiting, (ON, 0.4), unusual=OFF))
    work, wait = found["costly-settings"], found["commit-flush"]
    assert (work.share or 0.0) < (wait.share or 0.0)
    assert work.gain is not None
    assert work.weight > wait.weight > (work.share or 0.0) * work.weight


def test_settings_are_cleared_by_trials_alone(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, BUSY)["costly-settings"].status == "skipped"
    assert diagnosed(tmp_path, looked_at(BUSY, unusual=OFF))["costly-settings"].status == "skipped"
    assert diagnosed(tmp_path, looked_at(BUSY))["costly-settings"].status == "cleared"


def test_settings_are_not_cleared_by_times_that_differ_too_much(tmp_path: Path) -> None:
    load = looked_at(BUSY, (ON, 1.5), unusual=OFF, log_error=0.4)
    assert diagnosed(tmp_path, load)["costly-settings"].status == "skipped"


def with_another(load: Load, plan: Mapping[str, Any] = SCAN, *, replanned: bool) -> Load:
    """The load with a second statement of such a plan, whose times differ much with the change."""
    (trial,), (planned,) = (load.rows[name](1) for name in ("statement_trial", "statement_plan"))
    other = {"position": 1, "changed_ms": 2.5, "log_error": 0.5, "is_replanned": replanned}
    rows = {
        "statement_trial": [trial, {**trial, **other}],
        "statement_plan": [planned, {**planned, "position": 1, "plan": json.dumps(plan)}],
    }
    made = {
        name: (lambda second, mine=mine: mine if second == 1 else []) for name, mine in rows.items()
    }
    script = ((SELECT, 1.0), ("select 1", 1.0))
    return replace(load, statements={}, script_ms=script, rows={**load.rows, **made})


@pytest.mark.parametrize(("replanned", "status"), [(False, "found"), (True, "skipped")])
def test_a_statement_that_keeps_its_plan_and_its_time_has_no_error(
    tmp_path: Path, replanned: bool, status: str
) -> None:
    load = with_another(looked_at(BUSY, (ON, 0.2), unusual=OFF), replanned=replanned)
    assert diagnosed(tmp_path, load)["costly-settings"].status == status


@pytest.mark.parametrize(
    ("name", "log_error", "status"),
    [("jit", 0.7, "skipped"), ("jit", 0.2, "cleared"), ("enable_sort", 0.7, "cleared")],
)
def test_a_setting_that_chooses_no_plan_is_not_cleared_by_a_large_error(
    tmp_path: Path, name: str, log_error: float, status: str
) -> None:
    change = Change(settings={name: "off"})
    unusual = [(name, "on", "off")]
    load = looked_at(JIT, (change, 1.7), unusual=unusual, log_error=log_error)
    (trial,) = load.rows["statement_trial"](1)
    rows = [{**trial, "is_replanned": 0}]
    made = {**load.rows, "statement_trial": lambda second: rows if second == 1 else []}
    found = diagnosed(tmp_path, replace(load, rows=made))
    assert found["jit" if name == "jit" else "costly-settings"].status == status


@pytest.mark.parametrize(
    ("node", "calls", "status"),
    [
        ("Seq Scan", False, "found"),
        ("ModifyTable", False, "skipped"),  # it adds to the index
        ("Seq Scan", True, "skipped"),  # its function may execute statements of another plan
    ],
)
def test_a_statement_that_reads_by_the_same_plan_is_as_long_with_another_index(
    tmp_path: Path, node: str, calls: bool, status: str
) -> None:
    plan = {**SCAN, "Plan": {**SCAN["Plan"], "Node Type": node}}
    load = with_another(looked_at(BUSY, (INDEX, 0.2)), plan, replanned=False)
    call = {**PLACE, "position": 1, "function": "public.f", "is_trigger": 0}
    if calls:
        counted = {"calls": 1.0, "ms": 0.1, "self_ms": 0.1}
        called = {"called_function": lambda second: [{**call, **counted}] if second == 1 else []}
        load = replace(load, rows={**load.rows, **called})
    assert diagnosed(tmp_path, load)["missing-index"].status == status


def test_settings_that_could_not_be_asked_for_are_not_cleared(tmp_path: Path) -> None:
    load = looked_at(BUSY)
    assert diagnosed(tmp_path, load)["costly-settings"].status == "cleared"
    detail = {"probe": SESSION_SETTINGS, "reason": "canceling statement due to statement timeout"}
    event = {"kind": "probe", "label": "none", "duration_ms": None, "detail": detail}
    asked = {"event": lambda second: [event] if second == 1 else []}
    known = concluded(tmp_path, replace(load, rows={**load.rows, **asked}))
    (found,) = [each for each in known.findings if each.id == "costly-settings"]
    assert found.status == "skipped"
    assert known.settings is None


WAL = ("wal_consistency_checking", "all", "")


def test_settings_that_no_session_can_try_are_not_cleared(tmp_path: Path) -> None:
    load = looked_at(BUSY, (ON, 1.98), unusual=[*OFF, WAL])
    concluded_of = concluded(tmp_path, load)
    (found,) = [each for each in concluded_of.findings if each.id == "costly-settings"]
    assert found.status == "skipped"
    assert concluded_of.settings is not None
    shares = {each.setting.name: each.saved_share for each in concluded_of.settings}
    assert {name: share is None for name, share in shares.items()} == {
        "enable_bitmapscan": False,
        "wal_consistency_checking": True,
    }


def test_settings_are_judged_by_what_was_measured_of_them(tmp_path: Path) -> None:
    both = Change(settings={"work_mem": "4MB", "geqo": "on"})
    several = [*OFF, ("work_mem", "64kB", "4MB"), ("geqo", "off", "on")]
    settings = concluded(
        tmp_path, looked_at(BUSY, (ON, 0.1), (both, 2.6), unusual=several)
    ).settings
    assert settings is not None
    judged = {each.setting.name: each for each in settings}
    assert judged["enable_bitmapscan"].finding == "costly-settings"
    assert (judged["enable_bitmapscan"].saved_share or 0.0) > 0.5
    assert judged["work_mem"].tried_with == ("geqo",)
    assert judged["work_mem"].is_slower
    assert judged["work_mem"].saved_share == 0.0


def test_which_settings_are_unusual_may_not_be_known(tmp_path: Path) -> None:
    assert concluded(tmp_path, BUSY).settings is None
    assert concluded(tmp_path, looked_at(BUSY)).settings == ()


INDEX = Change(indexes={"public.item": "kind"})


@pytest.mark.parametrize(("ms", "status"), [(0.1, "found"), (1.98, "cleared")])
def test_an_index_that_was_tried(tmp_path: Path, ms: float, status: str) -> None:
    found = diagnosed(tmp_path, looked_at(BUSY, (INDEX, ms)))["missing-index"]
    assert found.status == status
    assert [each.change for each in found.proposals] == ([INDEX] if status == "found" else [])


def test_an_index_is_not_cleared_without_a_trial_that_decides(tmp_path: Path) -> None:
    load = looked_at(BUSY, (INDEX, 1.5), log_error=0.4)
    assert diagnosed(tmp_path, load)["missing-index"].status == "skipped"
    assert diagnosed(tmp_path, looked_at(BUSY))["missing-index"].status == "skipped"


LATER = {
    **SCAN,
    "Plan": {
        **{name: value for name, value in SCAN["Plan"].items() if "Filter" not in name},
        "Node Type": "Index Scan",
        "Index Name": "other",
        "Index Cond": "(item.kind = $1)",
    },
    FIRST_KEYS: {"public.other": "at"},
}


def test_an_index_that_is_searched_by_another_key_than_its_first(tmp_path: Path) -> None:
    load = looked_at(BUSY, (INDEX, 0.1), plan=LATER)
    found = diagnosed(tmp_path, load)["missing-index"]
    assert [each.change for each in found.proposals] == [INDEX]
    assert "in an index that begins with at" in found.sentence


@pytest.mark.parametrize("analyzed", [True, False])
def test_a_search_by_another_key_is_not_cleared_without_a_trial(
    tmp_path: Path, analyzed: bool
) -> None:
    quiet = replace(BUSY, tables={"public.item": {"seq_scan": 0.0, "seq_tup_read": 0.0}})
    load = looked_at(quiet, plan=LATER, analyzed=analyzed)
    assert diagnosed(tmp_path, load)["missing-index"].status == "skipped"
    known = looked_at(quiet, plan={**LATER, FIRST_KEYS: {}}, analyzed=analyzed)
    (folder := tmp_path / "known").mkdir()
    assert diagnosed(folder, known)["missing-index"].status == "cleared"


PREPARED = Change(spec={"load.protocol": "prepared"})
SIMPLE = replace(BUSY, protocol="simple")


@pytest.mark.parametrize(("ms", "status"), [(0.1, "found"), (1.98, "cleared")])
def test_planning_that_was_measured(tmp_path: Path, ms: float, status: str) -> None:
    found = diagnosed(tmp_path, looked_at(SIMPLE, (PREPARED, ms), generic=None))["parse-plan"]
    assert found.status == status
    assert [each.change for each in found.proposals] == ([PREPARED] if status == "found" else [])


def test_another_plan_promises_little_more_than_its_planning(tmp_path: Path) -> None:
    """A prepared statement takes 0.8 ms less, of which planning was a tenth, and nine tenths."""
    ends = []
    for planning_ms in (0.08, 0.72):
        plan = {**SCAN, "Planning Time": planning_ms}
        load = looked_at(SIMPLE, (PREPARED, 1.2), generic=None, plan=plan)
        (proposal,) = diagnosed(tmp_path, load)["parse-plan"].proposals
        assert proposal.predicted_interval is not None
        ends.append(proposal.predicted_interval)
    (little, most), (much, as_much) = ends
    assert little < 1.1 < 1.3 < much
    assert most == as_much


def test_connections_that_do_not_last_keep_nothing_prepared(tmp_path: Path) -> None:
    load = looked_at(replace(SIMPLE, connect_ms=1.0), (PREPARED, 0.1), generic=None)
    found = diagnosed(tmp_path, load)["parse-plan"]
    assert (found.status, found.proposals) == ("found", ())
    assert "a connection lasts for 1 transaction" in found.advice


def test_planning_is_not_cleared_by_executions_against_the_time_of_explain(tmp_path: Path) -> None:
    slow = {**SCAN, "Planning Time": 1.5}
    load = looked_at(SIMPLE, (PREPARED, 1.98), generic=None, plan=slow)
    assert diagnosed(tmp_path, load)["parse-plan"].status == "skipped"


def test_planning_is_not_cleared_by_times_that_differ_too_much(tmp_path: Path) -> None:
    short = replace(SIMPLE, sessions={("", ""): 0.4, ("IO", "WalSync"): 1.5}, busy=0.3)
    load = looked_at(short, (PREPARED, 1.5), generic=None, log_error=0.8)
    assert diagnosed(tmp_path, load)["parse-plan"].status == "skipped"


def test_planning_by_the_time_that_explain_gives(tmp_path: Path) -> None:
    slow = {**SCAN, "Planning Time": 1.5}
    assert diagnosed(tmp_path, looked_at(SIMPLE, plan=slow))["parse-plan"].status == "found"
    assert diagnosed(tmp_path, looked_at(SIMPLE))["parse-plan"].status == "cleared"
    assert diagnosed(tmp_path, SIMPLE)["parse-plan"].status == "skipped"


def test_a_cause_that_may_gain_is_named_before_a_limit_without_a_remedy(tmp_path: Path) -> None:
    """Statements that take as long when prepared, by the error of their times."""
    found = diagnosed(tmp_path, looked_at(SIMPLE, (PREPARED, 1.2), generic=None, log_error=0.6))
    cause, limit = found["parse-plan"], found["server-cpu"]
    assert cause.weight < limit.weight
    assert cause.rank == 1


JIT = replace(BUSY, server_facts={"capabilities": {"jit": True}})
NO_JIT = Change(settings={"jit": "off"})


@pytest.mark.parametrize(("ms", "status"), [(0.1, "found"), (1.98, "cleared")])
def test_compiling_that_was_measured(tmp_path: Path, ms: float, status: str) -> None:
    found = diagnosed(tmp_path, looked_at(JIT, (NO_JIT, ms)))["jit"]
    assert found.status == status
    assert [each.change for each in found.proposals] == ([NO_JIT] if status == "found" else [])


@pytest.mark.parametrize(
    ("timing", "status"),
    [
        ({"Timing": {"Generation": 0.1, "Optimization": 1.0, "Emission": 0.7}}, "found"),
        ({"Timing": {"Generation": 0.02}}, "cleared"),
    ],
)
def test_compiling_without_a_trial_is_judged_by_the_plan(
    tmp_path: Path, timing: Mapping[str, Any], status: str
) -> None:
    found = diagnosed(tmp_path, looked_at(JIT, plan={**SCAN, "JIT": timing}))["jit"]
    assert found.status == status
    if status == "found":
        assert found.sentence == snapshot(
            "compiling (JIT) takes 1.8 of the 1.9 ms of a statement: select total from item where"
            " kind = :kind"
        )
        (proposal,) = found.proposals
        assert proposal.change == NO_JIT
        assert proposal.prediction.low < 10.0 < proposal.prediction.high


def scan_of(rows: float, removed: float) -> dict[str, Any]:
    node = {**SCAN["Plan"], "Actual Rows": rows, "Rows Removed by Filter": removed}
    return {**SCAN, "Plan": node}


@pytest.mark.parametrize(
    ("rows", "removed", "status"),
    [(2000, 100, "found"), (2000, 50_000, "cleared"), (20, 0, "cleared")],
)
def test_results_of_many_rows(tmp_path: Path, rows: int, removed: int, status: str) -> None:
    load = looked_at(BUSY, plan=scan_of(rows, removed))
    assert diagnosed(tmp_path, load)["large-results"].status == status


def test_results_are_not_cleared_without_their_rows(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, BUSY)["large-results"].status == "skipped"


def called(load: Load, ms: float, *, trigger: bool, own_ms: float | None = None) -> Load:
    """The load with a look at the functions of its statement, one of which takes so many of its
    2 ms, and ``own_ms`` of them without the statements that it executes."""
    tables = {
        "counted_statement": [{**PLACE, "ms": 2.0}],
        "called_function": [
            {**PLACE, "function": "public.checked()", "is_trigger": int(trigger), "calls": 1.0,
             "ms": ms, "self_ms": ms, "own_ms": own_ms}
        ],
        "table_trigger": [
            {"relation": "public.item", "trigger_name": "checks", "function": "public.checked()"}
        ],
    }  # fmt: skip
    rows = {
        name: (lambda second, rows=rows: rows if second == 1 else [])
        for name, rows in tables.items()
    }
    return replace(load, rows={**load.rows, **rows})


@pytest.mark.parametrize(("ms", "status"), [(1.5, "found"), (0.02, "cleared")])
@pytest.mark.parametrize(("name", "trigger"), [("trigger-time", True), ("function-time", False)])
def test_functions_that_were_timed(
    tmp_path: Path, name: str, trigger: bool, ms: float, status: str
) -> None:
    found = diagnosed(tmp_path, called(looked_at(BUSY), ms, trigger=trigger))
    assert found[name].status == status
    assert not found[name].proposals
    other = "function-time" if trigger else "trigger-time"
    assert found[other].status == "cleared"


@pytest.mark.parametrize(
    ("name", "trigger", "own_ms", "status"),
    [
        ("function-time", False, 0.02, "cleared"),  # its time is that of its statements
        ("function-time", False, 1.4, "found"),
        ("trigger-time", True, 0.02, "found"),  # the statements are the trigger's
    ],
)
def test_functions_without_their_statements(
    tmp_path: Path, name: str, trigger: bool, own_ms: float, status: str
) -> None:
    load = called(looked_at(BUSY), 1.5, trigger=trigger, own_ms=own_ms)
    assert diagnosed(tmp_path, load)[name].status == status


def test_a_cause_without_a_remedy_is_placed_by_the_gain_without_it(tmp_path: Path) -> None:
    alone = replace(
        BUSY, clients=1, tps=500, statements={SELECT: 500}, sessions={("", ""): 0.9}, busy=0.4
    )
    found = diagnosed(tmp_path, called(looked_at(alone), 1.9, trigger=True))
    cause, consequence = found["trigger-time"], found["few-clients"]
    (proposal,) = consequence.proposals
    assert cause.gain is not None
    assert cause.gain > proposal.predicted_ratio
    assert cause.weight < consequence.weight
    assert (cause.rank, consequence.rank) == (1, 2)


@pytest.mark.parametrize("name", ["trigger-time", "function-time"])
def test_functions_are_not_cleared_without_their_times(tmp_path: Path, name: str) -> None:
    assert diagnosed(tmp_path, BUSY)[name].status == "skipped"
    assert diagnosed(tmp_path, looked_at(BUSY))[name].status == "skipped"


@pytest.mark.parametrize(
    ("ms", "calls", "status"), [(1.5, 1, "found"), (1.5, 100, "cleared"), (0.05, 1, "cleared")]
)
def test_checks_of_a_foreign_key(tmp_path: Path, ms: float, calls: int, status: str) -> None:
    check = {"Trigger Name": "RI_1", "Constraint Name": "item_fkey", "Relation": "item",
             "Time": ms, "Calls": calls}  # fmt: skip
    found = diagnosed(tmp_path, looked_at(BUSY, plan={**SCAN, "Triggers": [check]}))
    assert found["foreign-key-time"].status == status
    assert diagnosed(tmp_path, BUSY)["foreign-key-time"].status == "skipped"


def test_a_backlog_does_not_make_what_a_change_saves_little(tmp_path: Path) -> None:
    late = replace(BUSY, clients=2, rate=2000.0, lag_ms=500.0)
    assert diagnosed(tmp_path, looked_at(late, (CUSTOM, 0.1)))["kept-plan"].status == "found"
