"""Active sessions by wait event: averages, and the selection, labels and colours of those shown.

A class of wait events is too coarse: "LWLock" is the queue for the WAL flush on one server and the
buffer table on another. The largest events are therefore shown by name, and the rest as "other
waits". Names are PostgreSQL's own, followed by their meaning if it is known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pgdyno.record import RunFile
from pgdyno.record.fileformat import CLIENT_BACKEND
from pgdyno.report import palette
from pgdyno.wait_events import BY_NAME, canonical

RUNNING = "running"
OTHER = "other waits"
SHOWN_MAX = 8
SHARE_MIN = 0.01
"""Of all sessions; events with a smaller share are summed as other waits."""

_COLOURS = {
    "io:walsync": palette.BLUE,
    "lwlock:walwrite": palette.PURPLE,
    "lock:transactionid": palette.RED,
    "lock:tuple": palette.PINK,
    "io:walwrite": palette.TEAL,
    "client:clientread": palette.BROWN,
    "io:datafileread": palette.ORANGE,
}


def event_of(wait_event_type: str, wait_event: str) -> str:
    """Return ``LWLock:WALWrite``, or ``running`` for a session that does not wait."""
    return f"{wait_event_type}:{wait_event}" if wait_event_type else RUNNING


def averages(run: RunFile, slice_ids: Collection[int] | None) -> dict[str, float]:
    """Return the average number of active client backends by wait event; events without any are
    left out."""
    found: dict[str, float] = {}
    for wait in run.waits(slice_ids):
        if wait.backend_type == CLIENT_BACKEND and wait.state == "active" and wait.average:
            event = event_of(wait.wait_event_type, wait.wait_event)
            found[event] = found.get(event, 0.0) + wait.average
    return found


def largest(by_event: Mapping[str, float]) -> list[str]:
    """Return the events that are shown by name: running, then the others by size."""
    total = sum(by_event.values())
    waits = sorted((name for name in by_event if name != RUNNING), key=lambda n: -by_event[n])
    named = [n for n in waits if total and by_event[n] >= SHARE_MIN * total][:SHOWN_MAX]
    return [*([RUNNING] if by_event.get(RUNNING) else []), *named]


def with_others_summed(by_event: Mapping[str, float], named: Collection[str]) -> dict[str, float]:
    """Keep the events ``named``; add up the rest as one."""
    kept = {name: by_event[name] for name in named if name in by_event}
    rest = sum(value for name, value in by_event.items() if name not in named)
    return {**kept, OTHER: rest} if rest else kept


def label(event: str) -> str:
    """Return an event with its meaning: ``LWLock:WALWrite (queue for the WAL flush)``."""
    if event == RUNNING:
        return "running (not waiting)"
    known = BY_NAME.get(_key(event))
    return f"{event} ({known.meaning})" if known and known.meaning else event


def phrase(event: str) -> str:
    """Return an event as part of a sentence about sessions."""
    if event == RUNNING:
        return "running or waiting for a CPU core"
    return f"in {event}" if event == OTHER else f"waiting in {label(event)}"


def is_in(event: str, events: Collection[str]) -> bool:
    """True if an event is one of ``events``, which have their canonical names."""
    return _key(event) in events


def colours(events: Collection[str]) -> dict[str, str]:
    """Return a colour for each event; common events have the same colour in every report."""
    fixed = {RUNNING: palette.GREEN, OTHER: palette.GREY}
    found = {e: fixed.get(e) or _COLOURS.get(_key(e)) for e in events}
    taken = {*fixed.values(), *found.values()}
    free = [colour for colour in palette.SERIES if colour not in taken] or [palette.OLIVE]
    unnamed = [event for event, colour in found.items() if colour is None]
    rest = {event: free[number % len(free)] for number, event in enumerate(unnamed)}
    return {event: colour or rest[event] for event, colour in found.items()}


def _key(event: str) -> str:
    return canonical(*event.split(":", 1)) if ":" in event else event
