"""Looks at a server are kept to a part of its time."""

from __future__ import annotations

import time

import pytest

from pgdyno.probe import _budget
from pgdyno.probe._budget import LookBudget


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now_s = [100.0]
    monkeypatch.setattr(_budget.time, "monotonic", lambda: now_s[0])
    return now_s


@pytest.mark.parametrize(
    ("took_s", "pause_s"), [((0.001,), 0.1), ((0.05,), 5.0), ((0.5, 0.02), 2.0), ((3.0,), 10.0)]
)
def test_the_next_look_comes_when_the_quickest_of_the_last_is_paid_for(
    clock: list[float], took_s: tuple[float, ...], pause_s: float
) -> None:
    budget = LookBudget(0.01, 10.0)
    assert budget.is_due
    for each in took_s:
        budget.spend(clock[0], each)
    clock[0] += 0.99 * pause_s
    assert not budget.is_due
    clock[0] += 0.02 * pause_s
    assert budget.is_due


def test_without_a_share_a_look_is_always_due() -> None:
    budget = LookBudget(None, 10.0)
    budget.spend(time.monotonic(), 5.0)
    assert budget.is_due
