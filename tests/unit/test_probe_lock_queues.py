"""Looks at the lock queues: who is first in line, for how many rows, and behind whom."""

from __future__ import annotations

from typing import Any, cast

from pgdyno.probe._locks import Lock, LockQueues
from pgdyno.record.fileformat import MetricRow


def lock(pid: int, target: str, *, waits_ms: float | None = None, **more: Any) -> Lock:
    """A row of the query lock: granted, or waiting for so long."""
    row = {
        "pid": pid,
        "locktype": target.partition("/")[0],
        "mode": "ExclusiveLock",
        "granted": waits_ms is None,
        "target": target,
        "wait_ms": waits_ms,
        "relation": None,
        "statement": f"statement {chr(ord('a') + pid)}",
        "state": "active",
        "transaction_ms": 40.0,
        "state_ms": 3.0,
    }
    return cast("Lock", row | more)


def looked(*looks: list[Lock]) -> list[MetricRow]:
    """The rows of lock_queue after these looks; a statement's last letter is its id, a being 0."""
    queues = LockQueues()
    for locks in looks:
        queues.see(locks)
    rows = queues.take(lambda text: ord(text[-1]) - ord("a"))
    assert queues.take(lambda _: 0) == []
    return rows


def on_row(pid: int, row: int, *, waits_ms: float | None = None, **more: Any) -> Lock:
    """A lock on a row of public.t, which a first in line holds and the others wait for."""
    return lock(pid, f"tuple/{row}", waits_ms=waits_ms, relation="public.t", **more)


HOLDER = lock(1, "transactionid/77")


def behind(pid: int, waits_ms: float) -> Lock:
    """A wait for the holder's transaction."""
    return lock(pid, "transactionid/77", waits_ms=waits_ms, mode="ShareLock")


def test_nobody_waits() -> None:
    assert looked([]) == []


def test_behind_a_hot_row_one_is_first_in_line() -> None:
    hot = [HOLDER, behind(2, 30.0), on_row(2, 1)]
    hot += [on_row(pid, 1, waits_ms=20.0 - pid) for pid in (3, 4, 5)]
    [row] = looked(hot, hot)
    assert row["lock_type"] == "transactionid"
    assert (row["looks"], row["seen"], row["waiting"]) == (2, 2, 8)
    assert (row["first"], row["places"]) == (2, 2)
    assert (row["relation"], row["mode"]) == ("public.t", "ExclusiveLock")
    assert (row["blocker_state"], row["blocker_transaction_ms"]) == ("active", 80.0)
    assert row["wait_ms_max"] == 30.0


def test_behind_a_batch_each_is_first_in_line_for_another_row() -> None:
    waiters = [(pid, [behind(pid, 9.0), on_row(pid, pid)]) for pid in (2, 3, 4, 5)]
    [row] = looked([HOLDER, *(each for _, locks in waiters for each in locks)])
    assert (row["waiting"], row["first"], row["places"]) == (4, 4, 4)


def test_the_mode_of_a_row_is_that_of_most_who_wait_for_it() -> None:
    share = [on_row(pid, 1, mode="AccessShareLock") for pid in (2, 3, 4)]
    [row] = looked([HOLDER, *(behind(pid, 5.0) for pid in (2, 3, 4)), *share])
    assert (row["mode"], row["places"]) == ("AccessShareLock", 1)


def test_a_deadlock_is_told_from_a_holder_that_has_just_ended() -> None:
    one = [lock(1, "transactionid/1"), lock(1, "transactionid/2", waits_ms=900.0)]
    two = [lock(2, "transactionid/2"), lock(2, "transactionid/1", waits_ms=900.0)]
    third = lock(3, "transactionid/1", waits_ms=5.0)
    [row] = looked([*one, *two, third])
    assert (row["blocker_state"], row["waiting"]) == ("deadlock", 2)
    [row] = looked([on_row(2, 1), behind(2, 4.0), on_row(3, 1, waits_ms=2.0)])
    assert (row["blocker_state"], row["waiting"]) == ("waiting", 1)


def test_the_first_in_line_for_a_table_is_named() -> None:
    reader = lock(1, "relation/9", mode="AccessShareLock", relation="public.t")
    alter = lock(2, "relation/9", waits_ms=90.0, mode="AccessExclusiveLock", relation="public.t")
    load = [
        lock(pid, "relation/9", waits_ms=50.0 - pid, mode="RowExclusiveLock", statement="update h")
        for pid in (3, 4, 5)
    ]
    [row] = looked([reader, alter, *load])
    assert (row["waiting"], row["first"]) == (4, 1)
    assert (row["blocker_statement_id"], row["first_statement_id"]) == (1, 2)
    assert row["waiting_statement_id"] == 7


def test_queues_of_one_look_are_told_apart() -> None:
    other = [lock(9, "advisory/1"), lock(8, "advisory/1", waits_ms=1.0)]
    rows = looked([HOLDER, behind(2, 30.0), on_row(2, 1), on_row(3, 1, waits_ms=2.0), *other])
    assert [(row["lock_type"], row["waiting"]) for row in rows] == [
        ("transactionid", 2),
        ("advisory", 1),
    ]


def test_a_prepared_transaction_holds_locks_without_a_session() -> None:
    prepared = lock(0, "transactionid/77", state="prepared", statement=None, transaction_ms=None)
    [row] = looked([prepared, behind(2, 30.0), on_row(2, 1)])
    assert row["blocker_state"] == "prepared"
    assert row["blocker_statement_id"] is None
    assert row["blocker_transaction_ms"] == 0.0
