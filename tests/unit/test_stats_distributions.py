"""Distributions and tests against scipy's, which the package itself does not need."""

from __future__ import annotations

import warnings

import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from pgdyno._engine import beta_quantile, fisher_exact, student_t_cdf, student_t_quantile
from pgdyno.stats import mann_whitney

samples = st.lists(st.integers(0, 30).map(float), min_size=1, max_size=15)
distinct = st.lists(st.floats(0, 1e6), min_size=2, max_size=24, unique=True)


@given(st.integers(1, 10_000), st.floats(0.0005, 0.9995))
def test_quantiles_of_student_s_t(freedom: int, p: float) -> None:
    expected = scipy.special.stdtrit(freedom, p)
    assert student_t_quantile(freedom, p) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(st.floats(1, 1000), st.floats(-40, 40))
def test_probabilities_of_student_s_t(freedom: float, t: float) -> None:
    assert student_t_cdf(freedom, t) == pytest.approx(scipy.special.stdtr(freedom, t), rel=1e-6)


@given(st.integers(1, 200), st.integers(1, 200))
def test_quantiles_of_beta(a: int, b: int) -> None:
    assert beta_quantile(a, b, 0.95) == pytest.approx(scipy.stats.beta.ppf(0.95, a, b), abs=1e-6)


@pytest.mark.parametrize("p", [0.0, 1.0, -1.0, float("nan")])
def test_quantiles_of_no_probability_are_refused(p: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        student_t_quantile(5, p)
    with pytest.raises(ValueError, match="between 0 and 1"):
        beta_quantile(1, 1, p)


@given(st.lists(st.integers(0, 40), min_size=4, max_size=4))
def test_fisher_s_exact_test(table: list[int]) -> None:
    expected = scipy.stats.fisher_exact([table[:2], table[2:]]).pvalue
    assert fisher_exact(table) == pytest.approx(expected, rel=1e-6)


@given(distinct, st.integers(1, 23))
def test_ranks_without_ties(values: list[float], few: int) -> None:
    a, b = values[:few], values[few:]
    if a and b:
        method = "exact" if min(len(a), len(b)) <= 8 else "asymptotic"
        expected = scipy.stats.mannwhitneyu(a, b, method=method).pvalue
        assert mann_whitney(a, b) == pytest.approx(expected, rel=1e-9)


@given(samples, samples)
def test_ranks_with_ties(a: list[float], b: list[float]) -> None:
    if len({*a, *b}) == len(a) + len(b):
        return
    if len({*a, *b}) == 1:
        assert mann_whitney(a, b) == 1
        return
    with warnings.catch_warnings(action="ignore"):
        expected = scipy.stats.mannwhitneyu(a, b, method="asymptotic").pvalue
    assert mann_whitney(a, b) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_a_side_without_values_is_refused() -> None:
    with pytest.raises(ValueError, match="both sides"):
        mann_whitney([], [1.0])
