"""Detects when a checkpoint began, synced and ended, without the server's log.

Two sources are combined. Ten times a second: the wait events of the checkpointer, which leaves the
wait of its main loop when a checkpoint begins, paces its writes (CheckpointWriteDelay), syncs files
(DataFileSync), and returns. Once a second: its counters, and the redo position in the control file,
which advances when a checkpoint is complete. Without the first source (the role may not see it) the
times come from the counters alone, exact to a second; each event records its source.
"""

from __future__ import annotations

import threading

from msgspec import Struct, field

from pgdyno.json_types import Row
from pgdyno.wait_events import CHECKPOINT_PACE, CHECKPOINT_SYNC, canonical

MS = 1_000_000
CAUSES = {"num_timed": "timed", "num_requested": "requested"}
PATIENCE = 3
"""Samples to wait for the times of a completed checkpoint, which are reported a little later."""
RECENT_NS = (PATIENCE + 1) * 1_000_000_000
"""Greatest age of the end of a completed checkpoint's period."""


class ActivePeriod(Struct):
    """A period in which the checkpointer was seen active."""

    began_ns: int
    ended_ns: int | None = None
    sync_began_ns: int | None = None
    sync_ended_ns: int | None = None
    paced: bool = False

    @property
    def is_checkpoint(self) -> bool:
        """True if it paced writes or synced, as it does only in checkpoints."""
        return self.paced or self.sync_began_ns is not None


class Checkpoint(Struct, frozen=True):
    """A checkpoint; times on the monotonic clock."""

    began_ns: int
    ended_ns: int
    reason: str
    write_ms: float
    sync_ms: float
    buffers: int
    sync_ns: tuple[int, int] | None
    seen: str
    finished: bool = True

    @property
    def label(self) -> str:
        """A label short enough for an axis."""
        return "checkpoint" if self.reason == "unknown" else f"checkpoint ({self.reason})"

    @property
    def duration_ms(self) -> float:
        """Duration from beginning to end."""
        return (self.ended_ns - self.began_ns) / MS


class CheckpointWatch(Struct):
    """Derives checkpoints from waits and counters, which two threads may add."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _periods: list[ActivePeriod] = field(default_factory=list)
    _last: Row | None = None
    _reported: Row | None = None
    _causes: list[tuple[int, str]] = field(default_factory=list)
    _waited: int | None = None

    def see_wait(self, ns: int, wait_event_type: str, wait_event: str) -> None:
        """Add the checkpointer's wait event at ``ns``; ('', '') when it ran."""
        with self._lock:
            open_period = self._open_period()
            if wait_event_type == "Activity":
                if open_period:
                    open_period.ended_ns = ns
                    self._periods = self._periods[-16:]
                return
            wait = canonical(wait_event_type, wait_event)
            if open_period and open_period.sync_began_ns and wait in CHECKPOINT_PACE:
                open_period.ended_ns = ns  # One checkpoint directly after another.
                open_period = None
            if open_period is None:
                open_period = ActivePeriod(ns)
                self._periods.append(open_period)
            open_period.paced |= wait in CHECKPOINT_PACE
            if wait in CHECKPOINT_SYNC:
                open_period.sync_began_ns = open_period.sync_began_ns or ns
                open_period.sync_ended_ns = ns

    def see_counters(self, ns: int, row: Row) -> list[Checkpoint]:
        """Add columns of metric_checkpointer and metric_wal; return completed checkpoints."""
        with self._lock:
            last, self._last = self._last, row
            if last is None or _went_back(last, row):
                self._reported, self._waited, self._causes = row, None, []
                return []
            self._note_causes(ns, last, row)
            if _completed(last, row):
                self._waited = 0
            if self._waited is None:
                return []
            self._waited += 1
            if not _grew(self._reported, row, "write_time_ms", "sync_time_ms") and (
                self._waited < PATIENCE
            ):
                return []
            return [self._report(ns, row)]

    def unfinished(self, ns: int) -> list[Checkpoint]:
        """Return the checkpoint in progress at ``ns``, the end of sampling, if there is one."""
        with self._lock:
            period = self._open_period()
            if period is None or not period.is_checkpoint:
                return []
            reason = self._cause_since(period.began_ns)
            sync_ns = _sync_of(period)
            return [Checkpoint(period.began_ns, ns, reason, 0.0, 0.0, 0, sync_ns, "waits", False)]

    def forget(self) -> None:
        """Start again from nothing: the server was restarted."""
        with self._lock:
            self._periods, self._last, self._reported = [], None, None
            self._causes, self._waited = [], None

    def _open_period(self) -> ActivePeriod | None:
        if self._periods and self._periods[-1].ended_ns is None:
            return self._periods[-1]
        return None

    def _note_causes(self, ns: int, last: Row, row: Row) -> None:
        """Note causes: their counters rise when a checkpoint begins or is skipped as idle."""
        grown = [cause for name, cause in CAUSES.items() if _grew(last, row, name)]
        if grown:
            self._causes.append((ns, grown[0] if len(grown) == 1 else "unknown"))
            self._causes = self._causes[-16:]

    def _cause_since(self, began_ns: int) -> str:
        """Return the first cause counted after a checkpoint began, else the last one before."""
        for ns, cause in self._causes:
            if ns >= began_ns:
                return cause
        return self._causes[-1][1] if self._causes else "unknown"

    def _report(self, ns: int, row: Row) -> Checkpoint:
        before = self._reported or row
        write_ms = _rise(before, row, "write_time_ms")
        sync_ms = _rise(before, row, "sync_time_ms")
        period = self._take_period(ns)
        if period is None:
            ended_ns, seen = ns, "counters"
            began_ns = ns - int((write_ms + sync_ms) * MS)
            sync_ns = (ns - int(sync_ms * MS), ns) if sync_ms else None
        else:
            ended_ns, seen = period.ended_ns or ns, "waits"
            began_ns = period.began_ns
            sync_ns = _widened(_sync_of(period), int(sync_ms * MS), began_ns, ended_ns)
        reason = self._cause_since(began_ns)
        self._causes = [cause for cause in self._causes if cause[0] > ended_ns]
        self._reported, self._waited = row, None
        buffers = int(_rise(before, row, "buffers_written"))
        return Checkpoint(began_ns, ended_ns, reason, write_ms, sync_ms, buffers, sync_ns, seen)

    def _take_period(self, ns: int) -> ActivePeriod | None:
        """Remove and return the period of the checkpoint just completed, with older periods."""
        ended = [
            period
            for period in self._periods
            if period.ended_ns is not None and ns - period.ended_ns < RECENT_NS
        ]
        periods = [period for period in ended if period.is_checkpoint] or ended
        if not periods:
            open_period = self._open_period()
            if open_period is None or not open_period.is_checkpoint:
                return None
            # Complete by its counters, but the return to the main loop is not yet sampled.
            self._periods = []
            open_period.ended_ns = ns
            return open_period
        chosen = periods[-1]
        index = self._periods.index(chosen)
        self._periods = self._periods[index + 1 :]
        return chosen


def _sync_of(period: ActivePeriod) -> tuple[int, int] | None:
    if period.sync_began_ns is None or period.sync_ended_ns is None:
        return None
    return period.sync_began_ns, period.sync_ended_ns


def _widened(
    seen: tuple[int, int] | None, length_ns: int, began_ns: int, ended_ns: int
) -> tuple[int, int] | None:
    """Return the sync phase seen in ticks, extended to the length given by the counters.

    It is extended on both sides, within the checkpoint. If not seen, it is set at the end.
    """
    if seen is None:
        return (max(began_ns, ended_ns - length_ns), ended_ns) if length_ns else None
    lacking_ns = max(0, length_ns - (seen[1] - seen[0]))
    return max(began_ns, seen[0] - lacking_ns // 2), min(ended_ns, seen[1] + lacking_ns // 2)


def _rise(before: Row, row: Row, name: str) -> float:
    return max(0.0, (row.get(name) or 0) - (before.get(name) or 0))


def _grew(before: Row | None, row: Row, *names: str) -> bool:
    return before is not None and any(_rise(before, row, name) > 0 for name in names)


def _went_back(before: Row, row: Row) -> bool:
    """True if the counters fell: the server crashed or its statistics were reset."""
    return any(_grew(row, before, name) for name in ("num_timed", "num_requested", "write_time_ms"))


def _completed(before: Row, row: Row) -> bool:
    """True if a checkpoint was completed between two samples."""
    if row.get("redo_lsn_bytes") is not None:
        return _grew(before, row, "redo_lsn_bytes")
    return _grew(before, row, "num_done", "write_time_ms", "sync_time_ms")
