"""Stretches in which the throughput nearly stopped, and what overlapped each of them.

A drop is tied to the first of these that was there, from the most direct to the least: a lock that
the sessions waited for; a checkpoint syncing files; the kernel writing dirty pages back; a vacuum;
the WAL's device; an event that was recorded; otherwise it stays unexplained.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct

from pgdyno.facts.intervals import timed
from pgdyno.facts.slices import Facts
from pgdyno.numbers import size
from pgdyno.record import Event, Interval, Series
from pgdyno.record.events import overlaps_own, own_events
from pgdyno.record.fileformat import CLIENT_BACKEND
from pgdyno.record.finding import Evidence, Skip, Window
from pgdyno.wait_events import CHECKPOINT_SYNC, HEAVYWEIGHT, WaitClass, canonical, wait_class

Reason = Literal[
    "lock", "checkpoint sync", "kernel writeback", "vacuum", "WAL device", "event", "unexplained"
]

AROUND_MS = 1500
"""Time before and after a change of level: probes read most views once a second."""
DROP_SHARE = 0.2
"""Share of the median throughput below which the load has almost stopped."""
INTERVALS_MIN = 5
SHORTEST_MS = 300.0
"""Shorter intervals, cut off at a slice's edge, have too few transactions to judge."""
RAMP_SHARE = 0.75
"""Intervals with fewer of the most clients belong to a ramp."""

LOCKED_SHARE = 0.5
SYNCING_AVERAGE = 0.2
WRITEBACK_BYTES = 32 << 20
DIRTY_FALL = 0.3
PRESSURE_SHARE = 0.3
FLUSHING_SHARE = 0.5

EVENTS = ("checkpoint", "vacuum", "sql", "setting", "restart", "standby")
"""Kinds of event that can have a part in a drop."""


class ThroughputDrop(Struct, frozen=True):
    """A period of nearly no throughput."""

    window_ms: Window
    lost: float
    """Transactions that the median throughput would have done beyond those done."""
    reason: Reason
    detail: str
    done_tps: float
    events: tuple[str, ...] = ()
    """Labels of the checkpoints, vacuums and other events that overlap it."""
    in_checkpoint: bool = False
    """True if a checkpoint overlaps it."""

    @property
    def explained(self) -> bool:
        """True if samples or events show something that overlaps it."""
        return self.reason != "unexplained"

    @property
    def beside(self) -> list[str]:
        """Events that overlap it, and what the samples show."""
        shown = [] if self.reason in ("event", "unexplained") else [self.detail]
        return [*self.events, *shown]

    @property
    def duration_ms(self) -> int:
        """Duration of the drop."""
        return self.window_ms[1] - self.window_ms[0]

    def evidence(self, name: str) -> Evidence:
        """Return its duration as evidence; ``name`` is the finding's word for such a period."""
        return Evidence(
            name=f"{name}: {self.detail}",
            value=self.duration_ms,
            unit="ms",
            window_ms=self.window_ms,
        )


class Drops(Struct, frozen=True):
    """The drops of a period of the run."""

    all: tuple[ThroughputDrop, ...]
    median_tps: float
    intervals: int
    lowest_tps: float
    expected: float
    """Transactions that the whole period would have done at the median throughput."""

    @property
    def lost_share(self) -> float:
        """Part of those that the drops cost."""
        return sum(drop.lost for drop in self.all) / self.expected if self.expected else 0.0

    def share_lost_by(self, reason: Reason) -> float:
        """Part of what the drops cost that is tied to ``reason``."""
        lost = sum(drop.lost for drop in self.all)
        return sum(d.lost for d in self.all if d.reason == reason) / lost if lost else 0.0


def find_drops(s: Facts, *, below: float = DROP_SHARE) -> Drops:
    """Return the drops in ``s`` below this part of the median throughput; Skip if it has too few
    intervals for a median."""
    own = own_events(s.run, s.slice_ids)
    intervals = [
        i
        for i in timed(s.run.intervals(s.slice_ids))
        if i.duration_ms >= SHORTEST_MS and not overlaps_own(own, i.at_ms, i.at_ms + i.duration_ms)
    ]
    clients_max = max((i.clients for i in intervals), default=0)
    settled = [i for i in intervals if i.clients >= RAMP_SHARE * clients_max]
    if len(settled) < INTERVALS_MIN:
        raise Skip(f"{len(settled)} intervals are too few to recognise a drop")
    rates = [i.throughput_tps for i in settled]
    median = statistics.median(rates)
    low = [i.throughput_tps < below * median and not _at_rest(s, i, median) for i in settled]
    overlap = Overlap(s)
    drops = []
    start = None
    for n, is_low in enumerate([*low, False]):
        if is_low and start is None:
            start = n
        elif not is_low and start is not None:
            drops.append(_drop(settled[start:n], median, overlap))
            start = None
    return Drops(
        all=tuple(drops),
        median_tps=median,
        intervals=len(settled),
        lowest_tps=min(rates),
        expected=median * sum(i.duration_ms for i in settled) / 1000,
    )


def _at_rest(s: Facts, interval: Interval, median_tps: float) -> bool:
    """True if hardly anything came due: all clients send at rates, and these were low by plan."""
    due_tps = 1000 * interval.intended / interval.duration_ms
    open_loops = all(account.arrival is not None for account in s.accounts if not account.idle)
    return open_loops and due_tps < DROP_SHARE * median_tps


def _drop(intervals: list[Interval], median_tps: float, overlap: Overlap) -> ThroughputDrop:
    window = (intervals[0].at_ms, round(intervals[-1].at_ms + intervals[-1].duration_ms))
    lost = sum(median_tps * i.duration_ms / 1000 - i.done for i in intervals)
    events = overlap.events(window)
    reason, detail = overlap.reason(window)
    if reason == "unexplained" and events:
        reason, detail = "event", "; ".join(events)
    done_tps = 1000 * sum(i.done for i in intervals) / sum(i.duration_ms for i in intervals)
    return ThroughputDrop(
        window, lost, reason, detail, done_tps, events, overlap.has_checkpoint(window)
    )


class Overlap:
    """Server and host activity at a given time, from the samples around it."""

    def __init__(self, s: Facts) -> None:
        self._s = s

    @cached_property
    def _waits(self) -> Series:
        return self._s.run.wait_series(self._s.slice_ids)

    @cached_property
    def _host(self) -> Series:
        return self._s.run.series("metric_host", self._s.slice_ids)

    def reason(self, window: Window) -> tuple[Reason, str]:
        """Return the most direct cause that overlaps the window, and its evidence."""
        return next(self.reasons(window), ("unexplained", "no recorded cause overlaps it"))

    def reasons(self, window: Window) -> Iterator[tuple[Reason, str]]:
        """Yield all causes that overlap the window, each with its evidence, from the most direct
        to the least."""
        checks: tuple[tuple[Reason, Callable[[Window], str | None]], ...] = (
            ("lock", self._lock),
            ("checkpoint sync", self._checkpoint),
            ("kernel writeback", self._writeback),
            ("vacuum", self._vacuum),
            ("WAL device", self._wal_device),
        )
        for reason, check in checks:
            detail = check(window)
            if detail is not None:
                yield reason, detail

    def events(self, window: Window) -> tuple[str, ...]:
        """Labels of the events that overlap the window, each once."""
        found = (
            f'the event "{event.label}"' if event.kind == "sql" else event.label
            for event in self._during(window)
        )
        return tuple(dict.fromkeys(found))

    def has_checkpoint(self, window: Window) -> bool:
        """True if a checkpoint overlaps the window."""
        return any(event.kind == "checkpoint" for event in self._during(window))

    def _during(self, window: Window) -> Iterator[Event]:
        """Events of the kinds that can have a part in a drop, as far as they overlap the window."""
        return (
            event
            for event in self._s.run.events()
            if event.kind in EVENTS
            and event.at_ms < window[1]
            and event.at_ms + (event.duration_ms or 0) >= window[0]
        )

    def _sessions(self, window: Window) -> dict[WaitClass, float]:
        """Client sessions in a transaction by class, averaged over the window's samples."""
        sums: dict[WaitClass, float] = {}
        waits = self._waits
        inside = _inside(waits["at_ms"], window)
        samples = len(set(waits["at_ms"][inside].tolist())) or 1
        for n in inside.nonzero()[0]:
            found = wait_class(
                waits["state"][n], waits["wait_event_type"][n], waits["wait_event"][n]
            )
            if waits["backend_type"][n] == CLIENT_BACKEND and found is not None:
                sums[found] = sums.get(found, 0.0) + float(waits["average"][n]) / samples
        return sums

    def _lock(self, window: Window) -> str | None:
        sessions = self._sessions(window)
        waiting = sum(sessions.get(kind, 0.0) for kind in HEAVYWEIGHT)
        if waiting == 0 or waiting < LOCKED_SHARE * sum(sessions.values()):
            return None
        locks = self._s.run.series("metric_lock", self._s.slice_ids)
        inside = _inside(locks["at_ms"], window) & (locks["waiting"] > 0)
        where = next((f" on {name}" for name in locks["relation"][inside] if name), "")
        return f"{waiting:.1f} sessions waited for a lock{where}"

    def _checkpoint(self, window: Window) -> str | None:
        """Return evidence of a checkpoint's sync phase, from samples or events."""
        waits = self._waits
        inside = _inside(waits["at_ms"], window) & (waits["backend_type"] == "checkpointer")
        syncing = sum(
            float(waits["average"][n])
            for n in inside.nonzero()[0]
            if canonical(waits["wait_event_type"][n], waits["wait_event"][n]) in CHECKPOINT_SYNC
        )
        if syncing >= SYNCING_AVERAGE:
            return "the checkpointer was syncing data files"
        return None

    def _writeback(self, window: Window) -> str | None:
        """Return evidence of writeback by the kernel: dirty pages written, and stalled tasks."""
        host = self._host
        inside = _inside(host["at_ms"], _widened(window))
        if inside.sum() < 2:
            return None
        writeback = _largest(host["writeback_bytes"][inside])
        dirty = host["dirty_bytes"][inside]
        fell = float(dirty[0] - dirty[-1]) >= DIRTY_FALL * max(float(dirty[0]), WRITEBACK_BYTES)
        lasted_us = float(host["at_ms"][inside][-1] - host["at_ms"][inside][0]) * 1000
        held_us = float(host["pressure_io_some_us"][inside][-1]) - float(
            host["pressure_io_some_us"][inside][0]
        )
        held_up = not held_us < PRESSURE_SHARE * lasted_us  # unknown pressure does not rule it out
        if (writeback >= WRITEBACK_BYTES or fell) and held_up:
            return f"{size(writeback)} were under writeback at once"
        return None

    def _vacuum(self, window: Window) -> str | None:
        vacuums = self._s.run.series("metric_vacuum", self._s.slice_ids)
        inside = _inside(vacuums["at_ms"], _widened(window))
        names = sorted({str(name) for name in vacuums["relation"][inside]})
        freezes = (vacuums["to_prevent_wraparound"][inside] == 1).any()
        purpose = " to prevent wraparound" if freezes else ""
        return f"vacuum of {', '.join(names)}{purpose}" if names else None

    def _wal_device(self, window: Window) -> str | None:
        sessions = self._sessions(window)
        flushing = sessions.get("flush", 0.0)
        if flushing == 0 or flushing < FLUSHING_SHARE * sum(sessions.values()):
            return None
        return f"{flushing:.1f} sessions waited for a WAL flush"


def _inside(at_ms: Any, window: Window) -> Any:
    return (at_ms >= window[0]) & (at_ms < window[1])


def _widened(window: Window) -> Window:
    """Return the window with a second more at both ends, for samples taken once a second."""
    return window[0] - 1000, window[1] + 1000


def _largest(values: Any) -> float:
    import numpy as np

    return float(np.nanmax(values)) if np.isfinite(values).any() else 0.0
