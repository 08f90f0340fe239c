"""Stretches in which a probe had no answer: each is an event with its reason, and told at the end.

Figures of a period that nobody looked at are figures of the rest; how much of a measurement that
may be is decided where its trust is, from these events in the run file.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Literal

from pgdyno.record import Recorder

Probe = Literal["server", "waits"]
WHAT: dict[Probe, str] = {
    "server": "the server's views were not read",
    "waits": "what sessions wait for was not sampled",
}


@dataclass
class _Gap:
    began_ns: int
    reason: str
    in_slice: bool


class Gaps:
    """Gaps of all probes of one run. Threads may share it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lock = threading.Lock()
        self._open: dict[Probe, _Gap] = {}
        self._lost_ms: dict[Probe, float] = {}
        self._reasons: dict[Probe, str] = {}

    def lost(self, probe: Probe, reason: str) -> None:
        """The probe has no answer from now on, if it had until now."""
        with self._lock:
            if probe in self._open:
                return
            in_slice = self._recorder.current_slice is not None
            gap = self._open[probe] = _Gap(time.monotonic_ns(), _one_line(reason), in_slice)
        detail = {"probe": probe, "reason": gap.reason}
        self._recorder.add_event("probe", f"{probe} away", detail, ns=gap.began_ns)

    def back(self, probe: Probe) -> None:
        """The probe has an answer, maybe again."""
        if probe in self._open:
            self._close(probe, "back")

    def close(self) -> None:
        """End what is open; what was lost while something was measured is told by sentences."""
        for probe in list(self._open):
            self._close(probe, "still away")

    def sentences(self) -> list[str]:
        """A sentence for each probe with gaps in what was measured."""
        return [
            f"{WHAT[probe]} for {lost_ms / 1000:.1f} s: {self._reasons[probe]}"
            for probe, lost_ms in self._lost_ms.items()
        ]

    def _close(self, probe: Probe, how: str) -> None:
        now_ns = time.monotonic_ns()
        with self._lock:
            gap = self._open.pop(probe, None)
            if gap is None:
                return
            away_ms = (now_ns - gap.began_ns) / 1e6
            if gap.in_slice:
                self._lost_ms[probe] = self._lost_ms.get(probe, 0.0) + away_ms
                self._reasons[probe] = gap.reason
        detail = {"probe": probe, "away_ms": away_ms, "reason": gap.reason}
        self._recorder.add_event("probe", f"{probe} {how}", detail, ns=now_ns)


def _one_line(reason: str) -> str:
    """Of libpq's text its first line; what follows is advice on every lost connection."""
    first = next((line for line in reason.splitlines() if line.strip()), "")
    shown = "".join(letter if letter.isprintable() else " " for letter in first)
    return " ".join(shown.split())[:200].rstrip(".")
