"""Events of a run file by kind: states of probes, interventions of pgdyno, decisions of a governor.

An intervention is a checkpoint, a vacuum or a flush of the WAL by pgdyno at the edge of a slice. It
has a kind of its own, since no finding may be about it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from pgdyno.json_types import Json
    from pgdyno.record._reader import RunFile
    from pgdyno.record._recorder import Recorder
    from pgdyno.record._rows import Event

OWN = "own"
"""Kind of the interventions."""
GOVERN = "govern"
"""Kind of a decision of the governor."""
GOVERNED = "governed"
"""Kind of the event with the governor's summary, at its end."""
SESSION_SETTINGS = "settings of the load's sessions"
"""The probe that asks once which of them are not at their built-in value."""
STATEMENTS = "pg_stat_statements"
"""The probe whose events have the ``count`` of evictions."""


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


def evictions_in(run: RunFile, slice_ids: Collection[int]) -> int:
    """Return how often statements were evicted because pg_stat_statements was full; their counts
    are lost."""
    return sum(
        int(each.detail.get("count", 0))
        for each in probe_events(run, STATEMENTS)
        if each.slice_id in slice_ids
    )


def statements_absent(run: RunFile) -> str | None:
    """Return the reason why pg_stat_statements could not be read; None if it could."""
    reasons = (each.detail.get("reason") for each in probe_events(run, STATEMENTS))
    return next((str(reason) for reason in reasons if reason), None)


def probe_events(run: RunFile, probe: str) -> list[Event]:
    """Return the events of the kind ``probe`` of one probe."""
    return [each for each in run.events("probe") if each.detail.get("probe") == probe]


def own_events(run: RunFile, slice_ids: Collection[int] | None = None) -> list[Event]:
    """Return the interventions, or those within some slices."""
    wanted = None if slice_ids is None else set(slice_ids)
    return [each for each in run.events(OWN) if wanted is None or each.slice_id in wanted]


def overlaps_own(events: Collection[Event], began_ms: float, ended_ms: float) -> bool:
    """Return whether any of these interventions took place within a period."""
    return any(
        each.at_ms < ended_ms and each.at_ms + (each.duration_ms or 0.0) >= began_ms
        for each in events
    )


def governed_in(run: RunFile) -> Json | None:
    """Return the governor's summary; None for a run without a governor."""
    events = run.events(GOVERNED)
    return events[-1].detail if events else None
