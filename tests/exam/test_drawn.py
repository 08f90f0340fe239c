"""The exam of drawn causes: its draws, how answers are read, its grades. No server."""

from __future__ import annotations

import json
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import Load, written
from msgspec import to_builtins

from exam.drawn import __main__ as program
from exam.drawn import again
from exam.drawn.answers import applicable, denials, names, promises, undoes_exactly
from exam.drawn.causes import entries
from exam.drawn.drawing import asked_for, draw, is_healthy, version_of
from exam.drawn.grading import (
    NOT_WORTH,
    denied_promise,
    lines,
    of_cause,
    of_causes,
    of_healthy,
    table,
)
from exam.drawn.model import Draft, Draw, Entry, Fault, Right, ServerFacts, Setting
from exam.drawn.schema import drawn_names, setup_of
from exam.drawn.spec import spec_text, write_repeatable
from exam.drawn.statements import BY_NAME
from exam.drawn.truth import Truth
from exam.drawn.world import shape_of
from pgdyno.rules.rule import rules_of_loads
from pgdyno.server import ConnInfo
from pgdyno.spec import spec_from_fields
from pgdyno.spec.read import read_spec

PLANNER = "Query Tuning / Planner Method Configuration"
COSTS = "Query Tuning / Planner Cost Constants"


def facts(**more: Setting) -> ServerFacts:
    """Made-up rows of pg_settings: enough for each kind that the tests draw."""
    rows = [
        Setting("enable_seqscan", PLANNER, "user", "bool", "on"),
        Setting("enable_indexscan", PLANNER, "user", "bool", "on"),
        Setting("enable_bitmapscan", PLANNER, "user", "bool", "on"),
        Setting("random_page_cost", COSTS, "user", "real", "4", 0, 1e300),
        Setting("jit_above_cost", COSTS, "user", "real", "100000", -1, 1e300),
        Setting("work_mem", "Resource Usage / Memory", "user", "integer", "4096", 64, 2147483647),
        Setting("shared_buffers", "Resource Usage / Memory", "postmaster", "integer", "16384", 16),
        Setting("log_duration", "Reporting and Logging / What to Log", "superuser", "bool", "off"),
        Setting("debug_print_plan", "Developer Options", "user", "bool", "off"),
        Setting("commit_delay", "Write-Ahead Log / Settings", "superuser", "integer", "0", 0, 1e5),
        Setting("commit_siblings", "Write-Ahead Log / Settings", "user", "integer", "5", 0, 1000),
    ]
    return ServerFacts(18, {row.name: row for row in rows} | more)


def fault(**more: Any) -> Fault:
    right = Right(findings=("costly-settings",), settings=("work_mem",))
    members = {"right": right, "settings": {"work_mem": "64"}, **more}
    return Fault(entry="work-mem", kind="setting: memory", **members)


def finding(id: str = "temp-files", **more: Any) -> dict[str, Any]:
    usual = {"status": "found", "rank": 1, "severity": "limit", "evidence": [], "commands": []}
    return {"id": id, **usual, "remedies": [], **more}


def remedy(ratio: float, low: float, high: float, **change: Any) -> dict[str, Any]:
    return {"change": change, "predicted_ratio": ratio, "predicted_interval": [low, high]}


UNDOING = remedy(2.0, 1.5, 3.0, settings={"work_mem": "16384"})
WORTH = Truth(2.0, 1.6, 2.5, 4)
NOTHING = Truth(1.02, 0.97, 1.07, 4)


@pytest.mark.parametrize("seed", range(1, 60))
def test_a_seed_gives_the_same_draw_each_time(seed: int) -> None:
    first, second = draw(seed, facts()), draw(seed, facts())
    assert first == second
    assert first.healthy == is_healthy(seed, "*")
    assert len(first.faults) <= 2


def test_seeds_differ_and_every_sixth_is_healthy() -> None:
    draws = [draw(seed, facts()) for seed in range(1, 61)]
    assert len({each.load for each in draws if not each.load.names.partitions}) > 20
    assert sum(each.healthy for each in draws) == 10
    assert len({fault.kind for each in draws for fault in each.faults}) > 10
    assert any(len(each.faults) == 2 for each in draws)
    assert {version_of(seed, (18, 15)) for seed in range(20)} == {18, 15}


def test_an_entry_that_is_added_leaves_most_seeds_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = [draw(seed, facts()) for seed in range(1, 61)]
    more = Entry("new", "new kind", plant=("select 1",), undo=("select 1",))
    monkeypatch.setattr("exam.drawn.drawing.entries", lambda: (*entries(), more))
    after = [draw(seed, facts()) for seed in range(1, 61)]
    taken = sum(any(fault.entry == "new" for fault in each.faults) for each in after)
    assert taken > 0
    assert sum(one != other for one, other in zip(before, after, strict=True)) == taken


def test_patterns_choose_entries_by_name_and_by_kind() -> None:
    assert [each.name for each in asked_for("work-mem")] == ["work-mem"]
    kinds = {each.kind for each in asked_for("missing index,locks")}
    assert kinds == {"missing index", "locks"}
    assert draw(1, facts(), "healthy").healthy
    assert {draw(seed, facts(), "locks").faults[0].kind for seed in range(1, 12)} == {"locks"}
    with pytest.raises(ValueError, match="matches jit"):
        draw(1, facts(), "jit")


@pytest.mark.parametrize("entry", entries(), ids=lambda each: each.name)
def test_entries_are_complete(entry: Entry) -> None:
    assert set(entry.loads) <= set(BY_NAME)
    assert entry.plant or entry.fault
    assert bool(entry.plant) == bool(entry.undo)
    known = {rule.id for rule in rules_of_loads()}
    assert {*entry.right.findings, *entry.right.denied_by} <= known


def test_names_of_entries_are_distinct() -> None:
    listed = [entry.name for entry in entries()]
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("seed", range(1, 25))
def test_the_spec_of_a_draw_is_valid(seed: int) -> None:
    drawn = draw(seed, facts())
    shape = shape_of(drawn.load, drawn.faults)
    entrance = ConnInfo("/tmp/a b", 5432, "pgdyno", None, "pgdyno")
    server = {"kind": "existing", "conninfo": entrance.uri_without_password}
    text = spec_text(drawn, shape, server, [("script0.sql", 1)], rate_tps=100.0)
    spec = spec_from_fields(tomllib.loads(text), where="spec.toml")
    assert spec.clients[0].count == shape.clients
    assert spec.load.protocol == shape.protocol


def test_what_is_kept_repeats_a_draw(tmp_path: Path) -> None:
    drawn = draw(2, facts(), "no-index-on-kind,work-mem")
    write_repeatable(tmp_path, drawn, shape_of(drawn.load, drawn.faults), None)
    spec, _ = read_spec(tmp_path / "spec.toml")
    assert spec.server.version == 18
    setup = (tmp_path / "setup.sql").read_text()
    for each in drawn.faults:
        assert all(statement in setup for statement in each.plant)
        assert all(name in spec.server.settings or name in setup for name in each.settings)


def test_no_brace_is_left_in_sql() -> None:
    for seed in range(1, 60):
        drawn = draw(seed, facts())
        texts = [*setup_of(drawn.load.names, drawn.load.parts)]
        texts += [text for each in drawn.faults for text in (*each.plant, *each.undo)]
        texts += [script.text for script in drawn.load.scripts]
        assert not [text for text in texts if "{" in text]


def test_a_swap_changes_the_text_of_each_script_in_which_it_acts() -> None:
    drawn = draw(3, facts(), "added-nothing")
    assert drawn.load.scripts != shape_of(drawn.load, drawn.faults).scripts
    texts = [text for text, _ in shape_of(drawn.load, drawn.faults).scripts]
    assert any("id + 0 = :c" in text for text in texts)


# --- reading answers


@pytest.mark.parametrize(
    ("right", "made", "named"),
    [
        (Right(settings=("work_mem",)), finding(remedies=[UNDOING]), "undo"),
        (Right(settings=("jit",)), finding(remedies=[UNDOING]), ""),
        (Right(settings=("jit",)), finding(commands=["ALTER SYSTEM RESET jit"]), "undo"),
        (Right(settings=("jit",)), finding(commands=["ALTER SYSTEM RESET audjit"]), ""),
        (
            Right(settings=("jit",)),
            finding(evidence=[{"name": "jit", "value": "on"}]),
            "named",
        ),
        (
            Right(index=("orders", "customer_id")),
            finding(remedies=[remedy(2, 1, 3, indexes={"public.orders": "customer_id, at"})]),
            "undo",
        ),
        (
            Right(findings=("missing-index",), index=("orders", "customer_id")),
            finding("missing-index", remedies=[remedy(2, 1, 3, indexes={"orders": "at"})]),
            "named",
        ),
        (Right(keys=("pool_max",)), finding(remedies=[remedy(2, 1, 3, pool_max={"c": 4})]), "undo"),
        (
            Right(keys=("load.protocol",)),
            finding(remedies=[remedy(2, 1, 3, spec={"load.protocol": "prepared"})]),
            "undo",
        ),
        (Right(commands=("analyze",)), finding(commands=["ANALYZE orders"]), "undo"),
        (Right(findings=("round-trips",)), finding("round-trips"), "undo"),
        (
            Right(objects=("checks_each",)),
            finding(evidence=[{"name": "trigger", "value": "checks_each on orders"}]),
            "undo",
        ),
    ],
)
def test_how_a_finding_names_a_cause(right: Right, made: dict[str, Any], named: str) -> None:
    assert names(right, made) == named


def test_a_cause_is_denied_by_its_rules_and_by_evidence_that_shows_it() -> None:
    cleared = finding("costly-settings", status="cleared")
    shown = finding("jit", status="cleared", evidence=[{"name": "work_mem", "value": "64kB"}])
    other = finding("hot-row", status="cleared")
    assert list(denials(fault(), [cleared, shown, other])) == ["costly-settings", "jit"]
    assert list(denials(fault(), [cleared, finding(remedies=[UNDOING])])) == []
    assert list(denials(fault(), [finding("costly-settings", status="skipped")])) == []


def test_only_gains_are_promises() -> None:
    small, guarding = remedy(1.02, 1.0, 1.1), {**remedy(3, 2, 4), "guards": True}
    open_ended = {**remedy(1.5, 0, 0), "predicted_interval": None}
    made = [finding(remedies=[small, guarding, open_ended])]
    made.append(finding(status="cleared", remedies=[remedy(9, 8, 10)]))
    assert [(each.ratio, each.low, each.high) for each in promises(made)] == [(1.5, 1.5, 1.5)]


def test_a_promise_is_compared_with_the_undoing_that_was_measured() -> None:
    back = {"settings": {"work_mem": "4096"}}
    assert undoes_exactly(fault(), back, facts())
    assert not undoes_exactly(fault(), {"settings": {"work_mem": "16384"}}, facts())
    assert not undoes_exactly(fault(), {**back, "indexes": {"orders": "at"}}, facts())
    missing = fault(settings={}, right=Right(index=("orders", "at")))
    assert undoes_exactly(missing, {"indexes": {"public.orders": "at"}}, facts())


def test_promises_that_the_harness_can_try() -> None:
    (promise,) = promises([finding(remedies=[UNDOING])])
    tried = applicable(promise, facts(), 8)
    assert tried is not None
    assert (tried.settings, tried.restart) == ({"work_mem": "16384"}, False)
    (index,) = promises([finding(remedies=[remedy(3, 2, 4, indexes={"orders": "at"})])])
    tried = applicable(index, facts(), 8)
    assert tried is not None
    assert tried.plant[0] == "create index promised_0 on orders (at)"
    for change in ({"table_options": {"a": {"fillfactor": "50"}}}, {"settings": {"new": "1"}}):
        (promise,) = promises([finding(remedies=[remedy(3, 2, 4, **change)])])
        assert applicable(promise, facts(), 8) is None
    (pool,) = promises([finding(remedies=[remedy(3, 2, 4, pool_max={"clients": None})])])
    tried = applicable(pool, facts(), 8)
    assert tried is not None
    assert tried.pool == 8


# --- grades


def graded(*findings: dict[str, Any], truth: Truth = WORTH, verdict: str = "temp-files") -> str:
    return of_cause(fault(), truth, [], findings, verdict).outcome


def test_a_rate_that_is_held_has_no_limit() -> None:
    grade = of_cause(fault(), WORTH, [], [finding("server-cpu")], "held", held=True)
    assert grade.outcome == NOT_WORTH


def test_right_is_named_first_with_its_undoing() -> None:
    assert graded(finding(remedies=[UNDOING])) == "right"


def test_partly_is_named_later_or_without_its_undoing() -> None:
    assert graded(finding("server-cpu"), finding(rank=2, remedies=[UNDOING])) == "partly"
    assert graded(finding("server-cpu"), finding(rank=None, remedies=[UNDOING])) == "partly"
    assert graded(finding("costly-settings")) == "partly"
    assert graded(finding(remedies=[UNDOING]), verdict="unexplained") == "partly"


def test_unexplained_is_said_honestly() -> None:
    assert graded(finding("server-cpu"), verdict="unexplained") == "unexplained"


def test_wrong_is_another_cause_or_none() -> None:
    assert graded(finding("server-cpu"), verdict="server-cpu") == "wrong"
    assert graded(verdict="nothing-found") == "wrong"


def test_false_is_what_clears_a_cause_that_is_worth_it() -> None:
    cleared = finding("costly-settings", status="cleared")
    assert graded(cleared, verdict="unexplained") == "false"
    assert graded(cleared, truth=NOTHING) == NOT_WORTH


def test_a_cause_is_worth_it_if_the_whole_interval_and_the_middle_are_large_enough() -> None:
    assert Truth(1.15, 1.01, 1.3, 4).worth_it
    assert not Truth(1.14, 1.1, 1.2, 4).worth_it
    assert not Truth(2.0, 0.9, 4.0, 4).worth_it
    assert NOTHING.decided
    assert not Truth(1.2, 0.9, 1.5, 4).decided


def test_of_two_causes_the_smaller_may_stand_second() -> None:
    other = Fault(entry="pool", kind="pool", right=Right(findings=("client-pool",)))
    findings = [finding("client-pool"), finding(rank=2, remedies=[UNDOING])]
    for worth, outcome in (
        (Truth(5.0, 4.0, 6.0, 4), "right"),
        (Truth(1.2, 1.1, 1.3, 4), "partly"),
        (NOTHING, "partly"),
    ):
        grade = of_cause(fault(), WORTH, [(other, worth)], findings, "client-pool")
        assert grade.outcome == outcome


def test_a_cause_may_stand_behind_a_promise_that_was_kept() -> None:
    first = finding("parse-plan", remedies=[remedy(3, 2, 4, spec={"load.protocol": "prepared"})])
    (promise,) = promises([first])
    findings = [first, finding(rank=2, remedies=[UNDOING])]
    for worth, outcome in (
        (Truth(5.0, 4.0, 6.0, 4), "right"),
        (Truth(1.2, 1.1, 1.3, 4), "partly"),
        (Truth(1.1, 0.9, 6.0, 4), "partly"),
    ):
        grade = of_cause(fault(), WORTH, [], findings, "parse-plan", kept=[(promise, worth)])
        assert grade.outcome == outcome


@pytest.mark.parametrize(
    ("predicted", "truth", "denied"),
    [
        ((2.0, 1.5, 3.0), WORTH, False),
        ((9.0, 4.0, 20.0), WORTH, True),
        ((1.2, 1.0, 1.5), Truth(2.0, 1.6, 2.5, 4), False),
        ((1.3, 1.0, 1.7), Truth(0.99, 0.9, 1.1, 4), True),
        ((1.05, 0.9, 1.2), Truth(0.99, 0.9, 1.1, 4), False),
    ],
)
def test_promises_that_the_pairs_deny(
    predicted: tuple[float, float, float], truth: Truth, denied: bool
) -> None:
    (promise,) = promises([finding(remedies=[remedy(*predicted)])])
    assert (denied_promise([(promise, truth)]) is not None) == denied


def test_an_alarm_in_a_healthy_load_is_false() -> None:
    assert of_healthy([finding(severity="minor", rank=None)]).outcome == "right"
    assert of_healthy([finding(status="cleared", severity=None)]).outcome == "right"
    assert of_healthy([finding(severity="costs")]).outcome == "false"


def test_a_bait_is_graded_by_its_promises_alone() -> None:
    bait = fault(bait=True)
    assert of_cause(bait, NOTHING, [], [finding("server-cpu")], "server-cpu").outcome == NOT_WORTH


def test_the_table_counts_by_kind() -> None:
    rows = [
        {"outcome": "right", "causes": [{"kind": "jit", "outcome": "right", "worth_it": True}]},
        {
            "outcome": NOT_WORTH,
            "causes": [{"kind": "jit", "outcome": NOT_WORTH, "worth_it": False}],
        },
        {"outcome": "false", "causes": []},
        {"outcome": "failed"},
    ]
    counts = table(rows)
    assert counts["jit"] == {"drawn": 2, "worth it": 1, "right": 1, NOT_WORTH: 1}
    assert counts["healthy"]["false"] == 1
    shown = list(lines(counts))
    assert shown[-1] == "not graded: 1 failed"
    assert shown[-2].split() == ["all", "4", "1", "1", "0", "0", "0", "1"]


def test_each_draw_is_written_with_what_repeats_it(tmp_path: Any, monkeypatch: Any) -> None:
    def answered(module: str, asked: dict[str, Any], *, seconds_max: float) -> dict[str, Any]:
        if asked["seed"] == 8:
            return {"error": "not done after 90 s"}
        return {**asked, "outcome": "right", "healthy": True, "causes": []}

    monkeypatch.setattr(program, "answer_of", answered)
    path = tmp_path / "exam-random.json"
    words = ["--seed", "7", "--seeds", "2", "--kinds", "healthy", "--output", str(path)]
    assert program.main(words) == 0
    result = json.loads(path.read_text())
    assert result["kinds"] == "healthy"
    assert [(each["seed"], each["outcome"]) for each in result["draws"]] == [
        (7, "right"),
        (8, "failed"),
    ]


def test_what_was_kept_is_graded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A load that waits for the WAL, kept as a healthy one, and as one that sorts on disk."""
    monkeypatch.setattr(again, "_facts", lambda version: facts())
    usual = {"version": 18, "kinds": "work-mem", "verdict": {}, "rate_tps": None, "planted_tps": 9}
    (planted,) = draw(7, facts(), "work-mem").faults
    cause = {
        "name": planted.entry,
        "kind": planted.kind,
        "truth": to_builtins(WORTH),
        "worth_it": True,
        "outcome": "right",
    }
    rows: list[dict[str, Any]] = [
        {"seed": 6, "outcome": "right", "healthy": True, "causes": []},
        {"seed": 7, "outcome": "right", "healthy": False, "causes": [cause], "promised": []},
        {"seed": 8, "outcome": "disturbed", "healthy": True, "causes": []},
    ]
    investigated = tmp_path / "draw-9"
    investigated.mkdir()
    row = {"seed": 9, "version": 18, "outcome": "right", "causes": [cause], "investigation": {}}
    (investigated / "row.json").write_text(json.dumps(row))
    waiting = Load(clients=8, tps=400, service_ms=20.0, sessions={("IO", "WalSync"): 7.5})
    for row in rows:
        kept = tmp_path / f"draw-{row['seed']}"
        kept.mkdir()
        (kept / "row.json").write_text(json.dumps(usual | row))
        with written(kept, waiting) as run:
            run.path.rename(kept / "run.db")
    assert again.main([str(tmp_path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[:5] for line in shown[:2]] == [
        ["6", "healthy", "right", "->", "false"],
        ["7", "work-mem", "right", "->", "false"],
    ]
    assert shown[-1].split()[:2] == ["all", "2"]


def test_a_promise_that_is_denied_makes_the_first_cause_false() -> None:
    made = [
        finding("costly-settings", remedies=[remedy(9.0, 8.0, 10.0, settings={"work_mem": "4096"})])
    ]
    ((grade, apart),) = of_causes(
        [fault()], {"work-mem": WORTH}, facts(), made, None, promised=[], held=False
    )
    assert (grade.outcome, apart) == ("false", "right")


def test_faults_of_one_entry_vary_with_the_seed() -> None:
    names_of = {
        draw(seed, facts(), "planner-switch").faults[0].settings.popitem()[0]  # type: ignore[attr-defined]
        for seed in range(1, 20)
    }
    assert len(names_of) > 1


def test_what_a_server_lacks_is_not_drawn() -> None:
    (jit,) = asked_for("jit")
    draft = Draft(random.Random(1), facts(), drawn_names(random.Random(1), None))
    assert jit.drawn(draft) is None
    assert not any(fault.entry == "jit" for seed in range(60) for fault in _drawn(seed).faults)


def _drawn(seed: int) -> Draw:
    return draw(seed, facts())
