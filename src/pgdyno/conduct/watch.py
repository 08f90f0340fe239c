"""What the conductor tells whoever watches a run: phases, progress, one line per interval, notes.

The command line shows these as bars or lines on stderr; tests and embedders may pass their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Tick:
    """One interval of load, over all groups and scripts."""

    at_s: float
    throughput_tps: float
    latency_ms_p50: float | None
    """None where nothing was done."""
    latency_ms_p99: float | None
    clients: int
    failed: int


class Watcher(Protocol):
    """Whoever watches. Calls come from several threads."""

    def phase(self, text: str, lasts_s: float | None = None) -> None:
        """What begins now, as ``making tables``, and how long it lasts where that is known."""

    def progress(self, what: str, done: int, total: int) -> None:
        """How far a phase of known length has come."""

    def tick(self, tick: Tick) -> None:
        """One interval of load has ended."""

    def step(self, text: str) -> None:
        """A part of the work is done; a line of progress worth keeping on the screen."""

    def note(self, text: str) -> None:
        """A line that is worth reading even for whoever wants no progress."""


class Silent:
    """A watcher that looks away."""

    def phase(self, text: str, lasts_s: float | None = None) -> None:
        """Nothing."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Nothing."""

    def tick(self, tick: Tick) -> None:
        """Nothing."""

    def step(self, text: str) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""
