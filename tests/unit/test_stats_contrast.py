"""Levels during something and otherwise: the ratio, and whether its interval holds."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.stats import CONTRAST_MIN, contrast

RUNS = 300


@pytest.mark.parametrize("dependence", [0.0, 0.5, 0.8])
@pytest.mark.parametrize(("seconds", "during"), [(30, 8), (120, 30)])
def test_the_interval_holds_for_seconds_that_depend_on_each_other(
    dependence: float, seconds: int, during: int
) -> None:
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(RUNS):
        noise = rng.normal(0, 0.1, seconds + 50)
        for second in range(1, len(noise)):
            noise[second] += dependence * noise[second - 1]
        marked = np.zeros(seconds, dtype=bool)
        start = rng.integers(0, seconds - during)
        marked[start : start + during] = True
        found = contrast(list(np.exp(5 + noise[50:] - 0.2 * marked)), list(marked))
        assert found is not None
        held += found.lo <= np.exp(-0.2) <= found.hi
    assert held / RUNS >= 0.93


def test_the_ratio_is_of_geometric_means() -> None:
    found = contrast([8.0, 2.0, 4.0, 4.0, 2.0, 2.0, 1.0, 4.0], [True] * 4 + [False] * 4)
    assert found is not None
    assert found.ratio == pytest.approx(2.0)
    assert found.lo < 2.0 < found.hi


def test_levels_without_noise_have_no_width() -> None:
    found = contrast([4.0] * 5 + [2.0] * 5, [True] * 5 + [False] * 5)
    assert found is not None
    assert (found.lo, found.ratio, found.hi) == pytest.approx((2.0, 2.0, 2.0))


def test_few_seconds_are_not_compared() -> None:
    few = CONTRAST_MIN - 1
    assert contrast([1.0] * (few + 9), [True] * few + [False] * 9) is None
    assert contrast([0.0] * 9 + [1.0] * 9, [True] * 9 + [False] * 9) is None
    assert contrast([], []) is None
