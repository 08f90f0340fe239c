"""Serialization failures are a cost; other programs and moments rank behind what owns more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import Load, diagnosed
from msgspec.structs import replace
from record_samples import error_row

from pgdyno.diagnose._diagnosis import _in_order
from pgdyno.record.finding import Finding


@pytest.mark.parametrize(
    ("retries", "sqlstate", "status"),
    [(20_000, "40001", "found"), (100, "40001", "cleared"), (20_000, "40P01", "cleared")],
)
def test_retries_after_serialization_failures_are_a_finding(
    tmp_path: Path, retries: int, sqlstate: str, status: str
) -> None:
    errors = [error_row(sqlstate=sqlstate, retried=1, count=retries // 10)]
    found = diagnosed(tmp_path, replace(Load(), errors=errors))["serialization-failures"]
    assert found.status == status
    if status == "found":
        assert found.share == pytest.approx(2 / 3, abs=0.01)
        assert "67 %" in found.sentence
        assert "READ COMMITTED" in found.advice


def _found(name: str, share: float, weight: float, **kind: Any) -> Finding:
    return Finding(id=name, status="found", sentence=name, share=share, weight=weight, **kind)


@pytest.mark.parametrize(
    ("others", "order"),
    [(0.26, ["row", "flush", "others"]), (0.7, ["others", "row", "flush"])],
)
@pytest.mark.parametrize("kind", ["masks_other_gains", "momentary"])
def test_other_programs_and_moments_rank_behind_what_owns_more(
    others: float, order: list[str], kind: str
) -> None:
    findings = [
        _found("others", others, others, **{kind: True}),
        _found("flush", 0.4, 0.01),
        _found("row", 0.64, 0.05),
    ]
    assert [finding.id for finding in _in_order(findings)] == order


def test_what_is_about_to_fail_comes_before_what_owns_more() -> None:
    findings = [
        _found("flush", 0.9, 0.6),
        _found("stall", 0.5, 0.5, momentary=True),
        _found("disk", 0.0, 0.0, severity="will fail"),
        _found("dips", 0.6, 0.6, momentary=True),
    ]
    order = ["disk", "flush", "dips", "stall"]
    assert [finding.id for finding in _in_order(findings)] == order
