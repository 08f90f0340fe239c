"""The signature of plans that changed while the load ran, on made-up run files."""

from __future__ import annotations

from pathlib import Path

import pytest
from diagnose_runs import Load, diagnosed
from inline_snapshot import snapshot
from test_signatures_plan_nodes import with_rows
from test_signatures_plans import BUSY, PLACE, looked_at

ROW = {
    **PLACE,
    "first": "Seq Scan on public.item",
    "last": "Index Scan using item_kind on public.item",
    "is_changed": 1,
}
SAME = {**PLACE, "position": 1, "first": "Result", "last": "Result", "is_changed": 0}


def test_a_plan_that_changed(tmp_path: Path) -> None:
    load = with_rows(looked_at(BUSY), "plan_over_time", ROW, SAME)
    found = diagnosed(tmp_path, load)["changed-plan"]
    assert (found.status, found.severity) == ("found", "minor")
    assert found.sentence == snapshot(
        "the plan of 1 statement changed while the load ran: first Seq Scan on public.item, then"
        " Index Scan using item_kind on public.item; select total from item where kind = :kind"
    )
    assert [(each.name, each.value) for each in found.evidence] == snapshot(
        [
            ("statements explained at the start and at the end", 2),
            ("of them with another plan at the end", 1),
        ]
    )


def test_plans_that_stay(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, with_rows(looked_at(BUSY), "plan_over_time", SAME))["changed-plan"]
    assert (found.status, found.sentence) == snapshot(
        ("cleared", "1 statement has the plan that the load began with")
    )


@pytest.mark.parametrize("load", [BUSY, looked_at(BUSY)])
def test_plans_that_nobody_looked_at_first(tmp_path: Path, load: Load) -> None:
    assert diagnosed(tmp_path, load)["changed-plan"].status == "skipped"
