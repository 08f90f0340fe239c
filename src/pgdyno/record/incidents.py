"""What happened to the server during a run that nobody asked for: restarts, crashes,
promotions, absences.

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
    lasted_ms: int = 0

    def is_near(self, at_ms: int, lasted_ms: int = 0) -> bool:
        """Whether something else happened about then."""
        return (
            self.at_ms - NEAR_MS <= at_ms + lasted_ms
            and at_ms - NEAR_MS <= self.at_ms + self.lasted_ms
        )

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
        told = any(each.is_near(other.at_ms, other.lasted_ms) for other in found)
        if not told and not any(each.is_near(at_ms) for at_ms in ours):
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
            away_ms = event.at_ms - away.at_ms
            said = f"the server was away for {away_ms / 1000:.1f} s"
            yield Incident(away.at_ms, said, away_ms)
            away = None
    if away is not None:
        yield Incident(away.at_ms, "the server went away")
    for piece in run.slices():
        for kind in (silences, broken_links):
            for silence in kind(run, piece):
                yield Incident(silence.from_ms, str(silence), silence.to_ms - silence.from_ms)


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
