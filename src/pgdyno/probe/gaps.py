"""Gaps in what the probes of a run have recorded: probes that are not possible with this server,
machine or role, and periods in which a probe had no answer.

Both are events in the run file, recorded once and never fatal. Figures of a measurement with gaps
are those of the rest; from these events it is decided whether a measurement is trusted.
"""

from __future__ import annotations

import threading
import time
from typing import Literal

from msgspec import Struct

from pgdyno.record import Recorder
from pgdyno.record.events import ProbeState, note_missing

Probe = Literal["server", "waits"]
NOT_SAMPLED: dict[Probe, str] = {
    "server": "the server's views were not read",
    "waits": "wait events were not sampled",
}


class _Gap(Struct):
    began_ns: int
    reason: str
    in_slice: bool


class Gaps:
    """Gaps of all probes of one run, for use by several threads."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lock = threading.Lock()
        self._open: dict[Probe, _Gap] = {}
        self._lost_ms: dict[Probe, float] = {}
        self._reasons: dict[Probe, str] = {}

    def lost(self, probe: Probe, reason: str) -> None:
        """Begin a gap of the probe, unless it already has one."""
        with self._lock:
            if probe in self._open:
                return
            in_slice = self._recorder.current_slice is not None
            gap = self._open[probe] = _Gap(time.monotonic_ns(), _one_line(reason), in_slice)
        detail = {"probe": probe, "reason": gap.reason, "state": ProbeState.AWAY}
        self._recorder.add_event("probe", f"{probe} away", detail, ns=gap.began_ns)

    def back(self, probe: Probe) -> None:
        """End the gap of the probe, if it has one."""
        if probe in self._open:
            self._close(probe, ProbeState.BACK)

    def close(self) -> None:
        """End all gaps; ``sentences`` reports those within slices."""
        for probe in list(self._open):
            self._close(probe, ProbeState.STILL_AWAY)

    def sentences(self) -> list[str]:
        """Return a sentence for each probe with gaps within slices."""
        return [
            f"{NOT_SAMPLED[probe]} for {lost_ms / 1000:.1f} s: {self._reasons[probe]}"
            for probe, lost_ms in self._lost_ms.items()
        ]

    def _close(self, probe: Probe, state: ProbeState) -> None:
        now_ns = time.monotonic_ns()
        with self._lock:
            gap = self._open.pop(probe, None)
            if gap is None:
                return
            away_ms = (now_ns - gap.began_ns) / 1e6
            if gap.in_slice:
                self._lost_ms[probe] = self._lost_ms.get(probe, 0.0) + away_ms
                self._reasons[probe] = gap.reason
        detail = {"probe": probe, "away_ms": away_ms, "reason": gap.reason, "state": state}
        self._recorder.add_event("probe", f"{probe} {state}", detail, ns=now_ns)


def _one_line(reason: str) -> str:
    """Return the first line of libpq's text; the others are general advice."""
    first = next((line for line in reason.splitlines() if line.strip()), "")
    shown = "".join(letter if letter.isprintable() else " " for letter in first)
    return " ".join(shown.split())[:200].rstrip(".")


class MissingProbes:
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
