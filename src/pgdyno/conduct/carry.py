"""One plain run: the ramp or the steps, the hold, the spec's events at their moments, the drain."""

from __future__ import annotations

import time

from pgdyno.conduct.session import Session
from pgdyno.spec import Event


def carry_out(session: Session) -> list[int]:
    """Carry the session's spec out. Returns the ids of the slices that hold its measurement.

    The ramp is a slice of its own (kind ``ramp``) and not part of the measurement; with steps, all
    of the load is measured.
    """
    load = session.spec.load
    started_ns = session.start_load(scheduled=True)
    events = sorted(session.spec.events, key=lambda event: event.at_ms)
    if load.ramp_ms:
        session.watcher.phase(f"ramping up over {load.ramp_ms / 1000:g} s")
        with session.measured("ramp"):
            _run_until(session, started_ns, load.ramp_ms, events)
    session.watcher.phase(f"measuring for {load.hold_ms / 1000:g} s")
    with session.measured("run") as slice_id:
        _run_until(session, started_ns, load.ramp_ms + load.hold_ms, events)
    session.watcher.phase("finishing")
    session.stop_load()
    return [slice_id]


def _run_until(session: Session, started_ns: int, end_ms: int, events: list[Event]) -> None:
    """Let the load run to ``end_ms`` after its start, carrying out the events due by then."""
    while events and events[0].at_ms < end_ms:
        event = events.pop(0)
        _wait_until(session, started_ns, event.at_ms)
        if event.sql is not None:
            _run_event_sql(session, event.sql)
        if event.settings is not None:
            session.event_settings(event.settings)
    _wait_until(session, started_ns, end_ms)


def _run_event_sql(session: Session, sql: str) -> None:
    began_ns = time.monotonic_ns()
    session.run_sql(sql)
    duration_ms = (time.monotonic_ns() - began_ns) / 1e6
    session.recorder.add_event("sql", sql[:60], ns=began_ns, duration_ms=duration_ms)


def _wait_until(session: Session, started_ns: int, at_ms: int) -> None:
    left_s = (started_ns + at_ms * 1_000_000 - time.monotonic_ns()) / 1e9
    if left_s > 0:
        session.wait(left_s)
