"""Limits of warming up after a restart, and the time that trials with restarts are planned with."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pgdyno.compare.change import (
    _fitting_seconds,
    _needed_seconds,
    check_times,
    compare_question,
)
from pgdyno.conduct import warm_up_seconds_max
from pgdyno.errors import UsageError
from pgdyno.remedy import circumstances
from pgdyno.spec import Change, spec_from_fields
from pgdyno.trial.question import Question

SERVER = circumstances(spec_from_fields({"clients": [{"count": 2}]}))


def question(settings: dict[str, str], seconds: float) -> Question:
    return compare_question(Change(settings=settings), SERVER, title="it", seconds=seconds)


@pytest.mark.parametrize(("slice_s", "limit_s"), [(0.3, 1.0), (4.0, 2.0), (60.0, 10.0)])
def test_warming_up_is_limited_by_the_slice(slice_s: float, limit_s: float) -> None:
    assert warm_up_seconds_max(slice_s) == limit_s


def test_pairs_with_restarts_are_planned_with_their_warm_up() -> None:
    restarts, reloads = ({"wal_buffers": "1MB"}, {"commit_delay": "100"})
    more = question(restarts, 10.0).pair_seconds - question(reloads, 10.0).pair_seconds
    assert more >= 2 * warm_up_seconds_max(10.0)


@pytest.mark.parametrize("budget_s", [120.0, 300.0, 900.0])
def test_slices_with_restarts_fit_into_the_budget(budget_s: float) -> None:
    asked = question({"wal_buffers": "1MB"}, 60.0)
    seconds = _fitting_seconds(asked, budget_s)
    assert _needed_seconds(replace(asked, seconds=seconds)) <= budget_s
    assert _needed_seconds(replace(asked, seconds=seconds / 0.94)) > budget_s


def test_a_budget_that_no_slice_fits_has_the_shortest_slices() -> None:
    assert _fitting_seconds(question({"wal_buffers": "1MB"}, 2.0), 20.0) == 0.8


def test_slices_too_short_for_a_verdict_are_refused() -> None:
    with pytest.raises(UsageError, match="6 slices of 100ms measure less than 1 s") as refused:
        check_times(100, 10_000)
    assert refused.value.hint == "--slice 170ms or more"
    check_times(170, 10_000)
    check_times(None, 1000)
