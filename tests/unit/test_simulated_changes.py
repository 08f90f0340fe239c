"""Sudden changes of response times by client group, in simulated runs.

The bars allow three standard errors of the number of runs; ``make simulate`` prints the figures.
"""

from __future__ import annotations

import math

import pytest

from benches.simulate import Steady, false_changes, named_changes

RUNS = 150


def most(share: float) -> float:
    """The share that ``RUNS`` exceed once in a thousand times, if it is the true one."""
    return share + 3.1 * math.sqrt(share * (1 - share) / RUNS)


IN_SHORT = [(0.0, 1), (0.5, 2)]
"""All others are simulated by `make test-long`."""


@pytest.mark.parametrize(
    ("phi", "groups"),
    [
        pytest.param(phi, groups, marks=[] if (phi, groups) in IN_SHORT else pytest.mark.long)
        for phi in (0.0, 0.5, 0.8)
        for groups in (1, 2, 4)
    ],
)
def test_a_steady_run_rarely_shows_a_change_in_any_of_its_series(phi: float, groups: int) -> None:
    for seconds in (24, 60):
        assert false_changes(Steady(groups, seconds, 0.25, phi), RUNS) <= most(0.02)


@pytest.mark.parametrize(("phi", "share"), [(0.0, 0.95), (0.5, 0.7)])
def test_the_one_group_whose_tail_trebles_is_named(phi: float, share: float) -> None:
    assert named_changes(Steady(2, 60, 0.1, phi), 3, 100) >= share
