"""Wait events: their average sessions, and the selection, labels and colours of those shown.

A class of wait events is too coarse: "LWLock" is the queue for the WAL flush on one server and the
buffer table on another. The largest events are therefore shown by name, and the rest as "other
waits". Names are PostgreSQL's own, followed by their meaning if it is known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pgdyno.probe import waits
from pgdyno.probe.waits import canonical
from pgdyno.record import RunFile
from pgdyno.report import palette

RUNNING = "running"
OTHER = "other waits"
SHOWN_MAX = 8
SHARE_MIN = 0.01
"""Of all sessions; events with a smaller share are summed as other waits."""

MEANINGS = {
    "io:walsync": "the WAL flush",
    "io:walwrite": "writing WAL to the kernel",
    "io:walinitwrite": "a new WAL segment",
    "io:walinitsync": "a new WAL segment",
    "lwlock:walwrite": "queue for the WAL flush",
    "lwlock:walinsert": "locks of the WAL buffers",
    "lwlock:walbufmapping": "free space in the WAL buffers",
    "ipc:syncrep": "a standby's answer",
    "io:datafileread": "reading pages from disk",
    "io:datafilewrite": "writing pages",
    "io:datafileextend": "extending a table",
    "io:datafilesync": "flushing data files",
    "io:buffileread": "temporary files",
    "io:buffilewrite": "temporary files",
    **dict.fromkeys(waits.PAGE, "a page in shared buffers"),
    **dict.fromkeys(waits.PAGE_PIN, "a page that others use"),
    **dict.fromkeys(waits.WAIT_FOR_LSN, "WAIT FOR LSN"),
    **dict.fromkeys(waits.COPY_FILES, "COPY"),
    **dict.fromkeys(waits.COMMIT_DELAY, "commit_delay"),
    "lwlock:buffermapping": "the buffer table",
    "lwlock:procarray": "snapshots",
    "lwlock:lockmanager": "the lock table",
    "lock:transactionid": "a row that another transaction changed",
    "lock:tuple": "queue for a locked row",
    "lock:relation": "a lock on a table",
    "lock:extend": "extending a table",
    "lock:advisory": "an advisory lock",
    "client:clientread": "the client",
    "client:clientwrite": "the client",
    "timeout:spindelay": "a spinlock",
    "timeout:vacuumdelay": "cost-based vacuum delay",
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
    """Return ``LWLock:WALWrite``, or ``running`` for a session that does not wait."""
    return f"{wait_event_type}:{wait_event}" if wait_event_type else RUNNING


def averages(run: RunFile, slice_ids: Collection[int] | None) -> dict[str, float]:
    """Return the average number of active client backends by wait event; events without any are
    left out."""
    found: dict[str, float] = {}
    for wait in run.waits(slice_ids):
        if wait.backend_type == "client backend" and wait.state == "active" and wait.average:
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
    """Return the by_event of the events ``named``, and the sum of all others."""
    kept = {name: by_event[name] for name in named if name in by_event}
    rest = sum(value for name, value in by_event.items() if name not in named)
    return {**kept, OTHER: rest} if rest else kept


def label(event: str) -> str:
    """Return an event with its meaning: ``LWLock:WALWrite (queue for the WAL flush)``."""
    if event == RUNNING:
        return "running (not waiting)"
    meaning = MEANINGS.get(_key(event))
    return f"{event} ({meaning})" if meaning else event


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
