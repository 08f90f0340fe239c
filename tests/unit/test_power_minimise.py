"""Delta debugging keeps the failure, ends at a smallest part, and stays inside its budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgdyno.drill.power._minimise import Search, TestLimit

items = st.lists(st.integers(0, 200), min_size=1, max_size=60, unique=True)


@given(items, st.data())
def test_what_is_needed_is_what_remains(whole: list[int], data: st.DataObject) -> None:
    needed = set(data.draw(st.lists(st.sampled_from(whole), unique=True)))
    search = Search(needed.issubset, TestLimit(10_000), tuple(whole))
    found = search.run(lambda item: item // 50, lambda item: item // 8)
    assert sorted(found) == sorted(needed)
    assert not search.exhausted


@given(items, st.integers(1, 7), st.integers(0, 40))
def test_any_rule_and_any_budget(whole: list[int], modulus: int, tests: int) -> None:
    """Also where more is not always worse, the answer fails, and no single item can go."""
    asked: list[tuple[int, ...]] = []

    def fails(part: tuple[int, ...]) -> bool:
        asked.append(part)
        return sum(part) % modulus == sum(whole) % modulus

    search = Search(fails, TestLimit(tests), tuple(whole))
    found = search.run(lambda item: item // 10)
    assert fails(found)
    assert set(found) <= set(whole)
    asked.pop()
    assert len(asked) <= tests
    assert len(set(map(frozenset, asked))) == len(asked), "asked twice"
    if not search.exhausted and found:
        assert not any(fails((*found[:n], *found[n + 1 :])) for n in range(len(found)))


def test_groups_make_it_cheap() -> None:
    search = Search({70_001, 70_002}.issubset, TestLimit(200), tuple(range(100_000)))
    found = search.run(lambda item: item // 10_000, lambda item: item // 16)
    assert found == (70_001, 70_002)
    assert search.limit.tests_made < 100


def test_the_clock_ends_it_too() -> None:
    search = Search(lambda part: True, TestLimit(10, deadline_s=0.0), (1, 2, 3))
    assert search.run() == (1, 2, 3)
    assert search.exhausted
