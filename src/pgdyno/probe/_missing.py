"""What cannot be read on this server, machine or role: said once, never fatal."""

from __future__ import annotations

import threading

from pgdyno.record import Recorder


class Missing:
    """Probes that are not there and why; each becomes one event in the run file."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lock = threading.Lock()
        self._reasons: dict[str, str] = {}

    def add(self, probe: str, reason: str) -> None:
        """Note a probe as missing; only the first reason counts."""
        with self._lock:
            if probe in self._reasons:
                return
            self._reasons[probe] = reason
        self._recorder.add_event("probe", f"no {probe}", {"probe": probe, "reason": reason})

    def __contains__(self, probe: str) -> bool:
        return probe in self._reasons

    def reasons(self) -> dict[str, str]:
        """Probe → why it is not there."""
        with self._lock:
            return dict(self._reasons)
