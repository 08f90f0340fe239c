"""Interventions of pgdyno in the server under load: checkpoints, vacuums and flushes of the WAL at
the edges of slices. They are events of a kind of their own, since no finding may be about them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgdyno.record._reader import RunFile
    from pgdyno.record._rows import Event

OWN = "own"
"""The kind of their events."""


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
