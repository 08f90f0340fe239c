"""The summary that the governor of a run leaves in the run file at its end."""

from __future__ import annotations

from pgdyno.json_types import Json
from pgdyno.record._reader import RunFile

GOVERN = "govern"
"""Kind of the event of a decision."""
GOVERNED = "governed"
"""Kind of the event with the summary."""


def governed_in(run: RunFile) -> Json | None:
    """Return the summary; None for a run without a governor."""
    events = run.events(GOVERNED)
    return events[-1].detail if events else None
