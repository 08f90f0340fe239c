"""The course of a captured load: rates and sessions by parts of the time."""

from __future__ import annotations

from pgdyno.capture._course import INTERVALS_MAX, Burst, Read, course_of
from pgdyno.clone.capture_file import Interval


def reads(*transactions: float) -> list[Read]:
    """Readings every 10 s."""
    return [Read(10.0 * at, 10.0 * at + 10, each) for at, each in enumerate(transactions)]


def test_the_queries_of_the_capture_are_left_out() -> None:
    bursts = [Burst(5.0 * at + 4, 3 + at // 2, 1.5, 100) for at in range(6)]
    # What a burst has done is counted when the next one begins.
    found = course_of(reads(1120, 520, 1220), bursts, 2.0)
    assert found == (
        Interval(10, 100, 3, 1.5),
        Interval(10, 30, 4, 1.5),
        Interval(10, 100, 5, 1.5),
    )


def test_a_short_rest_belongs_to_the_last_interval() -> None:
    rest = Read(20.0, 20.2, 4)
    found = course_of([*reads(100, 200), rest], [], 0.0)
    assert [each.seconds for each in found] == [10, 10.2]
    assert found[1].transactions_per_s == 20


def test_one_reading_is_no_course() -> None:
    assert course_of(reads(100), [], 0.0) == ()
    assert course_of([], [], 0.0) == ()


def test_a_long_course_has_few_intervals() -> None:
    found = course_of(reads(*[100.0] * 1999), [], 0.0)
    assert len(found) == INTERVALS_MAX
    assert {each.transactions_per_s for each in found} == {10}
    assert sum(each.seconds for each in found) == 19_990
