"""Statements whose plan differs between two runs, on made-up run files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import report_runs
from inline_snapshot import snapshot

from pgdyno.facts.replanned import PlannedSide, compared_plans
from pgdyno.plans.forms import in_one_line
from pgdyno.plans.tree import read_plan
from pgdyno.record import RunFile
from pgdyno.report.words.diff import diff
from pgdyno.report.words.plans import replanned_table, replanned_terms
from pgdyno.results.diff import LoadFigures
from pgdyno.results.plans import ComparedPlans

UPDATE, LOOKUP = 1, 2
"""Positions of two statements in the script."""


def scan(**given: Any) -> dict[str, Any]:
    node = {"Node Type": "Seq Scan", "Schema": "public", "Relation Name": "pgbench_accounts"}
    return {"Plan": {**node, "Alias": "pgbench_accounts", "Plan Rows": 1, **given}}


INDEXED = scan(
    **{"Node Type": "Index Scan", "Index Name": "pgbench_accounts_pkey", "Index Cond": "(aid = 5)"}
)
WHOLE = scan(Filter="(aid = 7)")


def run_with(path: Path, plans: Mapping[int, Mapping[str, Any] | None]) -> RunFile:
    """A run of which the statements at these positions were looked at; None: without a plan."""
    report_runs.plain_run(path)
    with closing(sqlite3.connect(path)) as db, db:
        (group, script), (slice_id,) = (
            db.execute(query).fetchone()
            for query in (
                "select client_group, script from statement_interval",
                "select max(id) from slice",
            )
        )
        for position, plan in plans.items():
            text = None if plan is None else json.dumps(plan)
            db.execute(
                "insert into statement_plan (at_ms, slice_id, client_group, script, position,"
                " is_generic, is_analyzed, plan, lack) values (0, ?, ?, ?, ?, 0, 0, ?, '')",
                (slice_id, group, script, position, text),
            )
    return RunFile(path)


def compared(a: RunFile, b: RunFile) -> ComparedPlans | None:
    figures = diff(a, b).figures
    assert isinstance(figures, LoadFigures)
    return figures.plans


def test_a_plan_of_another_form_is_named(tmp_path: Path) -> None:
    a = run_with(tmp_path / "a.db", {UPDATE: INDEXED, LOOKUP: INDEXED})
    b = run_with(tmp_path / "b.db", {UPDATE: INDEXED, LOOKUP: WHOLE})
    found = compared(a, b)
    assert found is not None
    assert (found.statements, found.without_plan) == (2, 0)
    (pair,) = found.differing
    assert pair.statement == report_runs.STATEMENTS[LOOKUP][0]
    assert pair.a.nodes == "Index Scan using pgbench_accounts_pkey on public.pgbench_accounts"
    assert pair.b.nodes == "Seq Scan on public.pgbench_accounts"
    assert pair.a.mean_ms == pair.b.mean_ms
    table = replanned_table(found, "A", "B")
    assert table is not None
    assert len(table.rows) == 1
    assert [*replanned_terms(found, "A", "B")] == snapshot(
        [
            ("plans", "of another form on the other side: 1 of 2 statements"),
            ("", "SELECT abalance FROM pgbench_accounts WHERE aid = $1"),
            ("  A", "0.069 ms: Index Scan using pgbench_accounts_pkey on public.pgbench_accounts"),
            ("  B", "0.069 ms: Seq Scan on public.pgbench_accounts"),
        ]
    )


def test_values_make_no_difference(tmp_path: Path) -> None:
    a = run_with(tmp_path / "a.db", {LOOKUP: WHOLE})
    b = run_with(tmp_path / "b.db", {LOOKUP: scan(Filter="(aid = 9)", **{"Plan Rows": 99})})
    found = compared(a, b)
    assert found is not None
    assert (found.statements, found.differing) == (1, ())
    assert replanned_table(found, "A", "B") is None
    assert [*replanned_terms(found, "A", "B")] == snapshot(
        [("plans", "of the same form on both sides: 1 statement")]
    )


def test_kinds_of_conditions_are_told_where_nothing_else_differs(tmp_path: Path) -> None:
    a = run_with(tmp_path / "a.db", {LOOKUP: WHOLE})
    found = compared(a, run_with(tmp_path / "b.db", {LOOKUP: scan()}))
    assert found is not None
    (pair,) = found.differing
    assert pair.a.nodes == f"{pair.b.nodes} [Filter]"


@pytest.mark.parametrize("other", [{UPDATE: INDEXED}, {LOOKUP: None, UPDATE: INDEXED}])
def test_a_statement_without_a_plan_is_not_compared(tmp_path: Path, other: Any) -> None:
    a = run_with(tmp_path / "a.db", {LOOKUP: WHOLE, UPDATE: INDEXED})
    found = compared(a, run_with(tmp_path / "b.db", other))
    assert found is not None
    assert (found.statements, found.differing) == (1, ())
    assert found.without_plan == (LOOKUP in other)


def test_nothing_is_compared_without_a_look(tmp_path: Path) -> None:
    a = run_with(tmp_path / "a.db", {LOOKUP: WHOLE})
    b = run_with(tmp_path / "b.db", {})
    assert compared(a, b) is None
    assert compared_plans(PlannedSide(b, None), PlannedSide(a, None)) is None
    assert [*replanned_terms(None, "A", "B")] == snapshot(
        [("plans", "the plans of the statements were not looked at on both sides")]
    )


def test_a_tree_in_one_line() -> None:
    inner = INDEXED["Plan"]
    loop = {"Node Type": "Nested Loop", "Join Type": "Left", "Plans": [WHOLE["Plan"], inner]}
    top = {"Node Type": "Aggregate", "Strategy": "Hashed", "Plans": [loop]}
    assert in_one_line(read_plan({"Plan": top})) == snapshot(
        "Aggregate Hashed > Nested Loop Left (Seq Scan on public.pgbench_accounts, Index Scan using pgbench_accounts_pkey on public.pgbench_accounts)"
    )
