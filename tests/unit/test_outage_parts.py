"""The parts of an outage: none is counted twice, and together they are the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.drill._failing_over import FailoverTimes

MS = 1_000_000
TIMES = st.integers(1, 1000).map(lambda ms: ms * MS)


@given(*[TIMES] * 7)
def test_the_parts_are_the_time_from_the_fault_to_the_first_commit(
    fault: int, last: int, detected: int, stopped: int, promoted: int, session: int, first: int
) -> None:
    begin, end = max(fault, last), max(fault, last) + first
    moments = FailoverTimes(fault, min(detected, end), min(stopped, end))
    moments.promoted_ns, moments.session_ns = promoted, session
    moments.committed(end)
    parts_ms = moments.parts_ms(last, end)
    assert min(parts_ms) >= 0
    assert sum(parts_ms) == pytest.approx((end - begin) / MS)


def test_a_session_seen_after_its_commit_is_not_counted_twice() -> None:
    moments = FailoverTimes(10 * MS, detected_ns=30 * MS, stopped_ns=20 * MS, promoting_ns=31 * MS)
    moments.promoted_ns, moments.session_ns = 40 * MS, 61 * MS
    moments.committed(60 * MS)
    assert moments.parts_ms(5 * MS, 60 * MS) == (10, 10, 10, 20, 0)


def test_an_old_primary_that_ends_after_the_first_commit_has_that_time_too() -> None:
    moments = FailoverTimes(10 * MS, detected_ns=20 * MS, stopped_ns=90 * MS, promoting_ns=21 * MS)
    moments.promoted_ns, moments.session_ns = 30 * MS, 40 * MS
    moments.committed(50 * MS)
    assert moments.parts_ms(60 * MS, 50 * MS) == (0, 30, 0, 0, 0)
    assert moments.parts_ms(10 * MS, 50 * MS) == (10, 40, 10, 10, 10)
