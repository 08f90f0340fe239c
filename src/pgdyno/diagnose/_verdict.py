"""The verdict of a diagnosis: the limit, or that there is none, or that it is not known.

In this order:

- the finding of rank 1, unless more of the response time is unexplained than it explains;
- ``held``: the load holds its rate or its clients rest, so nothing limits it;
- ``unexplained``: less than four fifths of the response time are named, or a large part is not;
- ``nothing-found``: all of it is named, and none of it is a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from pgdyno.diagnose._attribution import NamedPart, all_named, unexplained
from pgdyno.facts.budget import PART_MAX, Part, part_words
from pgdyno.facts.headroom import Held
from pgdyno.numbers import figure, percent, rounded
from pgdyno.record.finding import HELD, NOTHING, UNEXPLAINED, Finding

_LISTED_MAX = 3
_LITTLE_HEADROOM = 1.2
_MUCH_HEADROOM = 20.0

_WOULD_TELL: dict[Part, str] = {
    "pool wait": "the connections in use by group",
    "connecting": "the phases of connecting, and the server's log_connections",
    "queue": "more clients at the same rate",
    "client lag": "a load generator on another machine",
    "late": "a load generator on another machine",
    "ready": "other programs on the machine, and limits of CPU time (cgroups)",
    "replica": "pg_stat_replication, and the standby's disk and network",
    "relation": "log_lock_waits, and pg_locks while sessions wait",
    "lock": "log_lock_waits, and pg_locks while sessions wait",
    "advisory": "log_lock_waits, and pg_locks while sessions wait",
    "row": "log_lock_waits, and pg_locks while sessions wait",
    "client": "the application's own profile between its statements",
    "between": "the round trip time to the server, and what stands in between",
    "web server": "the web server's own figures: its threads, its pool, its CPU time",
    "http": "the CPU time of client and web server, and the network between them",
    "application": "a profile of the application (Java Flight Recorder)",
    "data": "track_io_timing, and the disk's own latency",
    "extend": "track_io_timing, and the disk's own latency",
    "temp": "log_temp_files",
    "parallel": "EXPLAIN (ANALYZE) of the parallel statements",
    "wait for LSN": "pg_stat_replication on the primary, pg_stat_recovery on the standby",
    "unknown": "samples of pg_stat_activity (pg_monitor)",
}
_TELLS_BY_DEFAULT = "a profile of the server's processes (perf, pg_stat_activity)"


class LimitVerdict(Struct, frozen=True):
    """An id and a sentence; the id is a finding's, or one of those above."""

    finding: str
    sentence: str

    def to_json(self) -> dict[str, str]:
        """Return the form in results."""
        return {"finding": self.finding, "sentence": self.sentence}


def verdict_of(
    findings: Iterable[Finding], parts: Sequence[NamedPart], held: Held | None
) -> LimitVerdict:
    """Return the verdict; ``parts`` are empty if the response time is not known."""
    first = next((finding for finding in findings if finding.rank == 1), None)
    if first is not None and not _outweighed(first, parts):
        return LimitVerdict(first.id, first.sentence)
    if held is not None and first is None:
        return LimitVerdict(HELD, _held_sentence(held, parts))
    if first is not None or not all_named(parts):
        return LimitVerdict(UNEXPLAINED, _unexplained_sentence(parts, first))
    return LimitVerdict(
        NOTHING, f"nothing holds the load back: its response time is {_largest_words(parts)}"
    )


def _outweighed(first: Finding, parts: Sequence[NamedPart]) -> bool:
    """True if a part is unexplained that is larger than what the first finding explains."""
    if first.is_about_to_fail or first.causes_distrust or first.momentary:
        return False
    explained = max(PART_MAX, first.share or 0.0)
    return any(part.unexplained >= explained for part in unexplained(parts))


def _held_sentence(held: Held, parts: Sequence[NamedPart]) -> str:
    rate = f"{figure(held.throughput_tps)} tps"
    first = (
        f"the load's rate of {rate} is held"
        if held.has_rate
        else f"the clients rest between transactions, and their {rate} are held"
    )
    of = f": {_largest_words(parts)}" if parts else ""
    response_ms = sum(part.ms for part in parts)
    return f"{first}{_headroom_words(held)}; a response of {figure(response_ms)} ms{of}"


def _headroom_words(held: Held) -> str:
    busy = "" if held.busy_share is None else f", the cores are {percent(held.busy_share)} busy"
    if held.headroom is None:
        return busy
    if held.headroom < _LITTLE_HEADROOM:
        return f"{busy}, and little more is expected of these clients"
    if held.headroom > _MUCH_HEADROOM:
        return f"{busy}, and more than {_MUCH_HEADROOM:g} times as much is expected to be possible"
    return f"{busy}, and about {figure(held.headroom)} times as much is expected to be possible"


def _unexplained_sentence(parts: Sequence[NamedPart], first: Finding | None) -> str:
    missing = unexplained(parts)
    if not missing:
        return "unexplained: where the response time goes was not recorded"
    of = " of the response time"
    listed = ", ".join(
        f"{percent(p.unexplained)}{'' if number else of} in {event_words(p)}"
        for number, p in enumerate(missing[:_LISTED_MAX])
    )
    tells = dict.fromkeys(_WOULD_TELL.get(p.part, _TELLS_BY_DEFAULT) for p in missing[:2])
    also = f"; also found: {first.id.replace('-', ' ')}" if first is not None else ""
    return f"unexplained: {listed}; {'; '.join(tells)} would tell{also}"


def _largest_words(parts: Sequence[NamedPart]) -> str:
    """The largest parts, rounded from what results hold, as the line of the mean is."""
    largest = parts[:_LISTED_MAX]
    return ", ".join(f"{percent(rounded(p.share))} {part_words(p.part)}" for p in largest)


def event_words(part: NamedPart) -> str:
    """Return a part in words, with the name of its most frequent wait event."""
    return (
        f"{part.events[0][0]} ({part_words(part.part)})" if part.events else part_words(part.part)
    )
