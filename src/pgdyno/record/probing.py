"""Events of probes: those that cannot measure, and gaps in the answers of others."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgdyno.record._recorder import Recorder
    from pgdyno.record._rows import Event


class ProbeState(StrEnum):
    """State of a probe at an event of the kind ``probe``, as its detail has it."""

    MISSING = "missing"
    """It cannot measure on this server, on this machine or with this role."""
    AWAY = "away"
    """It has no answer from now on."""
    BACK = "back"
    """It has answers again."""
    STILL_AWAY = "still away"
    """It had no answer until the end."""

    def is_of(self, event: Event) -> bool:
        """Return whether ``event`` says that a probe is in this state."""
        return event.detail.get("state") == self


def note_missing(recorder: Recorder, probe: str, reason: str) -> None:
    """Record that a probe cannot measure."""
    detail = {"probe": probe, "reason": reason, "state": ProbeState.MISSING}
    recorder.add_event("probe", f"no {probe}", detail)
