"""Histograms: what goes in comes out, to 1 %, however it is split, merged and encoded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno._engine import EngineError, Histogram

HOUR_NS = 3_600_000_000_000
durations = st.lists(st.integers(0, HOUR_NS), min_size=1, max_size=60)


def of(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


def close(found: float, true: float) -> bool:
    return abs(found - true) <= 0.01 * true + 1


@given(durations)
def test_extremes_mean_and_percentiles_are_within_one_per_cent(values: list[int]) -> None:
    histogram = of(values)
    assert histogram.count == len(values)
    assert close(histogram.max, max(values))
    assert close(histogram.min, min(values))
    assert close(histogram.mean, sum(values) / len(values))
    for percent in (25.0, 50.0, 99.0, 100.0):
        rank = max(1, -(-len(values) * percent // 100))
        assert close(histogram.percentile(percent), sorted(values)[int(rank) - 1])


@given(durations, durations)
def test_merging_is_recording_together(first: list[int], second: list[int]) -> None:
    merged = of(first)
    merged.add(of(second))
    encoded = of(first)
    encoded.add_encoded(of(second).encode())
    together = of(first + second)
    assert merged.buckets() == encoded.buckets() == together.buckets()


@given(durations)
def test_encoding_loses_nothing(values: list[int]) -> None:
    histogram = of(values)
    decoded = Histogram.decode(histogram.encode())
    assert decoded.buckets() == histogram.buckets()
    assert sum(count for _, count in decoded.buckets()) == len(values)


@given(durations, st.integers(0, HOUR_NS), st.integers(0, HOUR_NS))
def test_counts_between_agree_with_the_buckets(values: list[int], lo: int, hi: int) -> None:
    histogram = of(values)
    assert histogram.count_between(0, HOUR_NS) == len(values)
    low, high = sorted((lo, hi))
    inside = sum(low <= value <= high for value in values)
    near = sum(low * 0.99 - 1 <= value <= high * 1.01 + 1 for value in values)
    assert inside <= histogram.count_between(low, high) <= near


def test_an_empty_histogram_is_all_zero() -> None:
    empty = Histogram()
    assert (empty.count, empty.max, empty.min, empty.mean, empty.percentile(99)) == (0, 0, 0, 0, 0)
    assert empty.buckets() == []
    assert empty.count_between(0, HOUR_NS) == 0
    assert Histogram.decode(empty.encode()).count == 0


def test_more_than_an_hour_counts_as_an_hour() -> None:
    histogram = Histogram()
    histogram.record(10 * HOUR_NS, 3)
    assert histogram.count == 3
    assert close(histogram.max, HOUR_NS)


@given(st.binary(max_size=200))
def test_anything_else_is_no_histogram(junk: bytes) -> None:
    with pytest.raises(EngineError) as caught:
        Histogram.decode(junk)
    assert caught.value.code == "histogram-invalid"


def test_a_cut_or_changed_encoding_is_refused() -> None:
    encoded = of([1, 1000, 1_000_000]).encode()
    changed = bytearray(encoded)
    changed[-1] ^= 1
    for broken in (b"", encoded[:10], encoded[:-1], encoded + b"x", bytes(changed), b"\0" * 40):
        with pytest.raises(EngineError):
            Histogram.decode(broken)
