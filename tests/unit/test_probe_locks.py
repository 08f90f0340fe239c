"""Who waits behind whom."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pgdyno.probe._locks import followers, summarise
from pgdyno.probe.lock_modes import CONFLICTS

EDGES = st.dictionaries(st.integers(1, 8), st.sets(st.integers(1, 8), max_size=4), max_size=8)


def lock(
    pid: int,
    target: str,
    *,
    waits_ms: float | None = None,
    mode: str = "ExclusiveLock",
    **more: Any,
) -> dict[str, Any]:
    """A row of the query lock: granted, or waiting for so long."""
    return {
        "pid": pid,
        "locktype": target.partition("/")[0],
        "mode": mode,
        "granted": waits_ms is None,
        "target": target,
        "wait_ms": waits_ms,
        "relation": None,
        "statement": None,
    } | more


def test_nobody_waits() -> None:
    assert summarise([]) == {"waiting": 0, "behind_one_max": 0}


def test_a_hot_row_is_a_queue_behind_one_transaction() -> None:
    holder = lock(1, "transactionid/77", statement="update hot set n = 5")
    first = lock(2, "transactionid/77", waits_ms=30.0, mode="ShareLock")
    tuple_lock = lock(2, "tuple/9/0/1", relation="public.hot")
    rest = [
        lock(pid, "tuple/9/0/1", waits_ms=20.0 - pid, relation="public.hot") for pid in (3, 4, 5)
    ]
    summary = summarise([holder, first, tuple_lock, *rest])
    assert summary == {
        "waiting": 4,
        "behind_one_max": 4,
        "wait_ms_max": 30.0,
        "lock_type": "tuple",
        "relation": "public.hot",
        "blocker_statement": "update hot set n = ?",
    }


def test_the_relation_is_the_one_at_the_root_of_the_chain() -> None:
    """Most wait for a teller, behind one that itself waits for the branch."""
    holder = lock(1, "transactionid/77", statement="end")
    branch = [
        lock(2, "transactionid/77", waits_ms=9.0, mode="ShareLock"),
        lock(2, "tuple/branch", locktype="tuple", relation="public.pgbench_branches"),
        lock(2, "transactionid/78", statement="update pgbench_branches"),
    ]
    teller = [
        lock(3, "transactionid/78", waits_ms=8.0, mode="ShareLock"),
        lock(3, "tuple/teller", locktype="tuple", relation="public.pgbench_tellers"),
    ]
    rest = [
        lock(pid, "tuple/teller", waits_ms=7.0 - pid / 10, relation="public.pgbench_tellers")
        for pid in (4, 5, 6)
    ]
    summary = summarise([holder, *branch, *teller, *rest])
    assert (summary["behind_one_max"], summary["relation"]) == (5, "public.pgbench_branches")
    holder_gone = summarise([*branch, *teller, *rest])
    assert holder_gone["relation"] == "public.pgbench_branches"


def test_who_waits_politely_behind_a_waiter_counts() -> None:
    reader = lock(1, "relation/9", mode="AccessShareLock", statement="select pg_sleep(9)")
    changer = lock(2, "relation/9", waits_ms=50.0, mode="AccessExclusiveLock")
    readers = [lock(pid, "relation/9", waits_ms=5.0, mode="AccessShareLock") for pid in (3, 4)]
    summary = summarise([reader, changer, *readers])
    assert summary["behind_one_max"] == 3
    assert summary["blocker_statement"] == "select pg_sleep(?)"


def test_holders_of_a_mode_that_fits_are_not_blamed() -> None:
    bystander = lock(1, "relation/9", mode="AccessShareLock", statement="select")
    index_maker = lock(2, "relation/9", mode="ShareLock", statement="create index")
    writer = lock(3, "relation/9", waits_ms=5.0, mode="RowExclusiveLock")
    assert summarise([bystander, index_maker, writer])["blocker_statement"] == "create index"


def test_conflicts_go_both_ways() -> None:
    for mode, against in CONFLICTS.items():
        assert all(mode in CONFLICTS[other] for other in against)


@given(EDGES)
def test_followers_are_all_who_reach_a_backend(edges: dict[int, set[int]]) -> None:
    reach = {waiter: set(blockers) for waiter, blockers in edges.items()}
    for _ in range(9):
        for waiter in reach:
            for blocker in set(reach[waiter]):
                reach[waiter] |= reach.get(blocker, set())
    expected: dict[int, set[int]] = {}
    for waiter, blockers in reach.items():
        for blocker in blockers - {waiter}:
            expected.setdefault(blocker, set()).add(waiter)
    assert followers(edges) == expected
