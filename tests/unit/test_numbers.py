"""Numbers as text: one table of what each format writes, and what holds for any number."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno import numbers

MODERATE = st.floats(min_value=1e-6, max_value=1e12)
SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "days": 86400.0}
BYTES = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def read_back(text: str, units: dict[str, float] | dict[str, int]) -> float:
    """The value of a text such as ``1 h 04 min``."""
    return sum(
        float(number.replace(",", "")) * units[unit]
        for number, unit in re.findall(r"([\d.,]+) (\w+)", text)
    )


@given(MODERATE, st.integers(2, 5))
def test_significant_digits_keep_the_value_to_half_a_unit_of_the_last(
    value: float, digits: int
) -> None:
    text = numbers.significant(value, digits)
    assert "e" not in text
    kept = float(text.replace(",", ""))
    assert abs(kept - value) <= 0.5000001 * 10 ** (math.floor(math.log10(value)) - digits + 1)


@given(MODERATE)
def test_negative_numbers_differ_by_their_sign_alone(value: float) -> None:
    for write in (numbers.significant, numbers.figure, numbers.size, numbers.ms, numbers.percent):
        assert write(-value) == f"-{write(value)}"


@given(MODERATE)
def test_a_duration_is_read_back_to_its_precision(seconds: float) -> None:
    """Three digits below 10 s, and half of the smaller unit above."""
    half = 0.5 if seconds < 3600 else 30 if seconds < 48 * 3600 - 30 else 1800
    precision = 0.005 * seconds if seconds < 9.99 else half
    text = numbers.duration(seconds)
    assert read_back(text, SECONDS) == pytest.approx(seconds, rel=1e-9, abs=precision)


@given(st.floats(min_value=1, max_value=1e17))
def test_a_size_is_read_back_to_three_digits(size_bytes: float) -> None:
    assert read_back(numbers.size(size_bytes), BYTES) == pytest.approx(size_bytes, rel=0.005)


@given(MODERATE, MODERATE)
def test_more_is_never_written_as_less(one: float, other: float) -> None:
    for write, units in ((numbers.size, BYTES), (numbers.duration, SECONDS)):
        less, more = (read_back(write(each), units) for each in sorted((one, other)))
        assert less <= more * (1 + 1e-9)


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (numbers.figure, 0, "0"),
        (numbers.figure, 0.0000123, "0.000012"),
        (numbers.figure, 4.06, "4.1"),
        (numbers.figure, 5, "5"),
        (numbers.figure, 62.4, "62"),
        (numbers.figure, 99.6, "100"),
        (numbers.figure, 1240.4, "1,240"),
        (numbers.count, 1240.4, "1,240"),
        (numbers.tps, 5310.4, "5,310"),
        (numbers.tps, 97.31, "97.3"),
        (numbers.rate, 20, "20/s"),
        (numbers.rate, 12.54, "12.5/s"),
        (numbers.rate, 1240.4, "1,240/s"),
        (numbers.percent, 0.62, "62 %"),
        (numbers.percent, 0.05, "5 %"),
        (numbers.percent, 0.031, "3.1 %"),
        (numbers.percent, 0.0002, "0.02 %"),
        (numbers.ratio, 2.0777, "2.08x"),
        (numbers.ratio, 12.34, "12.3x"),
        (numbers.ratio, 0.0123, "0.012x"),
        (numbers.predicted, 1.5, "1.5x"),
        (numbers.change_percent, 0.59, "-41 %"),
        (numbers.change_percent, 1.021, "+2.1 %"),
        (numbers.ms_figure, 0.0621, "0.062"),
        (numbers.ms, 14.83, "14.8 ms"),
        (numbers.ms, 0.0621, "0.062 ms"),
        (numbers.ms, 0.9999, "1.000 ms"),
        (numbers.ms, 12_345, "12.3 s"),
        (numbers.ns, 1_500_000, "1.50 ms"),
        (numbers.duration, 0, "0 s"),
        (numbers.duration, 0.0347, "34.7 ms"),
        (numbers.duration, 0.05, "50 ms"),
        (numbers.duration, 0.9996, "1 s"),
        (numbers.duration, 4.123, "4.12 s"),
        (numbers.duration, 9.996, "10 s"),
        (numbers.duration, 45.2, "45 s"),
        (numbers.duration, 59.999, "1 min"),
        (numbers.duration, 131, "2 min 11 s"),
        (numbers.duration, 480, "8 min"),
        (numbers.duration, 3599.6, "1 h"),
        (numbers.duration, 3840, "1 h 04 min"),
        (numbers.duration, 100_000, "27 h 47 min"),
        (numbers.duration, 4 * 86_400, "4 days"),
        (numbers.duration, 273_600, "3 days 4 h"),
        (numbers.clock, 65, "1:05"),
        (numbers.clock, 7389, "2:03:09"),
        (numbers.size, 512, "512 B"),
        (numbers.size, 1023.7, "1 kB"),
        (numbers.size, 16 << 20, "16 MB"),
        (numbers.size, 1.234 * (1 << 30), "1.23 GB"),
        (numbers.size, 1000 << 20, "1,000 MB"),
        (numbers.size, 5000 << 40, "5,000 TB"),
    ],
)
def test_each_quantity_is_written_one_way(write, value: float, text: str) -> None:  # type: ignore[no-untyped-def]
    assert write(value) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (numbers.from_to_ms(14.8, 8.7), "14.8 → 8.70 ms"),
        (numbers.from_to_ms(14_800, 8.7), "14.8 s → 8.70 ms"),
        (numbers.interval(1.97, 2.2), "[1.97, 2.20]"),
        (numbers.interval(0.001, 1e30), "[0.00, ∞]"),
        (numbers.interval(None, 2.2), ""),
        (numbers.effect(2.0777, 1.97, 2.2), "2.08x [1.97, 2.20]"),
        (numbers.predicted(1.5, [1.49, 1.51]), "1.5x"),
        (numbers.predicted(20.1, (12.0, 30.4)), "20x (12x to 30x)"),
        (numbers.counted(1.04, "core", "cores"), "1 core"),
        (numbers.counted(1.3, "core", "cores"), "1.3 cores"),
        (numbers.counted(0, "core", "cores"), "0 cores"),
        (numbers.counted(1240, "core", "cores"), "1,240 cores"),
        (numbers.listed([]), ""),
        (numbers.listed(["a"]), "a"),
        (numbers.listed(["a", "b"]), "a and b"),
        (numbers.listed(["a", "b", "c"]), "a, b and c"),
        (numbers.listed(["a", "b", "c", "d"]), "a, b, c and 1 more"),
        (numbers.listed(["a", "b", "c", "d"], most=None), "a, b, c and d"),
        (numbers.listed(["a", "b", "c"], most=1), "a and 2 more"),
        (numbers.measured(0.62, "share"), "62 %"),
        (numbers.measured(2_592_000, "s"), "30 days"),
        (numbers.measured(1234.6, "count/s"), "1,235/s"),
        (numbers.measured(7, "cores"), "7.00 cores"),
        (numbers.measured(None, "ms"), "unknown"),
        (numbers.measured("UPDATE t", ""), "UPDATE t"),
    ],
)
def test_numbers_that_go_together(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_is_not_there_is_a_dash(value: float | None) -> None:
    writers = (numbers.tps, numbers.ms, numbers.ns, numbers.ratio, numbers.percent, numbers.figure)
    others = (numbers.duration, numbers.size, numbers.count, numbers.change_percent)
    assert {write(value) for write in writers + others} == {numbers.ABSENT}
