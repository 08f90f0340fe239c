"""Locks that backends wait for: a summary of each look, and the queues, summed per second.

A waiter is behind another backend when that backend holds, or requested earlier, a mode of the same
lock that conflicts with the requested mode; and behind all those that it waits for in turn. The
summary has the number that wait, and the backend in front. The relation is the one at the root of
the chain of waiters: those who wait for a row of another table, behind one who waits for the root,
count for the root's relation.

A queue is that of a backend for which others wait, without waiting itself: the blocker, with those
that wait for it, directly or behind one another. Queues are summed by the lock's kind, the table,
and the statements of the blocker and of those who wait. How many of the waiters are ``first`` in
line, and for how many different locks, tells queues apart: behind one hot row, one session waits
for the holder's transaction and all others for that row; behind a transaction that has changed many
rows, each waiter is the first in line for another row.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypedDict

from pgdyno.probe.statement_shapes import statement_shape
from pgdyno.record.fileformat import MetricRow
from pgdyno.wait_events import ROW_LOCKS

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
QUEUES_MAX = 8
"""Queues that are recorded of one look, the longest first."""
_SUMS = ("seen", "waiting", "first", "places", "blocker_transaction_ms", "blocker_state_ms")


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
    ranked = Counter(value for value in values if value).most_common(1)
    return ranked[0][0] if ranked else None


def _statement_of(pid: int, locks: Locks) -> str | None:
    texts = [lock["statement"] for lock in locks if lock["pid"] == pid and lock["statement"]]
    return statement_shape(texts[0]) if texts else None


class _Key(NamedTuple):
    lock_type: str
    mode: str
    relation: str | None
    blocker_state: str
    blocker: str | None
    waiting: str | None
    first: str | None
    """Statement of the first in line for a relation; for other locks all want the same."""


class LockQueues:
    """Sums of looks since the last rows were taken out."""

    def __init__(self) -> None:
        self._sums: dict[_Key, Counter[str]] = {}
        self._wait_ms_max: dict[_Key, float] = {}
        self._looks = 0

    def see(self, locks: Iterable[Lock]) -> None:
        """Add a look: the rows of the query ``lock``."""
        self._looks += 1
        for key, figures, wait_ms in _queues(list(locks)):
            self._sums.setdefault(key, Counter()).update(figures)
            self._wait_ms_max[key] = max(wait_ms, self._wait_ms_max.get(key, 0.0))

    def take(self, statement_id: Callable[[str], int]) -> list[MetricRow]:
        """Return the rows of table lock_queue, and start again from nothing."""
        rows = [self._row(key, sums, statement_id) for key, sums in self._sums.items()]
        self._sums.clear()
        self._wait_ms_max.clear()
        self._looks = 0
        return rows

    def _row(
        self, key: _Key, sums: Mapping[str, float], statement_id: Callable[[str], int]
    ) -> MetricRow:
        row: MetricRow = {
            "looks": self._looks,
            "lock_type": key.lock_type,
            "mode": key.mode,
            "relation": key.relation,
            "blocker_state": key.blocker_state,
            "blocker_statement_id": statement_id(key.blocker) if key.blocker else None,
            "waiting_statement_id": statement_id(key.waiting) if key.waiting else None,
            "first_statement_id": statement_id(key.first) if key.first else None,
            "wait_ms_max": self._wait_ms_max[key],
        }
        return row | {name: sums[name] for name in _SUMS}


def _queues(locks: Locks) -> Iterator[tuple[_Key, Mapping[str, float], float]]:
    """Return key, figures and longest wait of each queue, the longest queue first."""
    locks = list(locks)
    edges = blockers(locks)
    behind = followers(edges)
    for root in _roots(edges, behind)[:QUEUES_MAX]:
        crowd = behind[root]
        first = {pid for pid in crowd if root in edges[pid]}
        waits = [lock for lock in locks if not lock["granted"] and lock["pid"] in crowd]
        heads = [lock for lock in waits if lock["pid"] in first]
        for_rows = heads[0]["locktype"] in ROW_LOCKS
        wanted = _rows_of(crowd, locks) if for_rows else []
        places = _rows_of(first, locks) if for_rows else []
        holder = next((lock for lock in locks if lock["pid"] == root), None)
        key = _Key(
            lock_type=heads[0]["locktype"],
            mode=_commonest(lock["mode"] for lock in wanted or heads) or "",
            relation=relation_at(root, locks, edges, behind),
            blocker_state=_state(root, edges, crowd) or (holder["state"] if holder else ""),
            blocker=_shape(holder["statement"]) if holder else None,
            waiting=_shape(_commonest(lock["statement"] for lock in waits)),
            first=_shape(_first_in_line(heads)),
        )
        figures = {
            "seen": 1,
            "waiting": len(crowd),
            "first": len(first),
            "places": len({lock["target"] for lock in places or heads}),
            "blocker_transaction_ms": (holder and holder["transaction_ms"]) or 0.0,
            "blocker_state_ms": (holder and holder["state_ms"]) or 0.0,
        }
        yield key, figures, max((lock["wait_ms"] or 0.0 for lock in waits), default=0.0)


def _roots(edges: Mapping[int, set[int]], behind: Mapping[int, set[int]]) -> list[int]:
    """Return the backends at the head of the queues, that of the longest queue first.

    They do not wait themselves. Where a holder has just ended, or in a deadlock, all wait: then the
    one with most behind it.
    """
    longest_first = sorted(behind, key=lambda pid: (-len(behind[pid]), pid))
    roots = [pid for pid in longest_first if pid not in edges]
    covered = set(roots).union(*(behind[root] for root in roots))
    for pid in longest_first:
        if pid not in covered:
            roots.append(pid)
            covered |= {pid} | behind[pid]
    return roots


def _state(root: int, edges: Mapping[int, set[int]], crowd: set[int]) -> str:
    """Return "deadlock" or "waiting" for a backend that waits itself, else ''."""
    if root not in edges:
        return ""
    return "deadlock" if edges[root] & crowd else "waiting"


def _first_in_line(heads: Iterable[Lock]) -> str | None:
    """Return the statement that has waited longest of those that wait for a relation."""
    tables = [lock for lock in heads if lock["locktype"] == "relation"]
    longest = max(tables, key=lambda lock: lock["wait_ms"] or 0.0, default=None)
    return longest["statement"] if longest else None


def _rows_of(waiters: set[int], locks: Iterable[Lock]) -> list[Lock]:
    """Return the locks on rows that the waiters hold or wait for."""
    return [lock for lock in locks if lock["locktype"] == "tuple" and lock["pid"] in waiters]


def _shape(statement: str | None) -> str | None:
    return statement_shape(statement) if statement else None
