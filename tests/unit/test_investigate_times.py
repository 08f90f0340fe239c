"""How the time budget of an investigation is divided."""

from __future__ import annotations

import pytest

from pgdyno.investigate._times import TimeBudget
from pgdyno.record import TrialKind
from pgdyno.spec import Change
from pgdyno.trial.question import Question

BUDGET_S = 1000.0


def trial(seconds: float = 4.4) -> Question:
    """Return a question whose six pairs take 60 s."""
    return Question(TrialKind.REMEDY, "a remedy", Change(), Change(), seconds)


def with_left(left_s: float) -> TimeBudget:
    """Return a budget of which ``left_s`` are left."""
    times = TimeBudget(BUDGET_S)
    times._began_s -= BUDGET_S - left_s
    return times


def test_a_plain_trial_takes_what_it_is_estimated_to() -> None:
    assert with_left(0.0).trial_s([trial()]) == pytest.approx(60.0)


@pytest.mark.parametrize(
    ("left_s", "predicted_ratio", "set_aside_s"),
    [
        (200.0, 28.0, 80.0),  # there is time for all
        (130.0, 28.0, 0.0),  # the trial fits only without the measures after it
        (130.0, 2.0, 0.0),
        (130.0, 1.9, 80.0),  # which are worth more than a little gain
        (130.0, None, 80.0),
    ],
)
def test_no_time_is_set_aside_from_a_remedy_that_doubles_the_throughput(
    left_s: float, predicted_ratio: float | None, set_aside_s: float
) -> None:
    assert with_left(left_s).set_aside_s(trial(), 80.0, predicted_ratio) == set_aside_s


def test_a_trial_that_does_not_fit_by_itself_is_not_made() -> None:
    times = with_left(50.0)
    assert not times.enough_for([trial()], reserved_s=times.set_aside_s(trial(), 80.0, 28.0))


@pytest.mark.parametrize(("left_s", "fits"), [(70.0, True), (15.0, True), (5.0, False)])
def test_the_last_trial_may_exceed_the_budget_by_little(left_s: float, fits: bool) -> None:
    times = with_left(left_s)
    assert times.enough_for_last(trial()) is fits
    assert times.enough_for([trial()]) is (left_s > 60.0)
