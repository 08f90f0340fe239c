"""Progress of a run for the user: phases, progress, one line per interval, notes.

The command line shows these as bars or lines on stderr; tests and other programs may pass their own
watcher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from pgdyno.record import Recorder


class Tick(Struct, frozen=True):
    """An interval of load, over all groups and scripts."""

    at_s: float
    throughput_tps: float
    latency_ms_p50: float | None
    """None without a transaction done."""
    latency_ms_p99: float | None
    clients: int
    failed: int


class Watcher(Protocol):
    """Receiver of progress. Its methods are called from several threads."""

    def recording(self, recorder: Recorder) -> None:
        """Take note of the recorder of a session that begins."""

    def phase(self, text: str, lasts_s: float | None = None) -> None:
        """Show a phase that begins, as ``making tables``, with its duration if that is known."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Show how far a phase of known length has got."""

    def tick(self, tick: Tick) -> None:
        """Show an interval of load that has ended."""

    def step(self, text: str) -> None:
        """Show a completed part of the work, as a line of progress that stays on the screen."""

    def note(self, text: str) -> None:
        """Show a line that is also shown when progress is not."""


class Silent:
    """A watcher that shows nothing."""

    def recording(self, recorder: Recorder) -> None:
        """Do nothing."""

    def phase(self, text: str, lasts_s: float | None = None) -> None:
        """Show nothing."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Show nothing."""

    def tick(self, tick: Tick) -> None:
        """Show nothing."""

    def step(self, text: str) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""
