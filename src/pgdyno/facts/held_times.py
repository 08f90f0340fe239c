"""Times in which a queue for a lock held the load: what else went on then did not slow it down."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import median

from pgdyno.record import RunFile
from pgdyno.record.fileformat import CLIENT_BACKEND
from pgdyno.wait_events import IN_TRANSACTION

HELD_WAIT_MS = 1000.0
"""A queue in which somebody waited for so long: a whole second of load was no longer that of the
holder's and the waiters' taking turns."""
HELD_SHARE = 0.15
"""Part of the client sessions in a transaction that such a queue has at least; the share of waiting
sessions from which on a lock is a finding."""
LOOK_MS = 1000.0
"""Queues are recorded once a second: one that was seen may last for so long after it."""
Span = tuple[float, float]
"""Beginning and end, in ms of the run."""


def held_spans(run: RunFile, slice_ids: Collection[int]) -> list[Span]:
    """Return the times in which at least ``HELD_SHARE`` of the sessions waited in one queue, the
    longest of them for ``HELD_WAIT_MS`` or more, from the beginning of its wait."""
    rows = run.samples("lock_queue", slice_ids)
    long = [row for row in rows if row["wait_ms_max"] >= HELD_WAIT_MS and row["seen"]]
    if not long:
        return []
    at_work = _sessions_at_work(run, slice_ids)
    usual = median(at_work.values()) if at_work else 0.0
    return [
        (row["at_ms"] - row["wait_ms_max"], row["at_ms"] + LOOK_MS)
        for row in long
        if row["waiting"] / row["seen"] >= HELD_SHARE * at_work.get(row["at_ms"], usual)
    ]


def _sessions_at_work(run: RunFile, slice_ids: Collection[int]) -> dict[int, float]:
    """Return the client sessions in a transaction by the time of the samples, which is that of the
    queues until both are rolled up."""
    seen = run.wait_series(slice_ids)
    sums: dict[int, float] = {}
    columns = (seen[name] for name in ("at_ms", "backend_type", "state", "average"))
    for at_ms, backend_type, state, average in zip(*columns, strict=True):
        if backend_type == CLIENT_BACKEND and state in IN_TRANSACTION:
            sums[int(at_ms)] = sums.get(int(at_ms), 0.0) + float(average)
    return sums


def is_held(spans: Sequence[Span], from_ms: float, to_ms: float) -> bool:
    """Return whether a queue held the load at a time between the two."""
    return any(began < to_ms and from_ms < ended for began, ended in spans)
