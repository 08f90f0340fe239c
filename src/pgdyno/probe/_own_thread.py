"""A sampler with a thread of its own, once a second on the run's clock: what does not answer
delays no other probe."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod

from pgdyno.errors import PgdynoError
from pgdyno.record import Recorder

SAMPLE_EVERY_S = 1.0
TIME_SHARE_MAX = 0.05
"""Part of the time that samples may take; what takes long to answer is asked less often."""
PATIENCE_S = 6.0
"""Time to wait for a sample at the end."""


class OwnThread(ABC):
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
            detail = {"probe": self._what, "reason": self._reason}
            self._recorder.add_event("probe", f"no {self._what}", detail)

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
