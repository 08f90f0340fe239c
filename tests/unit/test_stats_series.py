"""Series: warm-up, means of dependent values, changes of level."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pgdyno.stats import change_points, effective_size, mean_with_interval, steady_from

Series = NDArray[np.float64]


def autoregressive(generator: np.random.Generator, size: int, phi: float) -> Series:
    """Stationary AR(1) noise with unit variance."""
    values = np.empty(size)
    values[0] = generator.normal()
    for index in range(1, size):
        fresh = math.sqrt(1 - phi**2) * generator.normal()
        values[index] = phi * values[index - 1] + fresh
    return values


def test_a_steady_series_is_steady_at_once() -> None:
    generator = np.random.default_rng(1)
    starts = [steady_from(1000 + 50 * generator.normal(size=60)) for _ in range(100)]
    assert all(start is not None for start in starts)
    assert np.median([start for start in starts if start is not None]) <= 6
    assert steady_from([5.0] * 20) == 0
    assert steady_from([0.0] * 20) == 0


@pytest.mark.parametrize("ramp", [5, 15, 25])
def test_a_ramp_is_cut_off(ramp: int) -> None:
    generator = np.random.default_rng(2)
    for _ in range(30):
        level = np.minimum(np.arange(60) / ramp, 1.0)
        start = steady_from(1000 * level + 30 * generator.normal(size=60))
        assert start is not None
        assert ramp - 3 <= start <= 30


def test_what_never_settles_is_never_steady() -> None:
    generator = np.random.default_rng(3)
    unsteady = 0
    for _ in range(30):
        noise = 20 * generator.normal(size=80)
        assert steady_from(np.linspace(500, 1500, 80) + noise) is None  # still rising
        assert steady_from(np.where(np.arange(80) < 60, 1000, 500) + noise) is None  # late step
        unsteady += steady_from(1000 + np.cumsum(60 * generator.normal(size=80))) is None
    assert unsteady >= 20  # a random walk may stay put by chance


def test_single_stalls_are_no_drift() -> None:
    generator = np.random.default_rng(4)
    for _ in range(30):
        values = 1000 + 50 * generator.normal(size=120)
        values[generator.integers(0, 120, 4)] = 0
        assert steady_from(values) is not None


def test_too_few_or_broken_values_tell_nothing() -> None:
    assert steady_from([1.0] * 15) is None
    assert steady_from([]) is None
    assert steady_from([1.0] * 20 + [math.nan]) is None


@settings(max_examples=50)
@given(st.lists(st.floats(1, 1000), min_size=16, max_size=80), st.sampled_from([0.125, 2, 64]))
def test_steadiness_has_no_unit(values: list[float], unit: float) -> None:
    scaled = [unit * value for value in values]
    assert steady_from(values) == steady_from(scaled)
    assert change_points(values) == change_points(scaled)
    assert effective_size(values) == pytest.approx(effective_size(scaled))


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_the_mean_of_dependent_values_has_an_honest_interval(phi: float) -> None:
    generator = np.random.default_rng(5)
    covered = []
    for _ in range(300):
        estimate = mean_with_interval(10 + autoregressive(generator, 200, phi))
        covered.append(estimate.lo <= 10 <= estimate.hi)
    assert np.mean(covered) >= 0.88


def test_effective_size_follows_theory() -> None:
    """For AR(1) it is n (1 - phi) / (1 + phi)."""
    generator = np.random.default_rng(6)
    for phi, share in ((0.0, 1.0), (0.5, 1 / 3), (0.8, 1 / 9)):
        sizes = [effective_size(autoregressive(generator, 2000, phi)) for _ in range(10)]
        assert np.mean(sizes) / 2000 == pytest.approx(share, rel=0.3)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_a_mean_lies_within_its_interval(values: list[float]) -> None:
    estimate = mean_with_interval(values)
    assert estimate.lo <= estimate.mean <= estimate.hi


def test_means_of_next_to_nothing() -> None:
    assert math.isnan(mean_with_interval([3.0]).lo)
    assert mean_with_interval([3.0, 3.0]).hi == 3
    with pytest.raises(ValueError):
        mean_with_interval([])


def test_changes_of_level_are_found_where_they_are() -> None:
    generator = np.random.default_rng(8)
    for _ in range(30):
        levels = np.repeat([1000.0, 1300.0, 800.0], [40, 50, 30])
        found = change_points(levels + 40 * generator.normal(size=120))
        assert len(found) == 2
        assert abs(found[0] - 40) <= 2
        assert abs(found[1] - 90) <= 2


@pytest.mark.parametrize("kind", ["normal", "heavy", "dependent", "stalls"])
def test_noise_has_no_change_points(kind: str) -> None:
    generator = np.random.default_rng(9)
    alarms = 0
    for _ in range(200):
        noise = {
            "normal": lambda: generator.normal(size=100),
            "heavy": lambda: generator.standard_t(2, size=100),
            "dependent": lambda: autoregressive(generator, 100, 0.5),
            "stalls": lambda: generator.normal(size=100) - 20 * (generator.random(100) < 0.05),
        }[kind]()
        alarms += bool(change_points(20 + noise))
    assert alarms <= 10


def test_a_perfect_step_is_found_and_a_constant_has_none() -> None:
    assert change_points([1.0] * 10 + [2.0] * 10) == [10]
    assert change_points([1.0] * 50) == []
    assert change_points([]) == []
    assert change_points([1.0, 5.0]) == []


def test_change_points_are_the_same_each_time_and_mirror_with_time() -> None:
    generator = np.random.default_rng(10)
    values = np.repeat([5.0, 9.0], 30) + generator.normal(size=60)
    assert change_points(values) == change_points(values)
    assert change_points(values[::-1]) == [60 - point for point in change_points(values)]
