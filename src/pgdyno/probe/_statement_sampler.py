"""Statements by pg_stat_statements during a run: what each reading has more than the one before.

It is read once a second, with thousands of statements as often as ``SHARE_MAX`` of the time allows,
and at the edges of slices. What lies between two readings belongs to the slice that was open at the
first of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgdyno.probe._budget import LookBudget
from pgdyno.probe._link import FAILURES_MAX, Link
from pgdyno.probe.gaps import MissingProbes
from pgdyno.probe.statements import (
    Counts,
    Rise,
    StatementSource,
    StatementsUnavailable,
    busiest,
    by_shape,
    evictions,
    read_counts,
    read_shapes,
    risen,
    source_of,
)
from pgdyno.record import Recorder
from pgdyno.server.extensions import STATEMENTS

if TYPE_CHECKING:
    import psycopg

SHARE_MAX = 0.01
"""Of the time, for readings; 5,000 statements take about 10 ms."""
PAUSE_S_MAX = 10.0
TEXTS_MAX = 300
"""Statements whose texts one reading asks for; the file of all texts is read for it."""

SHAPES_MAX = 50_000
"""Texts that are remembered, where statements are thrown out and new ones come all the time."""


class StatementSampler:
    """Sampler that reads through a link and writes the table statement_count. Not thread-safe."""

    def __init__(
        self,
        link: Link,
        recorder: Recorder,
        missing: MissingProbes,
        warn: Callable[[str], None],
    ) -> None:
        """``warn`` is told once if the counts cannot be read."""
        self._link = link
        self._warn = warn
        self._failures = 0
        self._recorder = recorder
        self._missing = missing
        self._budget = LookBudget(SHARE_MAX, PAUSE_S_MAX)
        self._source: StatementSource | None = None
        self._connections = 0
        self._before: Counts | None = None
        self._before_ns = 0
        self._slice_id: int | None = None
        self._shapes: dict[str, str] = {}
        self._evictions: int | None = None

    def sample(self, *, full: bool) -> None:
        """Read the counts if that is due, or ``full``, and record their increase."""
        import psycopg

        if STATEMENTS in self._missing or not (full or self._budget.is_due):
            return
        began_s = time.monotonic()
        try:
            self._link.use(self._read if not full else self._read_with_evictions)
            self._failures = 0
        except StatementsUnavailable as problem:
            self._give_up(f"{problem.why}; to allow it: {problem.allow}")
        except psycopg.Error as problem:
            self._failures += 1
            if self._failures >= FAILURES_MAX:
                self._give_up(problem.diag.message_primary or str(problem))
        self._budget.spend(began_s, time.monotonic() - began_s)

    def _give_up(self, why: str) -> None:
        self._missing.add(STATEMENTS, why)
        self._warn(f"warning: no statements of the server: {why}")

    def _read(self, connection: psycopg.Connection[Any]) -> None:
        if self._source is None or self._connections != self._link.connections:
            self._source = source_of(connection)
            self._connections = self._link.connections
        slice_id, asked_ns = self._recorder.current_slice, time.monotonic_ns()
        counts = read_counts(connection, self._source)
        ns = (asked_ns + time.monotonic_ns()) // 2
        if self._before is not None and self._slice_id is not None:
            rises = risen(self._before, counts)
            self._learn_shapes(connection, rises)
            self._record(rises, ns)
        self._before, self._before_ns, self._slice_id = counts, ns, slice_id

    def _read_with_evictions(self, connection: psycopg.Connection[Any]) -> None:
        within = self._slice_id
        self._read(connection)
        assert self._source is not None
        earlier, self._evictions = self._evictions, evictions(connection, self._source)
        if within is not None and earlier is not None and self._evictions > earlier:
            detail = {"probe": STATEMENTS, "count": self._evictions - earlier}
            label = f"{STATEMENTS} threw out statements"
            row = {"kind": "probe", "label": label, "detail": detail}
            self._recorder.add_rows("event", [row], slice_id=within)

    def _learn_shapes(self, connection: psycopg.Connection[Any], rises: dict[str, Rise]) -> None:
        assert self._source is not None
        new = [key for key in busiest(rises) if key not in self._shapes][:TEXTS_MAX]
        if len(self._shapes) > SHAPES_MAX:
            self._shapes = {key: text for key, text in self._shapes.items() if key in rises}
        if new:
            self._shapes |= read_shapes(connection, self._source, new)

    def _record(self, rises: dict[str, Rise], ns: int) -> None:
        duration_ms = (ns - self._before_ns) / 1e6
        rows = [
            {
                **rise,
                "statement_id": self._recorder.statement_id(shape),
                "duration_ms": duration_ms,
            }
            for shape, rise in by_shape(rises, self._shapes)
        ]
        self._recorder.add_rows(
            "statement_count", rows, ns=self._before_ns, slice_id=self._slice_id
        )
