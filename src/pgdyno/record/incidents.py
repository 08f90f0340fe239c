"""Incidents: unrequested restarts, crashes, promotions and absences of the server during a run.

They are found in the run file. Restarts by pgdyno itself (an event ``restart``) and faults of a
drill are not incidents.
"""

from collections.abc import Iterator
from typing import NamedTuple

from pgdyno.record._reader import RunFile
from pgdyno.record._rows import Event
from pgdyno.record.events import ProbeState, probe_events
from pgdyno.record.failures import is_answer
from pgdyno.record.part import Fact
from pgdyno.record.void import (
    SILENT_MS_MIN,
    IncidentCause,
    Silence,
    broken_links,
    complete_losses,
    restarts,
    silences,
)

NEAR_MS = 5_000
"""Events this close to a restart belong to it."""
INTERVAL_MS = 1_000
_REFUSED = ("28", "3D", "42", "53", "55")
"""Classes of SQLSTATEs with which a running server refuses connections."""


class Incident(Fact):
    """An unplanned restart, crash or absence of the server during a run"""

    at_s: float
    cause: IncidentCause
    sentence: str


class _Sighted(NamedTuple):
    """An incident, with the time that it lasted."""

    at_ms: int
    cause: IncidentCause
    sentence: str
    lasted_ms: int = 0
    """0: a moment, or until the end of the run."""

    def is_near(self, at_ms: int, lasted_ms: int) -> bool:
        """Return whether it happened at about the same time as another event."""
        return (
            self.at_ms - NEAR_MS <= at_ms + lasted_ms
            and at_ms - NEAR_MS <= self.at_ms + self.lasted_ms
        )


def incidents(run: RunFile) -> tuple[Incident, ...]:
    """Return the incidents in time order; an absence around a restart is not listed separately."""
    info = run.run
    if info.command == "drill":
        return ()
    ours = [event.at_ms for event in run.events("restart")]
    restarted = list(restarts(run, run.sightings()))
    found = [
        _Sighted(each.after.at_ms, each.difference.cause, each.difference.sentence)
        for each in restarted
    ]
    # A restart happened between two sightings, which are far apart on a busy machine.
    spans = [(each.before.at_ms, each.after.at_ms - each.before.at_ms) for each in restarted]
    spans += [(at_ms, 0) for at_ms in ours]
    for each in (*_absences(run), *_losses(run)):
        if not any(each.is_near(at_ms, lasted_ms) for at_ms, lasted_ms in spans):
            found.append(each)
            spans.append((each.at_ms, each.lasted_ms))
    return tuple(
        Incident(at_s=round(each.at_ms / 1000, 1), cause=each.cause, sentence=each.sentence)
        for each in sorted(found or _ends(run), key=lambda sighted: sighted.at_ms)
    )


def _ends(run: RunFile) -> Iterator[_Sighted]:
    """Yield the end of a server that ended the run before a probe missed it."""
    for event in run.events("ending"):
        if event.detail["code"] == "server-gone":
            yield _Sighted(event.at_ms, IncidentCause.ABSENCE, "the server went away")


def _absences(run: RunFile) -> Iterator[_Sighted]:
    """Yield times without answers: from the probes' events, and from silences without an event.

    A gap of the probes during which clients were served is no absence of the server.
    """
    for away, back in _gaps(run):
        if not _served(run, away.at_ms, back.at_ms if back else None):
            yield _absence(run, away, back)
    for silence in (*silences(run), *broken_links(run)):
        lasted_ms = silence.to_ms - silence.from_ms
        if _measured_ms(run, silence) >= SILENT_MS_MIN:
            yield _Sighted(silence.from_ms, silence.cause, str(silence), lasted_ms)


def _gaps(run: RunFile) -> Iterator[tuple[Event, Event | None]]:
    """Yield the beginning and the end of each gap of the server's probes; None: it did not end."""
    away: Event | None = None
    for event in probe_events(run, "server"):
        if ProbeState.AWAY.is_of(event):
            away = event
        elif ProbeState.BACK.is_of(event) and away is not None:
            yield away, event
            away = None
    if away is not None:
        yield away, None


def _served(run: RunFile, from_ms: int, to_ms: int | None) -> bool:
    """True if a transaction was done in an interval that lies within the period."""
    return any(
        row.done
        and row.at_ms >= from_ms
        and (to_ms is None or row.at_ms + row.duration_ms <= to_ms)
        for row in run.intervals()
    )


def _absence(run: RunFile, away: Event, back: Event | None) -> _Sighted:
    """Return an absence seen by the probes, or the refusals of a running server that caused it."""
    for refusal in run.refusals():
        late = back is not None and refusal.at_ms > back.at_ms
        if refusal.at_ms < away.at_ms - INTERVAL_MS or late:
            continue
        if is_answer(refusal.sqlstate) and refusal.sqlstate.startswith(_REFUSED):
            said = f"the server refused to connect: {refusal.sqlstate} {refusal.message}"
            lasted_ms = back.at_ms - away.at_ms if back else 0
            return _Sighted(away.at_ms, IncidentCause.REFUSAL, said, lasted_ms)
    if back is None:
        return _Sighted(away.at_ms, IncidentCause.ABSENCE, "the server went away")
    away_ms = back.at_ms - away.at_ms
    sentence = f"the server was away for {away_ms / 1000:.1f} s"
    return _Sighted(away.at_ms, IncidentCause.ABSENCE, sentence, away_ms)


def _measured_ms(run: RunFile, silence: Silence) -> int:
    """Return the part of a silence within slices; between slices, clients may be connecting."""
    spans = [(piece.started_ms, piece.ended_ms or silence.to_ms) for piece in run.slices()]
    shares = (min(end, silence.to_ms) - max(start, silence.from_ms) for start, end in spans)
    return sum(max(0, share) for share in shares)


def _losses(run: RunFile) -> Iterator[_Sighted]:
    """Yield the losses of all connections."""
    for at_ms, sentence in complete_losses(run):
        yield _Sighted(at_ms, IncidentCause.LOST_CONNECTIONS, sentence)
