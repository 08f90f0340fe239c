"""Progress on stderr: a live line and bars on a terminal, plain lines otherwise.

Results go to stdout and are not printed here.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING

from pgdyno.cli.options import ProgressOptions
from pgdyno.cli.output import printable
from pgdyno.conduct.watch import Silent, Tick, Watcher

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from pgdyno.record import Recorder


def watching(
    progress: ProgressOptions, *, timestamps: bool = False, metrics: str | None = None
) -> AbstractContextManager[Watcher]:
    """Return :func:`watcher_for` as the options of a command say."""
    return watcher_for(
        quiet=progress.quiet,
        every_s=progress.progress / 1000,
        timestamps=timestamps,
        metrics=metrics,
    )


@contextmanager
def watcher_for(
    *, quiet: bool, every_s: float, timestamps: bool = False, metrics: str | None = None
) -> Iterator[Watcher]:
    """Yield the watcher for stderr, a terminal or not; its display is removed at the end.

    With ``metrics``, an address, Prometheus is answered there meanwhile."""
    with _shown(quiet, every_s, timestamps) as watcher:
        if metrics is None:
            yield watcher
            return
        from pgdyno.live import offering_metrics

        with offering_metrics(watcher, metrics) as offering:
            yield offering


@contextmanager
def _shown(quiet: bool, every_s: float, timestamps: bool) -> Iterator[Watcher]:
    if quiet:
        yield _Notes()
    elif sys.stderr.isatty() and not timestamps:
        with _Bars() as bars:
            yield bars
    else:
        yield _Lines(every_s, timestamps)


class _Notes(Silent):
    """Prints notes only."""

    def note(self, text: str) -> None:
        """Print a line."""
        print(printable(text), file=sys.stderr, flush=True)


class _Lines:
    """A line per phase, per second of its progress, and per ``every_s`` of load."""

    def __init__(self, every_s: float, timestamps: bool = False) -> None:
        self._timestamps = timestamps
        self._every_s = max(every_s, 0.1)
        self._began_s = time.monotonic()
        self._lock = threading.Lock()
        self._ticks: list[Tick] = []
        self._last_s: float | None = None
        self._progress_s = 0.0

    def recording(self, recorder: Recorder) -> None:
        """Print nothing."""

    def phase(self, text: str, lasts_s: float | None = None) -> None:
        """Print a line."""
        self._write(text)

    def step(self, text: str) -> None:
        """Print a line."""
        self._write(text)

    def note(self, text: str) -> None:
        """Print a line."""
        self._write(text)

    def progress(self, what: str, done: int, total: int) -> None:
        """Print one line per second, and one at the end."""
        now_s = time.monotonic()
        if done >= total or now_s - self._progress_s >= 1.0:
            self._progress_s = now_s
            self._write(f"{what}: {done:,} of {total:,}")

    def tick(self, tick: Tick) -> None:
        """Collect intervals until the next line."""
        with self._lock:
            self._ticks.append(tick)
            if self._last_s is None:
                self._last_s = tick.at_s - 1.0
            if tick.at_s - self._last_s < self._every_s - 0.05:
                return
            ticks, self._ticks = self._ticks, []
            self._last_s = tick.at_s
        self._write(_line(ticks))

    def _write(self, text: str) -> None:
        now_s = time.monotonic() - self._began_s
        shown = f"{time.time():.3f}" if self._timestamps else f"{now_s:7.1f}"
        print(f"{shown} s  {printable(text)}", file=sys.stderr, flush=True)


class _Bars:
    """A live display: phase, progress bar and figures of the load."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._progress: Progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            # Without colours, only the brackets show the full length of the bar.
            TextColumn("[", markup=False),
            BarColumn(bar_width=20),
            TextColumn("]", markup=False),
            TextColumn("{task.fields[figures]}", markup=False),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: TaskID = self._progress.add_task("starting", total=None, figures="")
        self._phase_began_s = time.monotonic()
        self._phase_lasts_s: float | None = None

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # The terminal may be closed.
            self._progress.stop()

    def recording(self, recorder: Recorder) -> None:
        """Change nothing."""

    def phase(self, text: str, lasts_s: float | None = None) -> None:
        """Set the description, and a bar that advances with time."""
        self._phase_began_s, self._phase_lasts_s = time.monotonic(), lasts_s
        self._progress.update(self._task, description=printable(text), total=lasts_s, completed=0)

    def step(self, text: str) -> None:
        """Print a line above the display."""
        self.note(text)

    def note(self, text: str) -> None:
        """Print a line above the display."""
        self._progress.console.print(printable(text), highlight=False, markup=False)

    def progress(self, what: str, done: int, total: int) -> None:
        """Update the bar."""
        self._phase_lasts_s = None
        self._progress.update(self._task, description=printable(what), completed=done, total=total)

    def tick(self, tick: Tick) -> None:
        """Update the figures beside the bar, and a bar that advances with time."""
        self._progress.update(self._task, figures=_line([tick]))
        if self._phase_lasts_s is not None:
            passed_s = min(time.monotonic() - self._phase_began_s, self._phase_lasts_s)
            self._progress.update(self._task, completed=passed_s)


def _line(ticks: list[Tick]) -> str:
    """Return mean throughput, the last latencies and number of clients, and failures if any."""
    last = ticks[-1]
    throughput_tps = sum(tick.throughput_tps for tick in ticks) / len(ticks)
    failed = sum(tick.failed for tick in ticks)
    latency = ""
    if last.latency_ms_p50 is not None and last.latency_ms_p99 is not None:
        latency = f" p50 {last.latency_ms_p50:.2f} ms, p99 {last.latency_ms_p99:.2f} ms,"
    text = f"{throughput_tps:,.0f} tps,{latency} {last.clients} clients"
    return text + (f", {failed:,} failed" if failed else "")
