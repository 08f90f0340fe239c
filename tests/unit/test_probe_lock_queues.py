"""Looks at the lock queues: who is first in line, for how many rows, and behind whom."""

from __future__ import annotations

from typing import Any, cast

from pgdyno.probe._locks import Ids, Lock, LockQueues
from pgdyno.record import LockLink
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
        "backend_type": "client backend",
        "transaction_ms": 40.0,
        "state_ms": 3.0,
    }
    return cast("Lock", row | more)


def looked(*looks: list[Lock], links: list[LockLink] | None = None) -> list[MetricRow]:
    """The rows of lock_queue after these looks; a statement's last letter is its id, a being 0.

    A link's id is its place in ``links``, to which it is added; the id of the one ahead is that of
    the link before, or None.
    """

    def link_id(link: LockLink, ahead_id: int | None) -> int:
        known = links if links is not None else []
        if link not in known:
            known.append(link)
        place = known.index(link)
        assert ahead_id == (place - 1 if place else None)
        return place

    ids = Ids(lambda text: ord(text[-1]) - ord("a"), link_id)
    queues = LockQueues()
    for locks in looks:
        queues.see(locks)
    rows = queues.take(ids)
    assert queues.take(ids) == []
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


def on_table(pid: int, mode: str, *, waits_ms: float | None = None, **more: Any) -> Lock:
    """A lock on public.t as a whole."""
    table = {"mode": mode, "relation": "public.t"} | more
    return lock(pid, "relation/9", waits_ms=waits_ms, **table)


VACUUM = on_table(1, "ShareUpdateExclusiveLock", transaction_ms=9000.0)
ALTER = on_table(2, "AccessExclusiveLock", waits_ms=90.0)
WRITERS = [
    on_table(pid, "RowExclusiveLock", waits_ms=50.0 - pid, statement="update h")
    for pid in (3, 4, 5)
]


def test_a_request_that_waits_is_a_link_between_the_holder_and_the_others() -> None:
    links: list[LockLink] = []
    [row] = looked([VACUUM, ALTER, *WRITERS], links=links)
    assert (row["waiting"], row["first"], row["behind_request"]) == (4, 1, 3)
    assert (row["blocker_statement_id"], row["blocker_pid"]) == (1, 1)
    assert (row["blocker_mode"], row["mode"]) == ("ShareUpdateExclusiveLock", "AccessExclusiveLock")
    assert (row["waiting_statement_id"], row["waiting_mode"]) == (7, "RowExclusiveLock")
    assert row["blocker_transaction_ms_max"] == 9000.0
    [link] = links
    assert row["link_id"] == 0
    assert (link.statement, link.mode, link.relation) == (
        "statement c", "AccessExclusiveLock", "public.t",
    )  # fmt: skip
    assert link.held_mode is None


def test_those_who_wait_for_the_holder_itself_have_no_link() -> None:
    holder = on_table(1, "AccessExclusiveLock")
    [row] = looked([holder, *WRITERS])
    assert (row["first"], row["behind_request"], row["link_id"]) == (3, 0, None)
    assert row["waiting_mode"] is None


def test_a_holder_that_waits_for_a_row_is_a_link() -> None:
    """The holder of the table waits for a transaction, and writers for the table."""
    waits = behind(2, 30.0)
    held = on_table(2, "AccessExclusiveLock")
    links: list[LockLink] = []
    [row] = looked([HOLDER, waits, held, *WRITERS], links=links)
    [link] = links
    assert (link.lock_type, link.mode) == ("transactionid", "ShareLock")
    assert (link.held_type, link.held_mode) == ("relation", "AccessExclusiveLock")
    assert (row["waiting"], row["behind_request"]) == (4, 0)


def test_two_requests_that_wait_for_each_other_in_turn_are_two_links() -> None:
    """An index build waits for a vacuum, ALTER TABLE of another table for the build's table."""
    build = on_table(2, "ShareUpdateExclusiveLock", waits_ms=90.0)
    own = lock(2, "relation/8", mode="AccessShareLock", relation="public.u")
    alter = lock(6, "relation/8", waits_ms=80.0, mode="AccessExclusiveLock", relation="public.u")
    reader = lock(7, "relation/8", waits_ms=70.0, mode="AccessShareLock", relation="public.u")
    links: list[LockLink] = []
    [row] = looked([VACUUM, build, own, alter, reader], links=links)
    assert [link.relation for link in links] == ["public.t", "public.u"]
    assert [link.held_relation for link in links] == ["public.u", None]
    assert (row["link_id"], row["behind_request"]) == (1, 1)


def test_the_process_is_told_only_where_it_is_the_same_in_all_looks() -> None:
    other = [on_table(8, "ShareUpdateExclusiveLock", statement="statement b"), ALTER, *WRITERS]
    [row] = looked([VACUUM, ALTER, *WRITERS], other)
    assert (row["seen"], row["blocker_pid"]) == (2, None)


def test_behind_a_hot_row_there_are_no_links() -> None:
    hot = [HOLDER, behind(2, 30.0), on_row(2, 1)]
    [row] = looked([*hot, *(on_row(pid, 1, waits_ms=20.0 - pid) for pid in (3, 4, 5))])
    assert (row["link_id"], row["waiting_mode"]) == (None, None)


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
