"""The procedures of compare and investigate keep their word: simulated as they are used.

The bars allow three standard errors of the number of trials; ``make simulate`` prints the figures
of many more.
"""

from __future__ import annotations

import math

import pytest

from benches.simulate import (
    MACHINES,
    PROCEDURES,
    Procedure,
    coverage_of,
    knee_coverage,
    mean_coverage,
    open_loop_ratio,
)

TRIALS = 300


def least(share: float, trials: int) -> float:
    """The share that ``trials`` fall below once in a thousand times, if it is the true one."""
    return share - 3.1 * math.sqrt(share * (1 - share) / trials)


IN_SHORT = ("normal", "drift to half speed")
"""Machines of which intervals are simulated here; all others by `make test-long`."""


@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda each: each.name)
@pytest.mark.parametrize(
    "machine",
    [each if each in IN_SHORT else pytest.param(each, marks=pytest.mark.long) for each in MACHINES],
)
@pytest.mark.parametrize("sd", [pytest.param(0.01, marks=pytest.mark.long), 0.05])
def test_intervals_cover_under_the_stopping_rule_in_use(
    procedure: Procedure, machine: str, sd: float
) -> None:
    every = coverage_of(procedure, MACHINES[machine], sd, 1.0, TRIALS)["all"]
    assert every.coverage >= least(0.95, TRIALS)
    assert every.share("better", "worse") <= 1 - least(0.95, TRIALS)


@pytest.mark.parametrize("procedure", PROCEDURES[:3], ids=lambda each: each.name)
def test_the_trials_that_end_at_the_first_look_cover_as_well(procedure: Procedure) -> None:
    """Where all time is planned for, the first look ends most trials, not the lucky ones."""
    first = coverage_of(procedure, MACHINES["normal"], 0.05, 1.0, 600)["first look"]
    assert first.trials > 300
    assert first.coverage >= least(0.93, first.trials)


@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda each: each.name)
@pytest.mark.parametrize(("ratio", "sd"), [(1.1, 0.08), (1.2, 0.15)])
def test_a_useful_effect_is_rarely_called_no_difference(
    procedure: Procedure, ratio: float, sd: float
) -> None:
    every = coverage_of(procedure, MACHINES["normal"], sd, ratio, 100)["all"]
    assert every.share("no difference", "worse") <= 0.02


@pytest.mark.parametrize(
    ("before_tps", "after_tps", "true"),
    [(900, 1500, 1000 / 900), (1100, 700, 0.7), (800, 950, 950 / 800)],
)
def test_the_backlog_of_a_slice_is_not_credited_to_the_next(
    before_tps: float, after_tps: float, true: float
) -> None:
    assert open_loop_ratio(before_tps, after_tps, 60) == pytest.approx(true, rel=0.02)


def test_an_interval_within_a_run_covers_or_is_not_shown() -> None:
    assert mean_coverage(5, 0.8, 10) is None
    assert mean_coverage(30, 0.5, 10) is None
    covered = mean_coverage(120, 0.8, 500)
    assert covered is not None
    assert covered >= least(0.94, 500)


@pytest.mark.parametrize("clients", [[4, 8, 12, 16], [1, 2, 4, 8, 16, 32, 64]])
def test_the_interval_of_a_knee_covers(clients: list[int]) -> None:
    assert knee_coverage(clients, 0.05, 100) >= least(0.95, 100)
