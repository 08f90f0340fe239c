"""Probes that are not possible with this server, machine or role: recorded once, never fatal."""

from __future__ import annotations

import threading

from pgdyno.record import Recorder
from pgdyno.record.probing import note_missing


class Missing:
    """Missing probes with their reasons; each becomes one event in the run file."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lock = threading.Lock()
        self._reasons: dict[str, str] = {}

    def add(self, probe: str, reason: str) -> None:
        """Record a probe as missing, with the first reason."""
        with self._lock:
            if probe in self._reasons:
                return
            self._reasons[probe] = reason
        note_missing(self._recorder, probe, reason)

    def __contains__(self, probe: str) -> bool:
        return probe in self._reasons

    def reasons(self) -> dict[str, str]:
        """Return the reason by missing probe."""
        with self._lock:
            return dict(self._reasons)
