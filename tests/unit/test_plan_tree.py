"""Plans as EXPLAIN (FORMAT JSON) gives them, read into trees."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pgdyno.plans._session import Refused, readable
from pgdyno.plans.forms import fingerprint, in_one_line
from pgdyno.plans.tree import FIRST_KEYS, WHOLES, read_plan
from pgdyno.plans.wanted_indexes import searches


def scan(**given: Any) -> dict[str, Any]:
    return {
        "Node Type": "Seq Scan",
        "Schema": "public",
        "Relation Name": "item",
        "Alias": "item",
        "Plan Rows": 10,
        "Total Cost": 9.0,
        **given,
    }


def explained(plan: dict[str, Any], **given: Any) -> dict[str, Any]:
    return {"Plan": plan, "Planning Time": 0.2, **given}


def test_a_plan_that_was_not_executed() -> None:
    plan = read_plan(explained(scan(Filter="(item.kind = 5)")))
    assert (plan.planning_ms, plan.execution_ms) == (0.2, None)
    assert plan.root.relation == "public.item"
    assert plan.root.conditions == {"Filter": "(item.kind = 5)"}
    assert (plan.root.rows, plan.root.time_ms, plan.root.own_ms) == (None, None, None)
    assert plan.root.reads_whole_table


def test_times_and_rows_are_those_of_all_executions() -> None:
    inner = scan(**{"Actual Rows": 2, "Actual Loops": 50, "Actual Total Time": 0.1,
                    "Rows Removed by Filter": 8})  # fmt: skip
    loop = {"Node Type": "Nested Loop", "Join Type": "Inner", "Plan Rows": 1, "Total Cost": 99.0,
            "Actual Rows": 100, "Actual Loops": 1, "Actual Total Time": 7.0,
            "Plans": [inner]}  # fmt: skip
    root = read_plan(explained(loop)).root
    (child,) = root.children
    assert (child.rows, child.removed, child.read) == (100, 400, 500)
    assert child.time_ms == pytest.approx(5.0)
    assert root.own_ms == pytest.approx(2.0)
    assert [node.kind for node in root.walk()] == ["Nested Loop", "Seq Scan"]


def test_rows_that_a_node_keeps_in_files_are_its_own() -> None:
    sort = {"Node Type": "Sort", "Plan Rows": 9, "Total Cost": 9.0, "Temp Written Blocks": 100,
            "Sort Space Type": "Disk", "Sort Space Used": 800}  # fmt: skip
    window = {"Node Type": "WindowAgg", "Plan Rows": 9, "Total Cost": 9.0,
              "Temp Written Blocks": 350, "Plans": [sort]}  # fmt: skip
    root = read_plan(explained(window)).root
    assert [node.spilled_kb for node in root.walk()] == [2000, 800]


def test_time_of_workers_is_divided_by_the_processes() -> None:
    part = scan(**{"Actual Rows": 10, "Actual Loops": 3, "Actual Total Time": 4.0})
    gather = {"Node Type": "Gather", "Plan Rows": 30, "Total Cost": 50.0, "Workers Planned": 2,
              "Workers Launched": 2, "Actual Rows": 30, "Actual Loops": 1,
              "Actual Total Time": 6.0, "Plans": [part]}  # fmt: skip
    root = read_plan(explained(gather)).root
    assert root.children[0].time_ms == pytest.approx(4.0)
    assert (root.workers_planned, root.workers_launched) == (2, 2)


@pytest.mark.parametrize("generation", [1.0, {"Deform": 0.25, "Total": 1.0}])
def test_compiling(generation: object) -> None:
    timing = {"Generation": generation, "Inlining": 2.0, "Optimization": 3.0, "Emission": 4.0,
              "Total": 10.0}  # fmt: skip
    plan = read_plan(explained(scan(), JIT={"Functions": 4, "Timing": timing}))
    assert plan.is_compiled
    assert plan.compiling_ms == pytest.approx(10.0)
    assert not read_plan(explained(scan())).is_compiled


def test_triggers_and_settings() -> None:
    trigger = {"Trigger Name": "RI_1", "Constraint Name": "child_fkey", "Relation": "parent",
               "Time": 3.5, "Calls": 2}  # fmt: skip
    plan = read_plan(explained(scan(), Triggers=[trigger], Settings={"jit": "off"}))
    (found,) = plan.triggers
    assert (found.constraint, found.time_ms, found.calls) == ("child_fkey", 3.5, 2)
    assert plan.settings == {"jit": "off"}


def test_the_fingerprint_is_of_the_form_alone() -> None:
    form = fingerprint(read_plan(explained(scan(Filter="(item.kind = 5)"))))
    same = scan(**{"Filter": "(item.kind = 6)", "Plan Rows": 99, "Total Cost": 1.0})
    assert fingerprint(read_plan(explained(same))) == form
    for other in (scan(), scan(**{"Relation Name": "other", "Filter": "x"})):
        assert fingerprint(read_plan(explained(other))) != form


PARTS = {f"public.{name}{n}": f"public.{name}" for name in ("item", "item_id") for n in range(9)}


def of_partitions(*numbers: int, removed: int = 0) -> dict[str, Any]:
    """A plan that looks up rows in these partitions."""
    scans = [
        scan(
            **{"Node Type": "Index Scan", "Relation Name": f"item{n}", "Index Name": f"item_id{n}"}
        )
        for n in numbers
    ]
    append = {"Node Type": "Append", "Plans": scans, "Subplans Removed": removed}
    top = append if removed or len(scans) > 1 else scans[0]
    return {**explained(top), WHOLES: PARTS}


def test_partitions_that_follow_from_values_are_no_other_form() -> None:
    form = fingerprint(read_plan(of_partitions(1)))
    for same in (of_partitions(2), of_partitions(1, 2, 3)):
        assert fingerprint(read_plan(same)) == form
    plan = read_plan(of_partitions(2))
    assert in_one_line(plan) == "Index Scan using item_id on public.item"
    # A plan for any values leaves them out when it is executed.
    assert fingerprint(read_plan(of_partitions(1, removed=8))) != form
    assert fingerprint(read_plan({**of_partitions(1), WHOLES: {}})) != form


def by_index(condition: str, **given: Any) -> dict[str, Any]:
    """A search in an index on (at, kind)."""
    node = {"Node Type": "Index Scan", "Index Name": "other", "Index Cond": condition}
    return {**explained(scan(**node, **given)), FIRST_KEYS: {"public.other": "at"}}


@pytest.mark.parametrize(
    ("condition", "behind"),
    [
        ("(item.kind = $1)", "at"),
        ("((item.kind = $1) AND (item.at = $2))", None),
        ("(item.at > 'kind'::text)", None),
    ],
)
def test_a_search_by_another_key_than_the_first_one(condition: str, behind: str | None) -> None:
    found = searches(read_plan(by_index(condition)))
    assert [each.behind for each in found] == ([] if behind is None else [behind])
    assert all(each.is_for_few and each.conditions == (condition,) for each in found)
    plain = {**by_index(condition), FIRST_KEYS: {}}
    assert searches(read_plan(plain)) == []


def test_a_search_by_another_key_may_be_of_a_bitmap() -> None:
    index = {"Node Type": "Bitmap Index Scan", "Index Name": "other", "Plan Rows": 1,
             "Total Cost": 1.0, "Index Cond": "(item.kind = $1)"}  # fmt: skip
    heap = scan(**{"Node Type": "Bitmap Heap Scan", "Plans": [index]},
                **{"Recheck Cond": "(item.kind = $1)"})  # fmt: skip
    (found,) = searches(read_plan({**explained(heap), FIRST_KEYS: {"public.other": "at"}}))
    assert (found.behind, found.conditions) == ("at", ("(item.kind = $1)",))


@pytest.mark.parametrize(
    ("kept", "removed", "loops", "is_wanted"),
    [(9, 4000, 1, True), (3000, 1000, 1, False), (0, 200, 1, False), (1, 4, 1000, False)],
)
def test_a_scan_by_an_index_may_discard_most_rows(
    kept: int, removed: int, loops: int, is_wanted: bool
) -> None:
    executed = {"Actual Rows": kept, "Rows Removed by Filter": removed, "Actual Loops": loops}
    top = by_index("(item.at = $2)", Filter="(item.kind = $1)", **executed)
    assert bool(searches(read_plan(top))) == is_wanted


def test_temporary_tables_are_the_same_in_each_session() -> None:
    forms = {fingerprint(read_plan(explained(scan(Schema=f"pg_temp_{n}")))) for n in (3, 14)}
    assert len(forms) == 1


@pytest.mark.parametrize("wrong", [{}, {"Plan": {}}, {"Plan": None}])
def test_anything_else_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, AttributeError)):
        read_plan(wrong)


@pytest.mark.parametrize(
    "answer",
    ["", "[]", "7", '["Utility Statement"]', '[{"Plan": {}}]', '[{"Plan": []}]', "[" * 99_999],
)
def test_an_answer_without_a_plan_is_refused(answer: str) -> None:
    with pytest.raises(Refused):
        readable(answer)


def test_a_plan_is_taken_as_it_is() -> None:
    answer = explained(scan())
    assert readable(json.dumps([answer])) == answer


def test_statements_that_rules_add_are_part_of_the_plan() -> None:
    times = {"Actual Rows": 1, "Actual Loops": 1, "Actual Total Time": 3.0}
    own, added = (explained(scan(Alias=name, **times), **{"Execution Time": 4.0})
                  for name in ("own", "added"))  # fmt: skip
    plan = read_plan(readable(json.dumps([own, "Utility Statement", added])))
    assert [node.alias for node in plan.nodes()] == ["", "own", "added"]
    assert (plan.planning_ms, plan.execution_ms) == (0.4, 8.0)
    assert plan.root.own_ms == 0.0


def test_rows_of_all_partitions_are_searched() -> None:
    """Of three partitions, 400 rows each for one that is wanted."""
    parts = [
        scan(**{"Relation Name": f"p{n}", "Alias": f"p{n}", "Filter": "((id + 0) = 5)",
                "Actual Rows": 1, "Actual Loops": 1, "Actual Total Time": 0.1,
                "Rows Removed by Filter": 399})
        for n in range(3)
    ]  # fmt: skip
    top = {"Node Type": "Append", "Plan Rows": 3, "Total Cost": 30.0, "Plans": parts}
    wholes = {f"public.p{n}": "public.whole" for n in range(3)}
    assert len(searches(read_plan({**explained(top), WHOLES: wholes}))) == 3
    assert searches(read_plan(explained(top))) == []
