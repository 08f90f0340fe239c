"""Void slices, which decide nothing, and the absences of the server in a run.

A slice is void if during it the server was away, restarted or promoted, a client group did nothing,
or clients were not connected. In a trial it is also void if others restarted the server after the
slice before.
All is derived from the run file.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum
from itertools import groupby, pairwise
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.json_types import Fields
from pgdyno.numbers import percent
from pgdyno.record._reader import RunFile
from pgdyno.record._rows import GroupInterval, Interval, Losses, Sighting, Slice
from pgdyno.record.failures import commonest, is_answer
from pgdyno.spec.connections import KeptConnections, kept_connections

AWAY_SHARE_MAX = 0.1
"""Share of a slice in which the server may answer nobody, or clients may lack connections. A
shorter absence is part of the measurement, like a stall."""
VOID_SHARE_MAX = 0.1
"""Share of a run's measured time that may be in void slices; figures are over the others."""
SAMPLING_MS = 1_100
"""Period over which the states of sessions are summed: a second, and some delay."""
SLEEP = "\\\\sleep"
"""The meta-command as it is in the spec's JSON."""
_SLEEPS = (SLEEP, "pg_sleep")
"""Text in the scripts of a group whose transactions may last longer than a slice."""
SILENT_MS_MIN = 2_000
"""Minimum of an absence: the probes sample once a second, and one late answer is none."""
CONNECT = "connect"
"""The statement that the load engine records for an error while connecting."""
ADJACENT_MS = 1_100
"""Time between the starts of two intervals of which one follows the other."""
EDGE_MS = 50
"""Time by which an interval may exceed a silence, since their clock readings differ."""


class IncidentCause(StrEnum):
    """The cause of a void slice or of an incident."""

    REPLACEMENT = "replacement"
    """Another server answered at the same address."""
    RESTART = "restart"
    CRASH = "crash"
    PROMOTION = "promotion"
    LOST_CONNECTIONS = "lost connections"
    NO_CONNECTIONS = "no connections"
    """Clients lacked connections, or could not connect."""
    REFUSAL = "refusal"
    """A running server refused to connect."""
    ABSENCE = "absence"
    """The server went away, as its probes saw."""
    NO_ANSWERS = "no answers"
    NO_DATA = "no data"
    """No data passed between clients and server, whose sessions were idle."""
    FAILURES = "failures"
    """No transaction succeeded."""
    NOTHING_DONE = "nothing done"
    """No transaction ended, and none failed."""


_CRASHED = {
    "57P02": (IncidentCause.CRASH, "a process of the server crashed, which ended all sessions"),
    "57P03": (IncidentCause.RESTART, "the server was starting up or shutting down"),
}


class Silence(Struct, frozen=True):
    """A period in which the server answered neither the clients nor the probes, or the clients did
    not reach the server."""

    from_ms: int
    to_ms: int
    idle_ms: float
    """Duration of its intervals, in which nothing was done."""
    cause: IncidentCause = IncidentCause.NO_ANSWERS
    """NO_DATA if the connections were broken: the server waited for the clients."""

    def __str__(self) -> str:
        seconds = f"{self.idle_ms / 1000:.1f} s"
        if self.cause is IncidentCause.NO_ANSWERS:
            return f"no client got an answer for {seconds}"
        return f"no data passed between clients and server for {seconds}"


class Connected(Struct, frozen=True):
    """Number of a group's clients that had a connection, over some intervals."""

    group: str
    expected: int
    connections_max: int
    """The largest number of connections in an interval."""
    unconnected_share: float
    """Share of the clients' time without a connection."""

    @property
    def never_complete(self) -> bool:
        """True if at no time all expected connections were open."""
        return self.connections_max < self.expected


class VoidReason(Struct, frozen=True):
    """The reason why a slice is void."""

    cause: IncidentCause
    sentence: str


def void_reason(run: RunFile, each: Slice, fields: Fields) -> VoidReason | None:
    """Return the reason why a slice is void, or None.

    ``fields`` are those of the spec with the slice's change in them.
    """
    if not each.kind.may_be_void:
        return None
    reasons = (reason for check in _CHECKS if (reason := check(run, each)))
    return next(reasons, None) or _unconnected(run, each, fields)


def void_share(slices: Collection[Slice]) -> float:
    """Return the share of the time of ``slices`` that is in void ones."""
    lasted_ms = [(each.ended_ms or each.started_ms) - each.started_ms for each in slices]
    void_ms = sum(ms for each, ms in zip(slices, lasted_ms, strict=True) if each.void is not None)
    return void_ms / (sum(lasted_ms) or 1)


_DIFFERENCES = (
    ("system_identifier", VoidReason(IncidentCause.REPLACEMENT, "another server answered")),
    ("started_unix_ms", VoidReason(IncidentCause.RESTART, "the server was restarted")),
    ("checkpointer_unix_ms", VoidReason(IncidentCause.CRASH, "the server crashed and recovered")),
)
_PROMOTED = VoidReason(IncidentCause.PROMOTION, "the server was promoted")


def difference(before: Sighting, after: Sighting) -> VoidReason | None:
    """Return the difference between the server that answered and the one before; None if it is the
    same."""
    for name, found in _DIFFERENCES:
        old, new = getattr(before, name), getattr(after, name)
        if None not in (old, new) and old != new:
            return found
    promoted = before.in_recovery == 1 and after.in_recovery == 0
    return _PROMOTED if promoted else None


def silences(run: RunFile, each: Slice | None = None) -> Iterator[Silence]:
    """Yield the periods of a slice, or of the whole run, in which nobody received an answer; none
    if the server was never probed."""
    intervals = _intervals(run, each)
    if not intervals or (each and each.ended_ms is None) or not run.was_probed:
        return
    began, ended = intervals[0].at_ms, round(intervals[-1].at_ms + intervals[-1].duration_ms)
    if each and each.ended_ms is not None:
        began, ended = each.started_ms, each.ended_ms
    edges = [began, *run.answered_ms(began, ended), ended]
    with_errors = run.answered_with_errors_ms(is_answer)
    starts_ms = [interval.at_ms for interval in intervals]
    for a, b in pairwise(edges):
        if b - a < SILENT_MS_MIN:
            continue
        first, last = bisect_left(starts_ms, a - EDGE_MS), bisect_right(starts_ms, b + EDGE_MS)
        inside = [interval for interval in intervals[first:last] if _within(interval, a, b)]
        idle = [i for i in inside if not i.done and _due(i) and i.at_ms not in with_errors]
        if idle:
            yield Silence(a, b, _length_ms(idle))


def broken_links(run: RunFile, each: Slice | None = None) -> Iterator[Silence]:
    """Yield the periods of a slice, or of the whole run, in which clients waited for answers while
    all sessions were idle.

    None for scripts that sleep, during which the session is idle as well, and for requests to a
    web server, whose sessions they are.
    """
    periods = list(_idle_periods(run, _intervals(run, each)))
    if periods and (run.run.spec.get("http") or SLEEP in json.dumps(run.run.spec)):
        return
    for idle in periods:
        began, ended = idle[0].at_ms, round(idle[-1].at_ms + idle[-1].duration_ms)
        # The first sampling may include a time before the period.
        active = run.active_sessions(began + SAMPLING_MS, ended)
        if active and not any(active):
            yield Silence(began, ended, _length_ms(idle), IncidentCause.NO_DATA)


def _intervals(run: RunFile, each: Slice | None) -> list[Interval]:
    return run.intervals(None if each is None else [each.id])


def _idle_periods(run: RunFile, intervals: list[Interval]) -> Iterator[list[Interval]]:
    """Yield runs of consecutive intervals in which transactions waited and nobody was answered,
    not even with an error, if they last long enough."""
    with_errors = run.answered_with_errors_ms(is_answer)
    for idle, group in groupby(
        intervals, lambda i: not i.done and i.backlog > 0 and i.at_ms not in with_errors
    ):
        consecutive = list(group)
        if idle and _length_ms(consecutive) >= SILENT_MS_MIN:
            yield consecutive


def _length_ms(intervals: list[Interval]) -> float:
    return sum(each.duration_ms for each in intervals)


def connected(run: RunFile, each: Slice, kept: Mapping[str, KeptConnections]) -> list[Connected]:
    """Return the connections of the groups in ``kept`` whose number is known.

    A pool opens connections when it needs them, and clients may end: a smaller number then means
    nothing, unless connecting failed.
    """
    found = []
    rows = run.group_intervals([each.id])
    for group, connections in kept.items():
        of_group = [row for row in rows if row.client_group == group and row.clients]
        known = connections.fixed or any(row.connect_failures for row in of_group)
        if of_group and known:
            expected = [connections.expected(row.clients) for row in of_group]
            found.append(_connected(group, of_group, expected))
    return found


def _connected(group: str, rows: list[GroupInterval], expected: list[int]) -> Connected:
    pairs = list(zip(rows, expected, strict=True))
    missing = sum(max(0, n - row.connections) * row.duration_ms for row, n in pairs)
    total = sum(n * row.duration_ms for row, n in pairs)
    closest, expected_then = max(pairs, key=lambda pair: pair[0].connections - pair[1])
    share = missing / total if total else 0.0
    return Connected(group, expected_then, closest.connections, share)


def _restarted(run: RunFile, each: Slice) -> VoidReason | None:
    sightings = [sighting for sighting in run.sightings() if sighting.slice_id == each.id]
    for before, after in pairwise(sightings):
        if found := difference(before, after):
            return found
    codes = {error.sqlstate for error in run.errors([each.id])}
    return next((VoidReason(*why) for code, why in _CRASHED.items() if code in codes), None)


class Restart(NamedTuple):
    """A restart or replacement of the server between two sightings."""

    before: Sighting
    after: Sighting
    difference: VoidReason
    """Of the two, such as ``the server was restarted``."""


def restarts(run: RunFile, sightings: list[Sighting]) -> Iterator[Restart]:
    """Yield the restarts and replacements of the server by others, between two of ``sightings``.

    Restarts by pgdyno itself have an event ``restart``.
    """
    ours = [event.at_ms for event in run.events("restart")]
    for before, after in pairwise(sightings):
        found = difference(before, after)
        if found and not any(before.at_ms <= at_ms <= after.at_ms for at_ms in ours):
            yield Restart(before, after, found)


def _restarted_before(run: RunFile, each: Slice) -> VoidReason | None:
    """Return the restart between the slice of a trial and the slice before, if there was one.

    It has emptied the server's caches, which the other slice of the pair had filled.
    """
    earlier = [other for other in run.slices() if other.id < each.id and other.ended_ms]
    if each.trial_id is None or not earlier:
        return None
    since_ms, until_ms = earlier[-1].ended_ms or 0, each.ended_ms or each.started_ms
    sightings = run.sightings()
    last = [sighting for sighting in sightings if sighting.at_ms <= since_ms][-1:]
    later = [sighting for sighting in sightings if since_ms < sighting.at_ms <= until_ms]
    for found in (restart.difference for restart in restarts(run, [*last, *later])):
        return replace(found, sentence=f"{found.sentence} before it began")
    return None


def _lost_all(run: RunFile, each: Slice) -> VoidReason | None:
    for _, lost in complete_losses(run, [each.id]):
        then = _connect_error(run, each, ", and then: ")
        return VoidReason(IncidentCause.LOST_CONNECTIONS, f"{lost}{then}")
    return None


def complete_losses(
    run: RunFile, slice_ids: Collection[int] | None = None
) -> list[tuple[int, str]]:
    """Return the losses, at once, of at least as many connections as were ever open: when in ms,
    and the sentence.

    At once is within an interval, or within two of which the first ended meanwhile.
    """
    most = max((row.connections for row in run.intervals(slice_ids)), default=0)
    sentence = "the connection was lost" if most == 1 else f"all {most:,} connections were lost"
    found, before = [], Losses(0, None, 0)
    for loss in run.losses(slice_ids):
        follows = before.count and loss.at_ms - before.at_ms <= ADJACENT_MS
        lost = loss.count + (before.count if follows else 0)
        complete = 0 < most <= lost
        if complete:
            found.append((before.at_ms if lost > loss.count else loss.at_ms, sentence))
        # What has made a loss complete belongs to no other one.
        before = Losses(0, None, 0) if complete else loss
    return found


def _connect_error(run: RunFile, each: Slice, before: str) -> str:
    """Return the first error of clients that tried to connect, after ``before``; '' if none."""
    errors = (*run.errors([each.id]), *run.errors())
    refused = [error for error in errors if error.statement == CONNECT]
    if not refused:
        return ""
    return f"{before}{refused[0].sqlstate} {refused[0].message}"


def _silent(run: RunFile, each: Slice) -> VoidReason | None:
    if each.ended_ms is None:
        return None
    allowed_ms = AWAY_SHARE_MAX * (each.ended_ms - each.started_ms)
    for periods in (silences, broken_links):
        found = list(periods(run, each))
        idle_ms = sum(silence.idle_ms for silence in found)
        if found and idle_ms > allowed_ms:
            return VoidReason(found[0].cause, str(replace(found[0], idle_ms=idle_ms)))
    return None


def _nothing_done(run: RunFile, each: Slice) -> VoidReason | None:
    return _nothing_done_by(run, each, None)


def _group_did_nothing(run: RunFile, each: Slice) -> VoidReason | None:
    """Return the reason for the first of several client groups that did nothing."""
    names = dict.fromkeys(row.client_group for row in run.group_intervals([each.id]))
    if len(names) < 2:
        return None
    reasons = (_nothing_done_by(run, each, name) for name in names)
    return next((reason for reason in reasons if reason), None)


def _nothing_done_by(run: RunFile, each: Slice, group: str | None) -> VoidReason | None:
    """Return the reason if all clients, or those of ``group``, did none of the transactions due."""
    ledger = run.ledger([each.id], group=group)
    due = ledger.intended + ledger.carried_in
    if ledger.done or not due:
        return None
    errors = [e for e in run.errors([each.id]) if group in (None, e.client_group)]
    if failed := commonest(errors):
        of_group = f" of client group {group}" if group else ""
        return VoidReason(IncidentCause.FAILURES, f"no transaction{of_group} succeeded: {failed}")
    if group and _may_take_so_long(run, each, group):
        return None
    by_group = f" by client group {group}" if group else ""
    number = f"{due:,} {'transaction was' if due == 1 else 'transactions were'} due"
    return VoidReason(IncidentCause.NOTHING_DONE, f"nothing was done{by_group}, and {number}")


def _may_take_so_long(run: RunFile, each: Slice, group: str) -> bool:
    """True if the transactions of a group may have lasted until the end of the slice.

    All are then under way, and the last of them have just begun, sleep, or have taken as long in
    this run before.
    """
    rows = [row for row in run.intervals([each.id], by=("client_group",))
            if row.client_group == group]  # fmt: skip
    ledger = run.ledger([each.id], group=group)
    if not rows or ledger.backlog > rows[-1].clients or ledger.skipped or ledger.cancelled:
        return False
    if not ledger.carried_in and not any(row.intended for row in rows[:-1]):
        return True
    spec = run.run.spec
    groups = {fields.get("name"): fields for fields in spec.get("clients") or []}
    scripts = groups.get(group, {}).get("script") or spec.get("workload")
    if any(sleep in json.dumps(scripts) for sleep in _SLEEPS):
        return True
    longest_ms = run.histogram("response", None, group=group).max / 1e6
    return longest_ms >= (each.ended_ms or each.started_ms) - each.started_ms


def _unconnected(run: RunFile, each: Slice, fields: Fields) -> VoidReason | None:
    several = len(fields.get("clients") or []) > 1
    for group in connected(run, each, kept_connections(fields)):
        of_group = f" of {group.group}" if several else ""
        if group.never_complete:
            most = f"{group.connections_max:,}" if group.connections_max else "none"
            sentence = f"{most} of {group.expected:,} clients{of_group} had a connection"
            why = _connect_error(run, each, ": ")
            return VoidReason(IncidentCause.NO_CONNECTIONS, f"{sentence}{why}")
        if group.unconnected_share > AWAY_SHARE_MAX:
            share = percent(group.unconnected_share)
            sentence = f"clients{of_group} were without a connection for {share} of their time"
            return VoidReason(IncidentCause.NO_CONNECTIONS, sentence)
    return None


def _unreachable(run: RunFile, each: Slice) -> VoidReason | None:
    """Return the reason if a group could not connect for too much of the slice.

    Clients that connect for each transaction have no fixed number of connections: counted are
    intervals in which a group had transactions due, no connection and nothing done.
    """
    groups: dict[str, list[GroupInterval]] = {}
    for row in run.group_intervals([each.id]):
        groups.setdefault(row.client_group, []).append(row)
    by_interval = {(row.client_group, row.at_ms): row
                   for row in run.intervals([each.id], by=("client_group",))}  # fmt: skip
    for group, rows in groups.items():
        if not any(row.connect_failures for row in rows):
            continue
        idle_ms = sum(
            row.duration_ms
            for row in rows
            if not row.connections
            and (counts := by_interval.get((group, row.at_ms))) is not None
            and not counts.done
            and _due(counts)
        )
        share = idle_ms / (sum(row.duration_ms for row in rows) or 1.0)
        if share > AWAY_SHARE_MAX:
            of_group = f" of {group}" if len(groups) > 1 else ""
            why = _connect_error(run, each, ": ")
            sentence = f"clients{of_group} could not connect for {percent(share)} of the time{why}"
            return VoidReason(IncidentCause.NO_CONNECTIONS, sentence)
    return None


_Check = Callable[[RunFile, Slice], VoidReason | None]
_CHECKS: tuple[_Check, ...] = (
    _restarted,
    _restarted_before,
    _lost_all,
    _unreachable,
    _silent,
    _nothing_done,
    _group_did_nothing,
)


def _within(interval: Interval, began: int, ended: int) -> bool:
    last_ms = interval.at_ms + interval.duration_ms
    return interval.at_ms >= began - EDGE_MS and last_ms <= ended + EDGE_MS


def _due(interval: Interval) -> bool:
    return interval.intended > 0 or interval.backlog > 0
