"""Wait events by name: which are shown, what they are called, which colour they have.

A class tells little: "LWLock" is the queue for the WAL flush on one server and the buffer table on
another. So events are shown, the largest by name and the rest as other waits. Names are the
server's own, with what they mean where that is known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pgdyno.probe.waits import canonical
from pgdyno.report import palette

RUNNING = "running"
OTHER = "other waits"
SHOWN_MAX = 8
SHARE_MIN = 0.01
"""Of all sessions; what takes less is not worth a colour."""

MEANINGS = {
    "io:walsync": "the WAL flush",
    "io:walwrite": "WAL handed to the kernel",
    "io:walinitwrite": "a new WAL segment",
    "io:walinitsync": "a new WAL segment",
    "lwlock:walwrite": "queue for the WAL flush",
    "lwlock:walinsert": "locks of the WAL buffers",
    "lwlock:walbufmapping": "room in the WAL buffers",
    "ipc:syncrep": "a standby's answer",
    "io:datafileread": "pages read from disk",
    "io:datafilewrite": "pages written",
    "io:datafileextend": "tables that grow",
    "io:datafilesync": "data files flushed",
    "io:buffileread": "temporary files",
    "io:buffilewrite": "temporary files",
    "lwlock:buffercontent": "one page in memory",
    "lwlock:buffermapping": "the buffer table",
    "lwlock:procarray": "snapshots",
    "lwlock:lockmanager": "the lock table",
    "lock:transactionid": "a row that another transaction changed",
    "lock:tuple": "queue for such a row",
    "lock:relation": "a lock on a table",
    "lock:extend": "tables that grow",
    "lock:advisory": "an advisory lock",
    "client:clientread": "the client",
    "client:clientwrite": "the client",
    "timeout:spindelay": "a spinlock",
    "timeout:vacuumdelay": "vacuum at its pace",
}

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
    """``LWLock:WALWrite``; running for a session that waits for nothing."""
    return f"{wait_event_type}:{wait_event}" if wait_event_type else RUNNING


def chosen(averages: Mapping[str, float]) -> list[str]:
    """The events that are shown by name, running first, then the largest first."""
    total = sum(averages.values())
    waits = sorted((name for name in averages if name != RUNNING), key=lambda n: -averages[n])
    named = [n for n in waits if total and averages[n] >= SHARE_MIN * total][:SHOWN_MAX]
    return [*([RUNNING] if averages.get(RUNNING) else []), *named]


def gathered(averages: Mapping[str, float], named: Collection[str]) -> dict[str, float]:
    """The averages of the events ``named``, and of all others together."""
    kept = {name: averages[name] for name in named if name in averages}
    rest = sum(value for name, value in averages.items() if name not in named)
    return {**kept, OTHER: rest} if rest else kept


def label(event: str) -> str:
    """An event with what it means: ``LWLock:WALWrite (queue for the WAL flush)``."""
    if event == RUNNING:
        return "running (no wait)"
    meaning = MEANINGS.get(_key(event))
    return f"{event} ({meaning})" if meaning else event


def phrase(event: str) -> str:
    """An event within a sentence about sessions."""
    if event == RUNNING:
        return "running, or waiting for a core"
    return f"in {event}" if event == OTHER else f"waiting in {label(event)}"


def colours(events: Collection[str]) -> dict[str, str]:
    """A colour for each event: well-known ones have the same in every report."""
    fixed = {RUNNING: palette.GREEN, OTHER: palette.GREY}
    found = {e: fixed.get(e) or _COLOURS.get(_key(e)) for e in events}
    taken = {*fixed.values(), *found.values()}
    free = [colour for colour in palette.SERIES if colour not in taken] or [palette.OLIVE]
    unnamed = [event for event, colour in found.items() if colour is None]
    rest = {event: free[number % len(free)] for number, event in enumerate(unnamed)}
    return {event: colour or rest[event] for event, colour in found.items()}


def _key(event: str) -> str:
    return canonical(*event.split(":", 1)) if ":" in event else event
