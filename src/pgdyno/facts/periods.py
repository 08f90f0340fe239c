"""Periods of a run that are long enough for a diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgdyno.record import RunFile

SECONDS_MIN = 1
"""Shortest period that is diagnosed: the probes read the server's views once a second."""
_SLACK_S = 0.05
"""Time by which a period may be shorter than requested."""


def too_short(run: RunFile, slice_ids: list[int]) -> str | None:
    """Return the reason if the slices are too short for a diagnosis, else None."""
    seconds = run.seconds(slice_ids)
    if seconds >= SECONDS_MIN - _SLACK_S:
        return None
    return f"{seconds:.2g} s measured, {SECONDS_MIN} s is needed"
