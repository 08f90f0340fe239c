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

from pgdyno.probe.lock_modes import conflict, strength
from pgdyno.probe.statement_shapes import statement_shape
from pgdyno.record import LockLink
from pgdyno.record.fileformat import MetricRow
from pgdyno.wait_events import ROW_LOCKS

QUEUES_MAX = 8
"""Queues that are recorded of one look, the longest first."""
_SUMS = (
    *("seen", "waiting", "first", "places", "behind_request", "blocker_transaction_ms"),
    "blocker_state_ms",
)
_MAXIMA = ("wait_ms_max", "blocker_transaction_ms_max")


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
    backend_type: str
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
    if not conflict(waiter["mode"], other["mode"]):
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
    blocker_type: str
    blocker_mode: str | None
    blocker: str | None
    waiting: str | None
    waiting_mode: str | None
    links: tuple[LockLink, ...]


class Ids(NamedTuple):
    """Functions that give the ids by which a queue refers to statements and to links."""

    statement: Callable[[str], int]
    link: Callable[[LockLink, int | None], int]


class _Sums:
    """Sums over the looks at queues with one key."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self.maxima: dict[str, float] = dict.fromkeys(_MAXIMA, 0.0)
        self.pids: set[int] = set()

    def add(self, look: _Look) -> None:
        self.totals.update(look.figures)
        for name, value in look.maxima.items():
            self.maxima[name] = max(value, self.maxima[name])
        self.pids.add(look.blocker_pid)


class _Look(NamedTuple):
    """A queue in one look."""

    figures: Mapping[str, float]
    maxima: Mapping[str, float]
    blocker_pid: int


class LockQueues:
    """Sums of looks since the last rows were taken out."""

    def __init__(self) -> None:
        self._sums: dict[_Key, _Sums] = {}
        self._looks = 0

    def see(self, locks: Iterable[Lock]) -> None:
        """Add a look: the rows of the query ``lock``."""
        self._looks += 1
        for key, look in _queues(list(locks)):
            self._sums.setdefault(key, _Sums()).add(look)

    def take(self, ids: Ids) -> list[MetricRow]:
        """Return the rows of table lock_queue, and start again from nothing."""
        rows = [self._row(key, sums, ids) for key, sums in self._sums.items()]
        self._sums.clear()
        self._looks = 0
        return rows

    def _row(self, key: _Key, sums: _Sums, ids: Ids) -> MetricRow:
        link_id: int | None = None
        for link in key.links:
            link_id = ids.link(link, link_id)
        row: MetricRow = {
            "looks": self._looks,
            "lock_type": key.lock_type,
            "mode": key.mode,
            "relation": key.relation,
            "blocker_state": key.blocker_state,
            "blocker_type": key.blocker_type,
            "blocker_mode": key.blocker_mode,
            "blocker_pid": min(sums.pids) if len(sums.pids) == 1 else None,
            "blocker_statement_id": ids.statement(key.blocker) if key.blocker else None,
            "link_id": link_id,
            "waiting_statement_id": ids.statement(key.waiting) if key.waiting else None,
            "waiting_mode": key.waiting_mode,
        }
        return row | sums.maxima | {name: sums.totals[name] for name in _SUMS}


def _queues(locks: list[Lock]) -> Iterator[tuple[_Key, _Look]]:
    """Yield key and figures of each queue, the longest queue first."""
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
        state = _state(root, edges, crowd)
        between = [] if state == "deadlock" else _between(root, crowd, edges, behind)
        links = tuple(_links(between, locks))
        last = [lock for lock in waits if lock["pid"] not in between[: len(links)]]
        key = _Key(
            lock_type=heads[0]["locktype"],
            mode=_commonest(lock["mode"] for lock in wanted or heads) or "",
            relation=relation_at(root, locks, edges, behind),
            blocker_state=state or (holder["state"] if holder else ""),
            blocker_type=holder["backend_type"] if holder else "",
            blocker_mode=_mode_in_the_way(root, heads, locks),
            blocker=_shape(holder["statement"]) if holder else None,
            waiting=_shape(_commonest(lock["statement"] for lock in last)),
            waiting_mode=max((lock["mode"] for lock in last), key=strength) if links else None,
            links=links,
        )
        transaction_ms = (holder and holder["transaction_ms"]) or 0.0
        figures = {
            "seen": 1,
            "waiting": len(crowd),
            "first": len(first),
            "places": len({lock["target"] for lock in places or heads}),
            "behind_request": sum(_is_behind_request(lock, locks) for lock in waits),
            "blocker_transaction_ms": transaction_ms,
            "blocker_state_ms": (holder and holder["state_ms"]) or 0.0,
        }
        maxima = {
            "wait_ms_max": max((lock["wait_ms"] or 0.0 for lock in waits), default=0.0),
            "blocker_transaction_ms_max": transaction_ms,
        }
        yield key, _Look(figures, maxima, root)


def _between(
    root: int, crowd: set[int], edges: Mapping[int, set[int]], behind: Mapping[int, set[int]]
) -> list[int]:
    """Return the waiters that keep most of the others waiting who do not wait for ``root`` or for
    one another of them directly, that next to ``root`` first."""
    found: list[int] = []
    ahead, rest = root, set(crowd)
    while True:
        direct = {pid for pid in rest if ahead in edges[pid]}
        rest -= direct
        ahead = max(direct, key=lambda pid: _weight(pid, behind, rest), default=root)
        rest &= behind.get(ahead, set())
        if not direct or not rest:
            return found
        found.append(ahead)


def _weight(pid: int, behind: Mapping[int, set[int]], among: set[int]) -> tuple[int, int]:
    """Return how many of those ``among`` wait for a backend; of equals the lower process first."""
    return len(behind.get(pid, set()) & among), -pid


def _links(between: Iterable[int], locks: Iterable[Lock]) -> Iterator[LockLink]:
    """Yield what each of these waiters wants, and what it holds that others wait for, up to the
    first of which both are locks on rows."""
    for pid in between:
        mine = [lock for lock in locks if lock["pid"] == pid]
        wanted = next(lock for lock in mine if not lock["granted"])
        asked = {lock["target"] for lock in locks if not lock["granted"] and lock["pid"] != pid}
        held = [lock for lock in mine if lock["granted"] and lock["target"] in asked]
        holds = max(held, key=lambda lock: strength(lock["mode"]), default=None)
        if wanted["locktype"] in ROW_LOCKS and (holds is None or holds["locktype"] in ROW_LOCKS):
            return
        yield LockLink(
            statement=_shape(wanted["statement"]),
            backend_type=wanted["backend_type"],
            lock_type=wanted["locktype"],
            mode=wanted["mode"],
            relation=wanted["relation"],
            held_type=holds["locktype"] if holds else None,
            held_mode=holds["mode"] if holds else None,
            held_relation=holds["relation"] if holds else None,
        )


def _mode_in_the_way(root: int, heads: Iterable[Lock], locks: Iterable[Lock]) -> str | None:
    """Return the strongest mode in which ``root`` holds what the first in line wait for."""
    wanted = {lock["target"] for lock in heads}
    held = [lock for lock in locks if lock["pid"] == root and lock["granted"]]
    modes = (lock["mode"] for lock in held if lock["target"] in wanted)
    return max(modes, key=strength, default=None)


def _is_behind_request(waiter: Lock, locks: Iterable[Lock]) -> bool:
    """True if nobody holds the lock in a mode that conflicts with the one wanted: only the requests
    of others, who wait too, are in the way."""
    return not any(
        other["granted"] and conflict(waiter["mode"], other["mode"])
        for other in locks
        if other["target"] == waiter["target"] and other["pid"] != waiter["pid"]
    )


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


def _rows_of(waiters: set[int], locks: Iterable[Lock]) -> list[Lock]:
    """Return the locks on rows that the waiters hold or wait for."""
    return [lock for lock in locks if lock["locktype"] == "tuple" and lock["pid"] in waiters]


def _shape(statement: str | None) -> str | None:
    return statement_shape(statement) if statement else None
