"""Sudden changes of throughput, named while the load runs.

The search of a finished run (``diagnose.course``) over the last minutes, with a stricter threshold,
since it is made again and again. A change is named once, with the vacuums and checkpoints beside
it; the levels after it are compared with each other only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pgdyno.facts.changes import sudden_changes
from pgdyno.numbers import figure

if TYPE_CHECKING:
    from pgdyno._engine import Interval

SEARCHES = 1_000
"""Searches among which less than one in a thousand may find a change that is none: those of a
day, nearly."""
SECONDS_MAX = 600
SETTLED_S = 10
"""Seconds after a change that show its level."""
WHOLE_INTERVAL_S = 0.9
BESIDE_S = 15.0


class Second(NamedTuple):
    """Throughput of an interval that began at ``began_ns`` on the monotonic clock."""

    began_ns: int
    tps: float


@dataclass(frozen=True)
class SuddenChange:
    """A change of level at ``at_ns``, monotonic."""

    at_ns: int
    before_tps: float
    after_tps: float
    beside: tuple[str, ...]

    @property
    def label(self) -> str:
        """Text of the change alone."""
        went = "fell" if self.after_tps < self.before_tps else "rose"
        return f"throughput {went} from {figure(self.before_tps)} to {figure(self.after_tps)} tps"

    @property
    def sentence(self) -> str:
        """Text of the change with the coinciding vacuums and checkpoints, without its time."""
        beside = f"; beside it: {', '.join(self.beside)}" if self.beside else ""
        return f"{self.label}{beside}"


class ChangeWatch:
    """Listens to a recorder; ``found`` returns the new changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: list[Second] = []
        self._clients = -1
        self._beside: list[tuple[int, str]] = []

    def interval(self, interval: Interval) -> None:
        """Take note of an interval."""
        seconds = (interval["ended_ns"] - interval["started_ns"]) / 1e9
        clients = sum(row["clients"] for row in interval["groups"])
        done = sum(row["done"] for row in interval["scripts"])
        with self._lock:
            if clients != self._clients:  # Levels under another load are not compared.
                self._clients = clients
                self._seconds.clear()
            elif seconds >= WHOLE_INTERVAL_S:
                self._seconds.append(Second(interval["started_ns"], done / seconds))
                del self._seconds[:-SECONDS_MAX]

    def rows(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take note of vacuums under way and of checkpoints."""
        if table == "metric_vacuum":
            self._note(
                f"{'autovacuum' if row['automatic'] else 'vacuum'} of {row['relation']}"
                for row in rows
            )
        elif table == "event":
            self._note(str(row["label"]) for row in rows if row["kind"] in ("checkpoint", "sql"))

    def found(self) -> list[SuddenChange]:
        """Return the changes that were not named before."""
        with self._lock:
            seconds = list(self._seconds)
            rates = [second.tps for second in seconds[: len(seconds) - SETTLED_S // 2]]
            changes = [
                SuddenChange(seconds[at].began_ns, before, after, self._near(seconds[at].began_ns))
                for at, before, after in sudden_changes(rates, beside=SEARCHES)
                if at + SETTLED_S <= len(seconds)
            ]
            if changes:
                last_ns = changes[-1].at_ns
                self._seconds = [each for each in self._seconds if each.began_ns >= last_ns]
        return changes

    def _note(self, words: Iterable[str]) -> None:
        now_ns = time.monotonic_ns()
        with self._lock:
            self._beside += [(now_ns, text) for text in words]
            del self._beside[:-SECONDS_MAX]

    def _near(self, at_ns: int) -> tuple[str, ...]:
        near = (text for ns, text in self._beside if abs(ns - at_ns) <= BESIDE_S * 1e9)
        return tuple(dict.fromkeys(near))
