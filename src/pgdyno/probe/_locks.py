"""Summary of the locks that backends wait for: the number that wait, and the backend in front.

A waiter is behind another backend when that backend holds, or requested earlier, a mode of the same
lock that conflicts with the requested mode; and behind all those that it waits for in turn.

The relation is the one at the root of the chain of waiters: those who wait for a row of another
table, behind one who waits for the root, count for the root's relation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TypedDict

from pgdyno.probe._rows import MetricRow
from pgdyno.probe.statement_shapes import statement_shape

MODES = (
    *("AccessShareLock", "RowShareLock", "RowExclusiveLock", "ShareUpdateExclusiveLock"),
    *("ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"),
)
CONFLICT_ROWS = ("7", "67", "4567", "34567", "23567", "234567", "1234567", "01234567")
CONFLICTS = {
    mode: frozenset(MODES[int(index)] for index in row)
    for mode, row in zip(MODES, CONFLICT_ROWS, strict=True)
}
"""Table 13.2 of the manual, "Conflicting Lock Modes"; unknown modes conflict with all."""


class Lock(TypedDict):
    """A row of the query ``lock``."""

    pid: int
    target: str
    mode: str
    granted: bool
    wait_ms: float | None
    locktype: str
    relation: str | None
    statement: str | None
    state: str
    transaction_ms: float | None
    state_ms: float | None


Locks = Iterable[Lock]


def summarise(locks: Locks) -> MetricRow:
    """Return a row for metric_lock from the rows of the query ``lock``; zeros if none waits."""
    locks = list(locks)
    waiting = [lock for lock in locks if not lock["granted"]]
    summary: MetricRow = {"waiting": len(waiting), "behind_one_max": 0}
    if not waiting:
        return summary
    edges = blockers(locks)
    behind = followers(edges)
    root, crowd = max(behind.items(), key=lambda item: (len(item[1]), -item[0]), default=(0, set()))
    crowded = [lock for lock in locks if lock["pid"] in crowd] or waiting
    return summary | {
        "behind_one_max": len(crowd),
        "wait_ms_max": max((lock["wait_ms"] or 0.0 for lock in waiting), default=None),
        "lock_type": _commonest(lock["locktype"] for lock in crowded if not lock["granted"]),
        "relation": relation_at(root, locks, edges, behind)
        or _commonest(lock["relation"] for lock in crowded),
        "blocker_statement": _statement_of(root, locks),
    }


def blockers(locks: Locks) -> dict[int, set[int]]:
    """Return, by waiting backend, those that it waits for directly."""
    by_target = defaultdict(list)
    for lock in locks:
        by_target[lock["target"]].append(lock)
    edges: dict[int, set[int]] = {}
    for group in by_target.values():
        for lock in group:
            if not lock["granted"]:
                others = {other["pid"] for other in group if _stands_before(other, lock)}
                edges.setdefault(lock["pid"], set()).update(others - {lock["pid"]})
    return edges


def followers(edges: Mapping[int, set[int]]) -> dict[int, set[int]]:
    """Return, by backend that others wait for, all that wait, directly or behind one another.

    Deadlocks that PostgreSQL has not yet resolved are cycles; no backend is behind itself.
    """
    behind: dict[int, set[int]] = defaultdict(set)
    for waiter in edges:
        seen: set[int] = set()
        ahead = list(edges[waiter])
        while ahead:
            blocker = ahead.pop()
            if blocker not in seen:
                seen.add(blocker)
                ahead.extend(edges.get(blocker, ()))
        for blocker in seen - {waiter}:
            behind[blocker].add(waiter)
    return behind


def relation_at(
    root: int,
    locks: Locks,
    edges: Mapping[int, set[int]],
    behind: Mapping[int, set[int]],
) -> str | None:
    """Return the relation for which most backends wait, themselves or behind others, at the root.

    A root that waits itself is the last of a chain whose holder had ended when the locks were read.
    """
    first = {root} if root in edges else {pid for pid, ahead in edges.items() if root in ahead}
    waiters: Counter[str] = Counter()
    for lock in locks:
        # A waiter for the transaction that changed a row holds the row's tuple lock.
        waited_for = not lock["granted"] or lock["locktype"] == "tuple"
        if lock["relation"] and waited_for and lock["pid"] in first:
            waiters[lock["relation"]] += 1 + len(behind.get(lock["pid"], ()))
    return waiters.most_common(1)[0][0] if waiters else None


def _stands_before(other: Lock, waiter: Lock) -> bool:
    if waiter["mode"] in CONFLICTS and other["mode"] not in CONFLICTS[waiter["mode"]]:
        return False
    return bool(other["granted"] or (other["wait_ms"] or 0.0) > (waiter["wait_ms"] or 0.0))


def _commonest(values: Iterable[str | None]) -> str | None:
    ranked = Counter(value for value in values if value is not None).most_common(1)
    return ranked[0][0] if ranked else None


def _statement_of(pid: int, locks: Locks) -> str | None:
    texts = [lock["statement"] for lock in locks if lock["pid"] == pid and lock["statement"]]
    return statement_shape(texts[0]) if texts else None
