"""The scalability law: a curve made with it gives its parameters back; other curves give none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.stats import knee

CLIENTS = [1, 2, 4, 8, 16, 32, 64]


def law(count: float, single: float, contention: float, coherence: float) -> float:
    return single * count / (1 + contention * (count - 1) + coherence * count * (count - 1))


@settings(max_examples=50, deadline=None)
@given(st.floats(1, 1e5), st.floats(0.005, 0.5), st.floats(1e-4, 0.01))
def test_a_curve_made_by_the_law_is_recognised(
    single: float, contention: float, coherence: float
) -> None:
    found = knee(CLIENTS, [law(count, single, contention, coherence) for count in CLIENTS])
    assert found is not None
    assert found.single_tps == pytest.approx(single, rel=0.02)
    assert found.clients_at_peak == pytest.approx(math.sqrt((1 - contention) / coherence), rel=0.1)
    assert found.throughput_tps(10) == pytest.approx(
        law(10, single, contention, coherence), rel=0.02
    )
    assert found.peak_tps >= found.throughput_tps(10) * 0.999
    assert found.relative_error < 0.01


def test_noise_moves_the_knee_only_a_little() -> None:
    generator = np.random.default_rng(1)
    for _ in range(20):
        noisy = [law(n, 500, 0.05, 0.002) * math.exp(generator.normal(0, 0.03)) for n in CLIENTS]
        found = knee(CLIENTS, noisy)
        assert found is not None
        assert found.clients_at_peak == pytest.approx(math.sqrt(0.95 / 0.002), rel=0.5)


def test_a_curve_that_levels_off_has_a_knee_and_no_peak() -> None:
    found = knee(CLIENTS, [law(count, 100, 0.1, 0) for count in CLIENTS])
    assert found is not None
    assert found.clients_at_peak is None
    assert found.peak_tps == pytest.approx(1000, rel=0.02)
    assert found.clients_at_knee == pytest.approx(10, rel=0.02)


def test_a_straight_line_has_no_limit() -> None:
    found = knee(CLIENTS, [100.0 * count for count in CLIENTS])
    assert found is not None
    assert (found.contention, found.coherence) == (0, 0)
    assert math.isinf(found.peak_tps)


def test_too_few_or_senseless_points_give_none() -> None:
    assert knee([1, 2, 4], [1, 2, 3]) is None
    assert knee([4, 4, 4, 4, 4], [9, 9, 9, 9, 9]) is None
    assert knee([1, 2, 4, 8], [1, 0, 2, 0]) is None  # two are left
    assert knee(CLIENTS, [100, 1, 100, 1, 100, 1, 100]) is None
    with pytest.raises(ValueError):
        knee([1, 2, 3, 4], [1, 2, 3])


def test_the_unit_does_not_matter() -> None:
    measured = [law(count, 3, 0.1, 0.003) for count in CLIENTS]
    one, other = knee(CLIENTS, measured), knee(CLIENTS, [1e4 * tps for tps in measured])
    assert one is not None
    assert other is not None
    assert one.clients_at_peak == pytest.approx(other.clients_at_peak, rel=1e-3)
    assert one.peak_tps * 1e4 == pytest.approx(other.peak_tps, rel=1e-3)


def test_the_interval_of_the_knee_covers_the_true_one() -> None:
    exact = knee(CLIENTS, [law(count, 500, 0.05, 0.002) for count in CLIENTS])
    assert exact is not None
    generator = np.random.default_rng(2)
    covered = []
    for _ in range(200):
        noisy = [law(n, 500, 0.05, 0.002) * math.exp(generator.normal(0, 0.05)) for n in CLIENTS]
        found = knee(CLIENTS, noisy)
        assert found is not None
        covered.append(found.knee_ci95[0] <= exact.clients_at_knee <= found.knee_ci95[1])
    assert np.mean(covered) >= 0.90  # 0.95 less three errors of 200 fits
