"""What happened to the server during a run that nobody asked for: restarts, crashes, absences.

Read from the run file alone. What pgdyno does itself (an event ``restart``) is no incident, and
neither is what a drill breaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pgdyno.record.reader import RunFile
from pgdyno.record.rows import Event, Losses
from pgdyno.record.void import broken_links, difference, silences

NEAR_MS = 5_000
"""What is this close to a restart belongs to it."""


@dataclass(frozen=True)
class Incident:
    """Something that happened to the server."""

    at_ms: int
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """As results have it."""
        return {"at_s": round(self.at_ms / 1000, 1), "sentence": self.sentence}


def incidents(run: RunFile) -> list[Incident]:
    """What happened to the server, in time order; a restart speaks for the absence around it."""
    info = run.run
    if info.command == "drill":
        return []
    ours = [event.at_ms for event in run.events("restart")]
    found = sorted(_restarts(run, ours), key=lambda incident: incident.at_ms)
    for each in (*_absences(run), *_losses(run)):
        alone = all(abs(each.at_ms - other.at_ms) > NEAR_MS for other in found)
        if alone and all(abs(each.at_ms - at_ms) > NEAR_MS for at_ms in ours):
            found.append(each)
    return sorted(found, key=lambda incident: incident.at_ms)


def _restarts(run: RunFile, ours: list[int]) -> Iterator[Incident]:
    seen = run.sightings()
    for before, after in pairwise(seen):
        said = difference(before, after)
        if said and not any(before.at_ms <= at_ms <= after.at_ms for at_ms in ours):
            yield Incident(after.at_ms, said)


def _absences(run: RunFile) -> Iterator[Incident]:
    """The server did not answer: from the probes' own events, and from silences without one."""
    away: Event | None = None
    for event in run.events("probe"):
        if event.label == "server away":
            away = event
        elif event.label == "server back" and away is not None:
            seconds = (event.at_ms - away.at_ms) / 1000
            yield Incident(away.at_ms, f"the server was away for {seconds:.1f} s")
            away = None
    if away is not None:
        yield Incident(away.at_ms, "the server went away")
    pieces = [each for each in run.slices() if each.ended_ms is not None]
    for piece in pieces:
        for kind in (silences, broken_links):
            for silence in kind(run, piece.started_ms, piece.ended_ms or 0):
                yield Incident(silence.from_ms, str(silence))


def _losses(run: RunFile) -> Iterator[Incident]:
    """All connections lost within one interval."""
    losses: list[Losses] = run.losses()
    if not losses:
        return
    most = max((row.connections for row in run.intervals()), default=0)
    for loss in losses:
        if most and loss.count >= most:
            number = "the connection was" if most == 1 else f"all {most:,} connections were"
            yield Incident(loss.at_ms, f"{number} lost")
