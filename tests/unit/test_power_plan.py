"""A plan of power cuts goes forward in time, repeats itself by seed, and is mostly subsets."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pgdyno.drill.power._cutting import Moment, plan_cuts

moments = st.lists(st.builds(Moment, st.integers(0, 10**10), st.just("mark")), max_size=60)


@given(moments, st.integers())
def test_forward_in_time_and_the_same_again(moments: list[Moment], seed: int) -> None:
    planned = plan_cuts(moments, seed)
    assert [one.at_ns for one in planned] == sorted(one.at_ns for one in moments)
    assert [one.number for one in planned] == list(range(1, len(moments) + 1))
    assert plan_cuts(reversed(moments), seed) == planned


def test_mostly_subsets_of_either_sector() -> None:
    planned = plan_cuts([Moment(number, "random") for number in range(80)], 7)
    kinds = Counter(one.variant for one in planned)
    assert kinds["none"] == kinds["all"] == 10
    assert min(kinds["subset-512"], kinds["subset-4096"]) > 15
    assert sum(kinds.values()) == 80
    assert len({one.seed for one in planned}) == 80


def test_what_is_asked_for_holds() -> None:
    fixed = plan_cuts([Moment(5, "mark")] * 20, 7, sector_bytes=512, keep="garbage")
    assert {one.variant for one in fixed} == {"garbage-512"}
