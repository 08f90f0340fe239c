"""Samples states and waits of the server's processes ten times a second, per second and slice.

While a client waits for a heavyweight lock, the lock queues are looked at up to five times a
second.

The table has the rows needed for "average active sessions": client backends in every state, and
background processes except when idle in their main loop. Each batch has a row for active clients
that do not wait, even with count 0, so that every batch has its number of ticks.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import cast

from pgdyno.json_types import Row
from pgdyno.probe._checkpoints import CheckpointWatch
from pgdyno.probe._link import Link
from pgdyno.probe._locks import Ids, Lock, LockQueues
from pgdyno.probe.gaps import Gaps
from pgdyno.probe.statement_shapes import shape_with_page
from pgdyno.record import Recorder
from pgdyno.record.fileformat import CLIENT_BACKEND, MetricRow

BATCH_NS = 1_000_000_000
LOOK_EVERY_NS = 180_000_000
"""Least time between two looks at the lock queues; a little less than two ticks."""
LOOK_EVERY_NS_MAX = 1_000_000_000
LOOK_SHARE_MAX = 0.02
"""Part of the time that looks take. With hundreds of waiting sessions, or on a busy machine, a look
takes 10 ms and more, and there are fewer of them, down to one a second."""
Key = tuple[str, str, str, str, str | None]
RUNNING: Key = (CLIENT_BACKEND, "active", "", "", None)


class WaitSampler:
    """Samples through one link and writes to wait_sample, for one thread at a time."""

    def __init__(self, link: Link, recorder: Recorder, watch: CheckpointWatch, gaps: Gaps) -> None:
        self._link = link
        self._gaps = gaps
        self._recorder = recorder
        self._watch = watch
        self._counts: Counter[Key] = Counter()
        self._queues = LockQueues()
        self._next_look_ns = 0
        self._ticks = 0
        self._began_ns = self._last_ns = 0
        self._slice_id: int | None = None
        self.took_s = 0.0
        """Time that the server took for the last sample."""

    def tick(self) -> None:
        """Take one sample, unless the server is away or the slice changed meanwhile."""
        slice_id = self._recorder.current_slice
        asked_ns = time.monotonic_ns()
        answers = self._link.fetch(["wait"])
        ns = (asked_ns + time.monotonic_ns()) // 2
        if answers is None:
            self._gaps.lost("waits", self._link.why_away)
            return
        if "wait" not in answers or self._recorder.current_slice != slice_id:
            return
        if slice_id != self._slice_id or ns - self._began_ns >= BATCH_NS:
            self.flush()
            self._slice_id, self._began_ns = slice_id, ns
        self._ticks += 1
        self._last_ns = ns
        self.took_s = max((row["took_s"] for row in answers["wait"]), default=self.took_s)
        for row in answers["wait"]:
            self._take(ns, row)
        if any(row["wait_event_type"] == "Lock" for row in answers["wait"]):
            self._look(ns)
        self._gaps.back("waits")

    def flush(self) -> None:
        """Write the samples since the last flush."""
        if self._ticks:
            self._counts.setdefault(RUNNING, 0)
            rows = [self._row(key, count) for key, count in self._counts.items()]
            self._recorder.add_rows("wait_sample", rows, ns=self._last_ns, slice_id=self._slice_id)
            ids = Ids(self._recorder.statement_id, self._recorder.lock_link_id)
            queues = self._queues.take(ids)
            self._recorder.add_rows("lock_queue", queues, ns=self._last_ns, slice_id=self._slice_id)
        self._counts.clear()
        self._ticks = 0

    def _look(self, ns: int) -> None:
        """Look at the lock queues, unless that was done only just now."""
        if ns < self._next_look_ns:
            return
        began_ns = time.monotonic_ns()
        answers = self._link.fetch(["lock"]) or {}
        if answers.get("lock"):
            self._queues.see(cast("list[Lock]", answers["lock"]))
        pause_ns = round((time.monotonic_ns() - began_ns) / LOOK_SHARE_MAX)
        self._next_look_ns = ns + min(LOOK_EVERY_NS_MAX, max(LOOK_EVERY_NS, pause_ns))

    def _take(self, ns: int, row: Row) -> None:
        if row["backend_type"] == "checkpointer":
            self._watch.see_wait(ns, row["wait_event_type"], row["wait_event"])
        if row["wait_event_type"] != "Activity":
            statement = shape_with_page(row["statement"]) if row["statement"] else None
            what = row["backend_type"], row["state"], row["wait_event_type"], row["wait_event"]
            self._counts[*what, statement] += row["count"]

    def _row(self, key: Key, count: int) -> MetricRow:
        backend_type, state, wait_event_type, wait_event, statement = key
        return {
            "ticks": self._ticks,
            "backend_type": backend_type,
            "state": state,
            "wait_event_type": wait_event_type,
            "wait_event": wait_event,
            "statement_id": self._recorder.statement_id(statement) if statement else None,
            "count": count,
        }
