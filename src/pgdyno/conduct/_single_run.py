"""A single run: the ramp or load steps, the hold, the spec's events at their times, the drain."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg

from pgdyno.conduct._session import Session
from pgdyno.conduct.plan_look import look_at_first_plans
from pgdyno.errors import Interrupted
from pgdyno.record import SliceKind
from pgdyno.server import connect_plain
from pgdyno.spec import Event
from pgdyno.spec.branches import BranchEvent
from pgdyno.spec.load import LoadSpec


def carry_out(session: Session) -> list[int]:
    """Carry out the session's spec. Returns the ids of the slices that hold its measurement.

    The ramp is a separate slice (kind ``ramp``) and not part of the measurement; with load steps,
    the whole load is measured.
    """
    load = session.spec.load
    if load.transactions and not load.ramp_ms:
        return [_carry_out_counted(session)]
    started_ns = session.start_load(scheduled=True)
    with _event_statements(session) as statements:
        if not load.steps:
            started_ns = _begun_ns(session, started_ns, statements)
        timeline = _Timeline(session, started_ns, statements, since_ms=load.ramp_ms)
        session.watcher.phase(_measuring(load), load.hold_ms / 1000)
        with session.measured(SliceKind.RUN) as slice_id:
            timeline.run_until(load.ramp_ms + load.hold_ms)
    session.watcher.phase("finishing")
    session.stop_load()
    return [slice_id]


def carry_on(
    session: Session,
    done_ms: int,
    *,
    slice_ms: int,
    every_s: float,
    goes_on: Callable[[float], bool],
) -> None:
    """Carry out what is left of the session's spec after ``done_ms`` of its measurement, in slices
    of ``slice_ms``, the last of them half as long to half as long again.

    The ramp comes first, each time. Each ``every_s`` ``goes_on`` is given the
    seconds measured in all; if it returns False, the measurement ends.
    """
    load = session.spec.load
    stopped: Interrupted | None = None
    seed = None if load.seed is None else load.seed + done_ms
    started_ns = session.start_load(scheduled=True, seed=seed)
    with _event_statements(session) as statements:
        _begun_ns(session, started_ns, statements, since_ms=done_ms)
        session.watcher.phase(f"measuring for {(load.hold_ms - done_ms) / 1000:g} s")
        with session.measured_in_slices(SliceKind.RUN) as turn:
            before_ms = load.ramp_ms + done_ms
            timeline = _Timeline(
                session,
                time.monotonic_ns() - before_ms * 1_000_000,
                statements,
                since_ms=before_ms,
            )
            at_ms = began_ms = done_ms
            try:
                while at_ms < load.hold_ms and goes_on(at_ms / 1000):
                    if at_ms - began_ms >= slice_ms and load.hold_ms - at_ms >= slice_ms / 2:
                        turn()
                        began_ms = at_ms
                    at_ms = min(at_ms + round(1000 * every_s), load.hold_ms)
                    timeline.run_until(load.ramp_ms + at_ms)
            except Interrupted as stop:  # The slice ends before the clients disconnect.
                stopped = stop
        if stopped is not None:
            raise stopped
    session.watcher.phase("finishing")
    session.stop_load()


def _begun_ns(
    session: Session, started_ns: int, statements: _EventStatements, *, since_ms: int = 0
) -> int:
    """Ramp the load up, with the events after ``since_ms``, or wait until its clients are
    connected, and look at the first plans; return time zero of what follows."""
    load = session.spec.load
    if load.ramp_ms:
        session.watcher.phase(f"ramping up over {load.ramp_ms / 1000:g} s", load.ramp_ms / 1000)
        timeline = _Timeline(session, started_ns, statements, since_ms=since_ms)
        with session.measured(SliceKind.RAMP):
            timeline.run_until(load.ramp_ms)
    else:
        session.wait_connected()
    look_at_first_plans(session)
    return time.monotonic_ns() - load.ramp_ms * 1_000_000


def _carry_out_counted(session: Session) -> int:
    """Have each client execute its transactions, all of them measured; return the slice's id."""
    load = session.spec.load
    session.watcher.phase(_measuring(load))
    with (
        session.measured_from_start(SliceKind.RUN) as (slice_id, started_ns),
        _event_statements(session) as statements,
    ):
        _Timeline(session, started_ns, statements).run_until(load.hold_ms)
    session.watcher.phase("finishing")
    session.stop_load()
    return slice_id


def measure_with_events(
    session: Session, events: Sequence[BranchEvent], *, lead_ms: int
) -> list[int]:
    """Measure the running load for the spec's hold, with ``events``; return the ids of the slices:
    of the first ``lead_ms``, if that is any time, and of the rest."""
    hold_ms = session.spec.load.hold_ms
    ids = []
    with _event_statements(session) as statements:
        timeline = _Timeline(session, time.monotonic_ns(), statements, events=events)
        if lead_ms:
            with session.measured(SliceKind.LEAD) as slice_id:
                timeline.run_until(lead_ms)
            ids.append(slice_id)
        with session.measured(SliceKind.BRANCH) as slice_id:
            timeline.run_until(hold_ms)
        ids.append(slice_id)
    return ids


def _measuring(load: LoadSpec) -> str:
    if load.transactions is None:
        return f"measuring for {load.hold_ms / 1000:g} s"
    noun = "transaction" if load.transactions == 1 else "transactions"
    return f"measuring {load.transactions:,} {noun} per client"


class _Timeline:
    """The run's clock: lets the load run and carries out events when they are due."""

    def __init__(
        self,
        session: Session,
        started_ns: int,
        statements: _EventStatements,
        *,
        since_ms: int = 0,
        events: Sequence[Event | BranchEvent] | None = None,
    ) -> None:
        """Events before ``since_ms`` are left out; ``events`` are used instead of the spec's."""
        self._session = session
        self._started_ns = started_ns
        self._statements = statements
        given = session.spec.events if events is None else events
        in_order = sorted(given, key=lambda event: event.at_ms)
        self._events = [
            (number, each) for number, each in enumerate(in_order) if each.at_ms >= since_ms
        ]

    def run_until(self, end_ms: int) -> None:
        """Let the load run until ``end_ms`` after its start, with the events due by then."""
        while self._events and self._events[0][1].at_ms < end_ms:
            number, event = self._events.pop(0)
            self._wait_until(event.at_ms)
            if self._session.load_complete:
                return
            self._carry_out(number, event)
        self._wait_until(end_ms)

    def _carry_out(self, number: int, event: Event | BranchEvent) -> None:
        if event.sql is not None:
            self._statements.begin(number, event.sql)
        if isinstance(event, BranchEvent):
            for group, count in (event.clients or {}).items():
                self._session.set_clients(group, count)
        elif event.settings is not None:
            self._session.apply_event(event.settings)

    def _wait_until(self, at_ms: int) -> None:
        left_s = (self._started_ns + at_ms * 1_000_000 - time.monotonic_ns()) / 1e9
        if left_s > 0 and not self._session.load_complete:
            self._session.wait(left_s)


class _EventStatements:
    """Running event statements, each with its own thread and connection.

    A long statement (VACUUM FREEZE) must not delay the timeline.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._threads: list[threading.Thread] = []
        self._connections: list[psycopg.Connection] = []

    def begin(self, number: int, sql: str) -> None:
        """Send ``sql`` now; its outcome is recorded when it ends, as that of the event with this
        place in the order of time."""
        args = (number, sql)
        thread = threading.Thread(target=self._run, args=args, name="event-sql", daemon=True)
        self._threads.append(thread)
        thread.start()

    def end(self) -> None:
        """Cancel statements that still run and wait for them."""
        for connection in self._connections:
            if not connection.closed:
                connection.cancel_safe(timeout=5)
        for thread in self._threads:
            thread.join(10)

    def _run(self, number: int, sql: str) -> None:
        began_ns = time.monotonic_ns()
        recorder = self._session.recorder
        try:
            with connect_plain(self._session.target.of_load) as connection:
                self._connections.append(connection)
                connection.execute(sql.encode())
        except psycopg.Error as problem:
            message = (problem.diag.message_primary or str(problem)).strip()
            detail = {"message": message, "sqlstate": problem.sqlstate, "statement": sql[:60]}
            recorder.add_event("warning", f"failed: {sql[:60]}", detail)
            self._session.watcher.note(f"warning: {sql[:60]}: {message}")
        else:
            duration_ms = (time.monotonic_ns() - began_ns) / 1e6
            done = {"event": number}
            recorder.add_event("sql", sql[:60], done, ns=began_ns, duration_ms=duration_ms)


@contextmanager
def _event_statements(session: Session) -> Iterator[_EventStatements]:
    statements = _EventStatements(session)
    try:
        yield statements
    finally:
        statements.end()
