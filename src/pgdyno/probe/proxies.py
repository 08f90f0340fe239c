"""Samplers of poolers and web front ends, which stand between clients and server: their queues and
counts, once a second on the run's clock.

Each has a thread of its own, so that one that does not answer delays no other probe. Each answer of
pgdyno's application is stamped by it on the monotonic clock that pgdyno reads too; the figures of a
web server of the user's, with the middle of the time that reading them took.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from pgdyno.errors import PgdynoError
from pgdyno.json_types import Row
from pgdyno.probe._probes import SAMPLE_EVERY_S
from pgdyno.record import Recorder
from pgdyno.record.events import note_missing

TIME_SHARE_MAX = 0.05
"""Part of the time that samples may take; a slow pooler is asked less often."""
PATIENCE_S = 6.0
"""Time to wait for a sample at the end."""

Queues = Callable[[], Iterable[Row]]
Read = Callable[[], tuple[int, Mapping[str, Sequence[Row]]]]
"""Returns the time of a reading, in monotonic ns, and its rows by metric table."""


class _OwnThread(ABC):
    """Takes samples until it is stopped."""

    def __init__(self, what: str, recorder: Recorder) -> None:
        """Do not start yet; ``what`` is sampled, as one word."""
        self._what = what
        self._recorder = recorder
        self._stopping = threading.Event()
        self._reason = ""
        self._thread = threading.Thread(target=self._run, name=f"pgdyno-{what}", daemon=True)

    @abstractmethod
    def sample(self) -> None:
        """Take and record one sample. Any error means that it cannot be told now."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. If the last samples failed, record why."""
        self._stopping.set()
        self._thread.join(PATIENCE_S)
        if self._reason:
            note_missing(self._recorder, self._what, self._reason)

    def sample_now(self) -> None:
        """Take a sample, before it returns, for the start and end of a slice."""
        try:
            self.sample()
            self._reason = ""
        except PgdynoError as problem:
            self._reason = problem.message
        except Exception as problem:
            # Between two slices it is restarted; at another time it cannot be told.
            self._reason = f"{type(problem).__name__}: {problem}"

    def _run(self) -> None:
        pause_s = SAMPLE_EVERY_S
        while not self._stopping.wait(pause_s):
            began_s = time.monotonic()
            self.sample_now()
            if self._recorder.failure is not None:
                return  # The run file cannot be written; the recorder also reports it.
            took_s = time.monotonic() - began_s
            pause_s = max(SAMPLE_EVERY_S - took_s, took_s / TIME_SHARE_MAX)


class PoolerSampler(_OwnThread):
    """Write metric_pooler from ``queues``, while there are any."""

    def __init__(self, queues: Queues, recorder: Recorder) -> None:
        super().__init__("pooler", recorder)
        self._queues = queues

    def sample(self) -> None:
        """Write the queues."""
        rows = list(self._queues())
        if rows:
            self._recorder.add_rows("metric_pooler", rows)


class FrontSampler(_OwnThread):
    """Write metric_front, metric_front_page and metric_jvm."""

    def __init__(self, read: Read, recorder: Recorder) -> None:
        super().__init__("front", recorder)
        self._read = read

    def sample(self) -> None:
        """Write one reading."""
        at_ns, rows = self._read()
        for table, of_table in rows.items():
            self._recorder.add_rows(table, of_table, ns=at_ns)
