"""What charts are drawn from: counters to rates, fewer points without losing extremes, stacks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pgdyno.report.charts._series import (
    Buckets,
    break_gaps,
    floats,
    growth,
    pivot,
    rate,
    shares,
    stack,
)

VALUES = st.integers(1, 400).flatmap(
    lambda size: arrays(np.float64, size, elements=st.floats(0, 1e9))
)


@given(VALUES, st.integers(1, 50), st.randoms(use_true_random=False))
def test_merging_keeps_sums_and_extremes(values, most, random) -> None:
    at_ms = np.cumsum([random.choice([1000, 1000, 10_000]) for _ in values]).astype(float)
    buckets = Buckets(at_ms, most)
    assert len(buckets.at_ms) <= max(most, 1)
    assert np.isclose(np.nansum(buckets.reduce(values, "sum")), values.sum())
    assert np.nanmax(buckets.reduce(values, "max")) == values.max()
    assert np.nanmin(buckets.reduce(values, "min")) == values.min()


def test_a_bucket_of_gaps_stays_a_gap() -> None:
    values = np.array([1.0, 3.0, np.nan, np.nan, 5.0, np.nan])
    merged = Buckets(np.arange(6.0) * 1000, 3).reduce(values)
    assert merged.tolist()[0] == 2
    assert np.isnan(merged[1])
    assert merged.tolist()[2] == 5


def test_a_counter_that_was_reset_leaves_a_gap_and_no_negative_rate() -> None:
    at_ms, per_second = rate(np.array([0.0, 1000, 2000, 4000]), np.array([10.0, 30, 5, 25]))
    assert at_ms.tolist() == [1000, 2000, 4000]
    assert per_second[0] == 20
    assert np.isnan(per_second[1])
    assert per_second[2] == 10
    assert growth(np.array([10.0, 30, 5, 25])) == 40


def test_null_is_nan() -> None:
    assert np.isnan(floats(np.array([None, 1], dtype=object))[0])


@given(arrays(np.float64, (3, 20), elements=st.floats(0, 1000)))
def test_shares_of_processor_time_add_up(growths) -> None:
    counters = {str(i): np.cumsum(row) for i, row in enumerate(growths)}
    total = np.sum(list(shares(counters).values()), axis=0)
    assert np.allclose(total[~np.isnan(total)], 1)


@given(arrays(np.float64, (4, 10), elements=st.floats(0, 1000)))
def test_stacked_parts_stand_on_each_other(rows) -> None:
    edges = stack({str(i): row for i, row in enumerate(rows)})
    assert np.allclose(edges["0"][0], 0)
    for below, above in (("0", "1"), ("1", "2"), ("2", "3")):
        assert np.array_equal(edges[below][1], edges[above][0])
    assert np.allclose(edges["3"][1], rows.sum(axis=0))


def test_pivot_fills_silence_with_zero() -> None:
    times, columns = pivot(np.array([0.0, 0, 1, 2]), ["a", "b", "a", "a"], np.array([1.0, 2, 3, 4]))
    assert times.tolist() == [0, 1, 2]
    assert columns["a"].tolist() == [1, 3, 4]
    assert columns["b"].tolist() == [2, 0, 0]


def test_lines_break_where_nobody_sampled() -> None:
    at_ms = np.array([0.0, 1000, 2000, 9000, 10_000])
    times, columns = break_gaps(at_ms, {"y": np.arange(5.0)})
    assert times.tolist() == [0, 1000, 2000, 5500, 9000, 10_000]
    assert np.isnan(columns["y"][3])


def test_a_second_reading_at_once_makes_no_rate_of_its_own() -> None:
    at_ms, per_second = rate(
        np.array([0.0, 1000, 2000, 2004, 3000, 4000]), np.array([0.0, 10, 20, 20, 30, 40])
    )
    assert at_ms.tolist() == [1000, 2000, 3000, 4000]
    assert per_second.tolist() == [10, 10, 10, 10]
    assert rate(np.array([]), np.array([]))[0].tolist() == []
