"""Numbers as the report writes them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno import numbers
from pgdyno.report.words import prose
from pgdyno.report.words.cutting import cut

MODERATE = st.floats(min_value=1e-6, max_value=1e12)


@given(MODERATE, st.integers(2, 5))
def test_significant_digits_keep_the_value_to_half_a_unit_of_the_last(
    value: float, digits: int
) -> None:
    text = numbers.significant(value, digits)
    assert "e" not in text
    read_back = float(text.replace(",", ""))
    assert abs(read_back - value) <= 0.5000001 * 10 ** (math.floor(math.log10(value)) - digits + 1)


@given(MODERATE)
def test_negative_numbers_differ_by_their_sign_alone(value: float) -> None:
    assert numbers.significant(-value) == f"-{numbers.significant(value)}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (numbers.tps(5310.4), "5,310"),
        (numbers.tps(97.31), "97.3"),
        (numbers.ms(14.83), "14.8 ms"),
        (numbers.ms(0.0621), "0.062 ms"),
        (numbers.ms(0.9999), "1.000 ms"),
        (numbers.ms(12_345), "12.3 s"),
        (numbers.ns(1_500_000), "1.50 ms"),
        (numbers.from_to_ms(14.8, 8.7), "14.8 → 8.70 ms"),
        (numbers.from_to_ms(14_800, 8.7), "14.8 s → 8.70 ms"),
        (numbers.ratio(2.0777), "2.08x"),
        (numbers.ratio(12.34), "12.3x"),
        (numbers.interval(1.97, 2.2), "[1.97, 2.20]"),
        (numbers.change_percent(0.59), "-41 %"),
        (numbers.change_percent(1.021), "+2.1 %"),
        (numbers.percent(0.031), "3.1 %"),
        (numbers.percent(0.62), "62 %"),
        (numbers.duration(131), "2 min 11 s"),
        (numbers.duration(45), "45 s"),
        (numbers.duration(3840), "1 h 04 min"),
        (numbers.duration(4 * 86_400), "4 days"),
        (numbers.duration(59.999), "1 min"),
        (numbers.clock(65), "1:05"),
        (numbers.clock(7389), "2:03:09"),
        (numbers.size(16 * 1024**2), "16 MB"),
        (numbers.size(512), "512 B"),
        (numbers.listed(["a", "b", "c"]), "a, b and c"),
        (prose.sentence("the disk is slow"), "The disk is slow."),
        (prose.sentence("synchronous_commit = off helps"), "synchronous_commit = off helps."),
        (numbers.measured(0.62, "share"), "62 %"),
        (numbers.measured(7, "cores"), "7.00 cores"),
        (numbers.measured("UPDATE t", ""), "UPDATE t"),
    ],
)
def test_each_unit_is_written_one_way(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_is_not_there_is_a_dash(value: float | None) -> None:
    writers = (numbers.tps, numbers.ms, numbers.ns, numbers.ratio, numbers.percent)
    others = (numbers.duration, numbers.size, numbers.count, numbers.change_percent)
    assert {write(value) for write in writers + others} == {numbers.ABSENT}


@pytest.mark.parametrize(
    ("text", "letters_max", "shown"),
    [
        ("update accounts set n = 1", 40, "update accounts set n = 1"),
        ("update  accounts\n set n", 40, "update accounts set n"),
        ("update accounts set balance = 1", 20, "update accounts set…"),
        ("update accounts set balance = 1", 28, "update accounts set balance…"),
        ("a, b, and c", 7, "a, b…"),
        ("averylongwordwithoutaspace", 10, "averylong…"),
    ],
)
def test_long_texts_end_with_a_whole_word(text: str, letters_max: int, shown: str) -> None:
    assert cut(text, letters_max) == shown
    assert len(cut(text, letters_max)) <= letters_max
