"""Which slices are void, and why: the server was away, restarted or promoted, nothing was done, or
clients stayed unconnected while it was measured; or, in a trial, others restarted the server since
the slice before. Such a slice decides nothing.

Judged from what was recorded alone: when a slice is closed, and again whenever a run file is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from pgdyno.record._reader import RunFile
from pgdyno.record._rows import GroupInterval, Interval, Sighting, Slice
from pgdyno.record.failures import commonest, is_answer

AWAY_SHARE_MAX = 0.1
"""Part of a slice in which the server may answer nobody, or clients be without a connection. What
is shorter is part of what was measured, as a stall is."""
LOOK_MS = 1_100
"""The sessions' states are summed up over a second."""
SLEEP = "\\\\sleep"
"""The meta-command, in JSON."""
SILENT_MS_MIN = 2_000
"""The probes ask once a second; one late answer is no absence."""
CONNECT = "connect"
"""What the engine has for a statement where a connection could not be made."""
NOTHING_DONE = "nothing was done"
EDGE_MS = 50
"""How far an interval may reach beyond a silence: their clocks are read one after the other."""
_CRASHED = {
    "57P02": "a process of the server crashed, and took all sessions with it",
    "57P03": "the server was starting up or shutting down",
}


@dataclass(frozen=True)
class Silence:
    """A time in which the server answered neither the clients nor the probes, or was not reached
    by the clients."""

    from_ms: int
    to_ms: int
    idle_ms: float
    """Length of the intervals within it, in which nothing was done."""
    reached: bool = True
    """Whether the clients may have reached it; else it waited for them as they for it."""

    def __str__(self) -> str:
        seconds = f"{self.idle_ms / 1000:.1f} s"
        if self.reached:
            return f"the server answered nobody for {seconds}"
        return f"nothing came through between clients and server for {seconds}"


@dataclass(frozen=True)
class Connected:
    """How many of a group's clients had a connection, over some intervals."""

    group: str
    clients: int
    most: int
    missing_share: float
    """Of the clients' time, the part without a connection."""

    @property
    def some_stayed_out(self) -> bool:
        """Whether at no time all were connected."""
        return self.most < self.clients


def void_reason(run: RunFile, each: Slice) -> str | None:
    """Why a slice decides nothing; None when it counts. A ramp decides nothing anyway."""
    if each.kind == "ramp":
        return None
    reasons = (reason for judge in _JUDGES if (reason := judge(run, each)))
    return next(reasons, None)


def difference(before: Sighting, after: Sighting) -> str | None:
    """How the server that answered differs from the one before; None when it is the same."""
    told: tuple[tuple[str, str], ...] = (
        ("system_identifier", "another server answered"),
        ("started_unix_ms", "the server was restarted"),
        ("checkpointer_unix_ms", "the server crashed and recovered"),
    )
    for name, sentence in told:
        old, new = getattr(before, name), getattr(after, name)
        if None not in (old, new) and old != new:
            return sentence
    promoted = before.in_recovery == 1 and after.in_recovery == 0
    return "the server was promoted" if promoted else None


def silences(run: RunFile, each: Slice | None = None) -> Iterator[Silence]:
    """Times of a slice, or of the whole run, between two moments in which nobody had an answer;
    none where no probe was at work."""
    intervals = _intervals(run, each)
    if not intervals or (each and each.ended_ms is None) or not run.was_probed:
        return
    began, ended = intervals[0].at_ms, round(intervals[-1].at_ms + intervals[-1].duration_ms)
    if each and each.ended_ms is not None:
        began, ended = each.started_ms, each.ended_ms
    edges = [began, *run.answered_ms(began, ended), ended]
    heard = run.answered_with_errors_ms(is_answer)
    for a, b in pairwise(edges):
        if b - a < SILENT_MS_MIN:
            continue
        inside = [interval for interval in intervals if _within(interval, a, b)]
        idle = [i for i in inside if not i.done and _due(i) and i.at_ms not in heard]
        if idle:
            yield Silence(a, b, _length_ms(idle))


def broken_links(run: RunFile, each: Slice | None = None) -> Iterator[Silence]:
    """Times of a slice, or of the whole run, in which clients waited for answers, and no session of
    the server was at work. A client that sleeps in a transaction has the server wait for it."""
    stretches = list(_idle_stretches(run, _intervals(run, each)))
    if stretches and SLEEP in json.dumps(run.run.spec):
        return
    for idle in stretches:
        began, ended = idle[0].at_ms, round(idle[-1].at_ms + idle[-1].duration_ms)
        # The first second that was looked at may have begun before.
        looks = run.active(began + LOOK_MS, ended)
        if looks and not any(looks):
            yield Silence(began, ended, _length_ms(idle), reached=False)


def _intervals(run: RunFile, each: Slice | None) -> list[Interval]:
    return run.intervals(None if each is None else [each.id])


def _idle_stretches(run: RunFile, intervals: list[Interval]) -> Iterator[list[Interval]]:
    """Intervals in a row in which something was waiting and nobody was answered, for long
    enough. An error is an answer too."""
    heard = run.answered_with_errors_ms(is_answer)
    for idle, stretch in groupby(
        intervals, lambda i: not i.done and i.backlog > 0 and i.at_ms not in heard
    ):
        in_a_row = list(stretch)
        if idle and _length_ms(in_a_row) >= SILENT_MS_MIN:
            yield in_a_row


def _length_ms(intervals: list[Interval]) -> float:
    return sum(each.duration_ms for each in intervals)


def connected(run: RunFile, each: Slice) -> list[Connected]:
    """By group, how many clients had the connection that they hold for themselves, or the pool
    those that it was refused."""
    found = []
    rows = run.group_intervals([each.id])
    for group in run.run.spec.get("clients") or []:
        mine = [row for row in rows if row.client_group == group["name"] and row.clients]
        wanted = _wanted(run.run.spec, group, each.change, mine)
        if wanted:
            pairs = list(zip(mine, wanted, strict=True))
            missing = sum(max(0, n - row.connections) * row.duration_ms for row, n in pairs)
            total = sum(n * row.duration_ms for row, n in pairs)
            closest = max(pairs, key=lambda pair: pair[0].connections - pair[1])
            share = missing / total if total else 0.0
            found.append(Connected(group["name"], closest[1], closest[0].connections, share))
    return found


def _restarted(run: RunFile, each: Slice) -> str | None:
    seen = [sighting for sighting in run.sightings() if sighting.slice_id == each.id]
    for before, after in pairwise(seen):
        if said := difference(before, after):
            return said
    codes = {error.sqlstate for error in run.errors([each.id])}
    return next((said for code, said in _CRASHED.items() if code in codes), None)


class Restart(NamedTuple):
    """The server was restarted or replaced between two sightings of it."""

    before: Sighting
    after: Sighting
    sentence: str
    """How the two differ."""


def restarts(run: RunFile, seen: list[Sighting]) -> Iterator[Restart]:
    """Between which of ``seen`` somebody else restarted or replaced the server. What pgdyno does
    itself (an event ``restart``) is left out."""
    ours = [event.at_ms for event in run.events("restart")]
    for before, after in pairwise(seen):
        said = difference(before, after)
        if said and not any(before.at_ms <= at_ms <= after.at_ms for at_ms in ours):
            yield Restart(before, after, said)


def _restarted_before(run: RunFile, each: Slice) -> str | None:
    """Of a trial: the server's caches are cold, and what the slice is compared with had warm ones,
    be it the one before or the one that follows."""
    earlier = [other for other in run.slices() if other.id < each.id and other.ended_ms]
    if each.trial_id is None or not earlier:
        return None
    since_ms, until_ms = earlier[-1].ended_ms or 0, each.ended_ms or each.started_ms
    seen = run.sightings()
    last = [sighting for sighting in seen if sighting.at_ms <= since_ms][-1:]
    then = [sighting for sighting in seen if since_ms < sighting.at_ms <= until_ms]
    return next(
        (f"{each.sentence} before it began" for each in restarts(run, [*last, *then])), None
    )


def _lost_all(run: RunFile, each: Slice) -> str | None:
    """All connections at once: within one interval, more than were ever open together."""
    most = max((row.connections for row in run.intervals([each.id])), default=0)
    lost = max((loss.count for loss in run.losses([each.id])), default=0)
    if not 0 < most <= lost:
        return None
    said = "the connection was lost" if most == 1 else f"all {most:,} connections were lost"
    return f"{said}{_why_none_came(run, each, ', and then: ')}"


def _why_none_came(run: RunFile, each: Slice, before: str) -> str:
    """What was said to those who tried to connect; '' if nothing."""
    heard = (*run.errors([each.id]), *run.errors())
    refused = [error for error in heard if error.statement == CONNECT]
    if not refused:
        return ""
    return f"{before}{refused[0].sqlstate} {refused[0].message}"


def _silent(run: RunFile, each: Slice) -> str | None:
    if each.ended_ms is None:
        return None
    least_ms = AWAY_SHARE_MAX * (each.ended_ms - each.started_ms)
    for kind in (silences, broken_links):
        found = list(kind(run, each))
        idle_ms = sum(silence.idle_ms for silence in found)
        if found and idle_ms > least_ms:
            return str(replace(found[0], idle_ms=idle_ms))
    return None


def _nothing_done(run: RunFile, each: Slice) -> str | None:
    ledger = run.ledger([each.id])
    due = ledger.intended + ledger.carried_in
    if ledger.done or not due:
        return None
    if failed := commonest(run.errors([each.id])):
        return f"no transaction succeeded: {failed}"
    return (
        f"{NOTHING_DONE}, and {due:,} {'transaction was' if due == 1 else 'transactions were'} due"
    )


def _unconnected(run: RunFile, each: Slice) -> str | None:
    groups = connected(run, each)
    several = len(run.run.spec.get("clients") or []) > 1
    for group in groups:
        of_group = f" of {group.group}" if several else ""
        if group.some_stayed_out:
            most = f"{group.most:,}" if group.most else "none"
            said = f"{most} of {group.clients:,} clients{of_group} had a connection"
            return f"{said}{_why_none_came(run, each, ': ')}"
        if group.missing_share > AWAY_SHARE_MAX:
            share = f"{100 * group.missing_share:.0f} %"
            return f"clients{of_group} were without a connection for {share} of their time"
    return None


_Judge = Callable[[RunFile, Slice], str | None]
_JUDGES: tuple[_Judge, ...] = (
    _restarted,
    _restarted_before,
    _lost_all,
    _silent,
    _nothing_done,
    _unconnected,
)


def _within(interval: Interval, began: int, ended: int) -> bool:
    last_ms = interval.at_ms + interval.duration_ms
    return interval.at_ms >= began - EDGE_MS and last_ms <= ended + EDGE_MS


def _due(interval: Interval) -> bool:
    return interval.intended > 0 or interval.backlog > 0


def _wanted(
    spec: Mapping[str, Any],
    group: Mapping[str, Any],
    change: Mapping[str, Any],
    rows: list[GroupInterval],
) -> list[int]:
    """How many connections there should have been in each interval; empty where none need be held.

    A pool opens them as it needs them, and clients that come, go or make a new one for each
    transaction are not held to a number: unless connecting failed, nothing is known to be wrong.
    """
    load = spec.get("load") or {}
    comes_and_goes = bool(load.get("transactions") or load.get("steps"))
    pool = group.get("pool") or {}
    most = (change.get("pool_max") or {}).get(group["name"], pool.get("max"))
    if group.get("connection") not in (None, "persistent") and _renews(group["connection"]):
        return []
    if (most or comes_and_goes) and not any(row.connect_failures for row in rows):
        return []
    return [min(row.clients, most or row.clients) for row in rows]


def _renews(connection: Any) -> bool:
    """Whether a group's clients make new connections as they go."""
    return not isinstance(connection, Mapping) or connection.get("reconnect_every") is not None
