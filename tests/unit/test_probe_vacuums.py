"""Vacuums told from progress and counts."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pgdyno.probe._vacuums import VacuumWatch

S = 1_000_000_000


def progress(relation: str, *, automatic: bool = True, pid: int = 7) -> dict[str, Any]:
    return {
        "pid": pid,
        "relation": relation,
        "automatic": automatic,
        "to_prevent_wraparound": False,
    }


def table(relation: str, vacuums: int = 0, autovacuums: int = 0) -> dict[str, Any]:
    return {"relation": relation, "vacuum_count": vacuums, "autovacuum_count": autovacuums}


def test_one_seen_at_work_is_told_once() -> None:
    watch = VacuumWatch()
    assert watch.see(0, [], [table("t")]) == []
    assert watch.see(1 * S, [progress("t")], [table("t")]) == []
    [vacuum] = watch.see(3 * S, [], [table("t", autovacuums=1)])
    assert (vacuum.began_ns, vacuum.duration_ms, vacuum.automatic) == (S, 2000.0, True)
    assert vacuum.label == "autovacuum t"
    assert watch.see(4 * S, [], [table("t", autovacuums=1)]) == []


def test_a_count_before_or_after_the_end_is_explained() -> None:
    for counted_at in (2, 3, 4):
        watch = VacuumWatch()
        told = []
        for second in range(8):
            at_work = [progress("t")] if second in (1, 2) else []
            told += watch.see(second * S, at_work, [table("t", autovacuums=second >= counted_at)])
        assert [vacuum.duration_ms for vacuum in told] == [2000.0]


def test_one_too_short_to_be_seen_shows_in_the_count() -> None:
    watch = VacuumWatch()
    watch.see(0, [], [table("t", vacuums=4)])
    [vacuum] = watch.see(S, [], [table("t", vacuums=5)])
    assert (vacuum.duration_ms, vacuum.automatic, vacuum.label) == (None, False, "vacuum t")


def test_a_cancelled_one_does_not_hide_a_later_one() -> None:
    watch = VacuumWatch()
    told = []
    for second in range(12):
        at_work = [progress("t")] if second == 1 else []
        told += watch.see(second * S, at_work, [table("t", autovacuums=second >= 10)])
    assert [vacuum.duration_ms for vacuum in told] == [1000.0, None]


def test_unfinished_ones_are_told_at_the_end() -> None:
    watch = VacuumWatch()
    watch.see(0, [progress("a"), progress("b", pid=8)], [])
    assert [(one.relation, one.finished) for one in watch.unfinished(S)] == [
        ("a", False),
        ("b", False),
    ]


@given(st.lists(st.integers(0, 3), max_size=12))
def test_every_counted_vacuum_is_told_when_none_is_seen_at_work(steps: list[int]) -> None:
    watch = VacuumWatch()
    watch.see(0, [], [table("t")])
    count = told = 0
    for second, step in enumerate(steps, 1):
        count += step
        told += len(watch.see(second * S, [], [table("t", vacuums=count)]))
    assert told == count
