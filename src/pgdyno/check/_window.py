"""The window of a check: probes record a server under the load of others, without a load of ours.

All that is recorded has the form of a run's; its load is the server's own count (see
``facts.observed``). Sessions of pgdyno are read-only, and their statements end after two
seconds. The waits are looked at up to a hundred times a second, as often as ``TICK_SHARE_MAX`` of
one core allows, and the views once a second, or as often as ``SAMPLE_SHARE_MAX`` allows: with
thousands of sessions each look takes long.

Counts of statements are differences of pg_stat_statements: read without texts, before and after;
texts only of those that took the most time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pgdyno.check._reach import Reached, check_same_server, session
from pgdyno.probe import Pace, Probes
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
from pgdyno.record import Recorder, SliceKind
from pgdyno.record.events import note_missing
from pgdyno.server import ConnInfo
from pgdyno.server.connecting.complaints import primary
from pgdyno.server.extensions import STATEMENTS

if TYPE_CHECKING:
    import psycopg


TICK_SHARE_MAX = 0.006
SAMPLE_SHARE_MAX = 0.01
"""Of the time until the answer, of which the server's work is a part: a second's pause for 10 ms,
more than a server with some hundred sessions takes."""
PACE = Pace(
    tick_every_s=0.01,
    sample_share_max=SAMPLE_SHARE_MAX,
    tick_share_max=TICK_SHARE_MAX,
    of_others=True,
)
_STEP_S = 0.1


class Window:
    """Probes on a server, for one period or several. A context manager."""

    def __init__(
        self,
        reached: Reached,
        recorder: Recorder,
        note: Callable[[str], None],
        pace: Pace = PACE,
    ) -> None:
        self._reached = reached
        self._recorder = recorder
        self._counts = StatementCounts(reached.conninfo)
        self._probes = Probes(
            reached.conninfo,
            recorder,
            local=bool(reached.facts.get("is_local")),
            postmaster_pid=reached.facts.get("postmaster_pid"),
            data_dir=data_dir_of(reached),
            warn=note,
            pace=pace,
        )

    def __enter__(self) -> Self:
        self._probes.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._probes.stop()

    def watch(self, seconds: float) -> int:
        """Record ``seconds`` of the server's load in a slice, and return its id. Raises SetupError
        as :meth:`recording` does."""
        with self.recording() as slice_id:
            ends_s = time.monotonic() + seconds
            while (left_s := ends_s - time.monotonic()) > 0:
                time.sleep(min(_STEP_S, left_s))
        return slice_id

    @contextmanager
    def recording(self) -> Iterator[int]:
        """Record the server's load in a slice that lasts as long as the block, and yield its id.
        Raises SetupError if the server does not answer at the end, or was restarted meanwhile."""
        self._counts.begin()
        slice_id = self._recorder.open_slice(SliceKind.RUN)
        self._probes.sample_now()
        yield slice_id
        self._probes.sample_now()
        self._recorder.close_slice(slice_id)
        check_same_server(self._reached)
        self._counts.end(self._recorder, slice_id)
        if why := self._counts.why_missing:
            note_missing(self._recorder, STATEMENTS, why)


def data_dir_of(reached: Reached) -> Path | None:
    """Return the data directory if it is known and on this machine."""
    known = reached.facts.get("data_directory")
    return Path(known) if known and reached.facts.get("is_local") else None


T = TypeVar("T")


class StatementCounts:
    """The counts of pg_stat_statements: read at the start of the window, recorded at its end."""

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
        """Return the rows that ``work`` reads; None, and the reason, if it cannot read them."""
        import psycopg

        try:
            with session(self._conninfo) as connection:
                return work(connection, source_of(connection))
        except StatementsUnavailable as problem:
            self.why_missing = problem.why
        except psycopg.Error as problem:
            self.why_missing = primary(problem)
        return None
