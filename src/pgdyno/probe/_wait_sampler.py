"""Samples states and waits of the server's processes ten times a second, per second and slice.

The table has the rows needed for "average active sessions": client backends in every state, and
background processes except when idle in their main loop. Each batch has a row for active clients
that do not wait, even with count 0, so that every batch has its number of ticks.
"""

from __future__ import annotations

import time
from collections import Counter

from pgdyno.probe._checkpoints import CheckpointWatch
from pgdyno.probe._link import Link, Row
from pgdyno.probe._rows import MetricRow
from pgdyno.probe.gaps import Gaps
from pgdyno.probe.waits import statement_shape
from pgdyno.record import Recorder

BATCH_NS = 1_000_000_000
Key = tuple[str, str, str, str, str | None]
RUNNING: Key = ("client backend", "active", "", "", None)


class WaitSampler:
    """Samples through one link and writes to wait_sample, for one thread at a time."""

    def __init__(self, link: Link, recorder: Recorder, watch: CheckpointWatch, gaps: Gaps) -> None:
        self._link = link
        self._gaps = gaps
        self._recorder = recorder
        self._watch = watch
        self._counts: Counter[Key] = Counter()
        self._ticks = 0
        self._began_ns = self._last_ns = 0
        self._slice_id: int | None = None

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
        for row in answers["wait"]:
            self._take(ns, row)
        self._gaps.back("waits")

    def flush(self) -> None:
        """Write the samples since the last flush."""
        if self._ticks:
            self._counts.setdefault(RUNNING, 0)
            rows = [self._row(key, count) for key, count in self._counts.items()]
            self._recorder.add_rows("wait_sample", rows, ns=self._last_ns, slice_id=self._slice_id)
        self._counts.clear()
        self._ticks = 0

    def _take(self, ns: int, row: Row) -> None:
        if row["backend_type"] == "checkpointer":
            self._watch.see_wait(ns, row["wait_event_type"], row["wait_event"])
        if row["wait_event_type"] != "Activity":
            statement = statement_shape(row["statement"]) if row["statement"] else None
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
