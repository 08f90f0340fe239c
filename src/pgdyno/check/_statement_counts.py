"""Statements of others in the window of a check: differences of pg_stat_statements.

Counts are read without texts, before and after; texts only of those that took the most time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pgdyno.check._reach import session
from pgdyno.probe.statements import (
    KEPT,
    Counts,
    StatementSource,
    StatementsUnavailable,
    busiest,
    read_counts,
    read_shapes,
    risen,
    source_of,
)
from pgdyno.record import Recorder
from pgdyno.server import ConnInfo
from pgdyno.server.connecting.complaints import primary

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")


class StatementCounts:
    """The counts of pg_stat_statements at the start of the window, and what comes of them."""

    def __init__(self, conninfo: ConnInfo) -> None:
        self._conninfo = conninfo
        self._before: Counts | None = None
        self._before_ns = 0
        self.why_missing = ""
        """Reason why there are none."""

    def begin(self) -> None:
        """Read the counts at the start."""
        self._before = self._ask(read_counts)
        self._before_ns = time.monotonic_ns()

    def end(self, recorder: Recorder, slice_id: int) -> None:
        """Record the differences since ``begin`` of the statements that took the most time."""
        before = self._before
        if before is None:
            return

        def record(connection: psycopg.Connection[Any], source: StatementSource) -> None:
            rises = risen(before, read_counts(connection, source))
            duration_ms = (time.monotonic_ns() - self._before_ns) / 1e6
            chosen = busiest(rises)[:KEPT]
            shapes = read_shapes(connection, source, chosen)
            rows = [
                {
                    **rises[key],
                    "statement_id": recorder.statement_id(shapes[key]),
                    "duration_ms": duration_ms,
                }
                for key in chosen
                if shapes.get(key)
            ]
            recorder.add_rows("statement_count", rows, ns=self._before_ns, slice_id=slice_id)

        self._ask(record)

    def _ask(self, work: Callable[[psycopg.Connection[Any], StatementSource], T]) -> T | None:
        """Return what ``work`` reads; None, and the reason, if it cannot be read."""
        import psycopg

        try:
            with session(self._conninfo) as connection:
                return work(connection, source_of(connection))
        except StatementsUnavailable as problem:
            self.why_missing = problem.why
        except psycopg.Error as problem:
            self.why_missing = primary(problem)
        return None
