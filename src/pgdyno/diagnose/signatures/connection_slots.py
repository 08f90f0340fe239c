"""Connections: the server is about to refuse new ones.

Trigger: at least ``USED_SHARE`` of the connections that roles without reserved ones may use are in
use, or the server refused one of the load's, by its own words: poolers refuse clients with the same
SQLSTATE, 53300 ("pooler client limit").

Threshold: check_postgres warns at 90 % and alarms at 95 %, db-triage at 70 and 90 %. It is about to
fail from ``CRITICAL_SHARE`` on, or where one was refused.

Look-alikes: a pool in the application that is too small lets clients wait and leaves connections of
the server unused; many connections that the server has, but whose sessions queue for the cores, are
the finding "connections".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.holders import sees_all_sessions
from pgdyno.diagnose.facts.refusals import Refusal, refusals_in
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence, Lack, Skip

USED_SHARE = 0.9
CRITICAL_SHARE = 0.95
_SWALLOWS = ("pgpool",)
"""Poolers that end a client's connection without the server's answer when that is a refusal:
pgpool-II 4.3 logs "backend response with kind 'E' when expecting 'R'"."""


def examine(s: Situation) -> Found | Cleared:
    """Examine the most connections in use, and refusals."""
    rows = s.run.series("metric_connection", s.slice_ids)
    if not len(rows["at_ms"]):
        raise Skip("the connections in use were not recorded")
    if not sees_all_sessions(s):
        raise Skip(
            "this role may not see the sessions of other roles (pg_monitor may)", Lack.RIGHTS
        )
    most = int(rows["used"].argmax())
    used, usable = float(rows["used"][most]), max(1.0, float(rows["usable"][most]))
    ours, idle = float(rows["ours"][most]), float(rows["others_idle"][most])
    by_server = [each for each in refusals_in(s.run.errors(s.slice_ids)) if each.is_of_server]
    refused = sum(each.count for each in by_server)
    closed = _closed_by_pooler(s) if used / usable >= CRITICAL_SHARE else 0
    evidence = _evidence(s, (used, usable, ours, idle), refused, closed)
    sentence = f"{figure(used)} of {counted(usable, 'connection', 'connections')} are in use"
    if used / usable < USED_SHARE and not refused:
        return Cleared(sentence, evidence)
    full = used / usable >= CRITICAL_SHARE
    refusals = _refusals_words(s, by_server, closed) if refused or full else ""
    us = "pgdyno" if s.is_observed else "this load"
    return Found(
        sentence=(
            f"{sentence}{refusals}: {figure(ours)} by {us} and"
            f" {figure(used - ours)} by others, of which {figure(idle)} are idle"
        ),
        liftable=0.0,
        confidence=0.9,
        evidence=evidence,
        about_to_fail=bool(refused) or used / usable >= CRITICAL_SHARE,
        advice=(
            "put a pooler or a smaller pool in front of the server, and end idle sessions"
            " (idle_session_timeout); max_connections needs a restart, and each connection memory"
        ),
    )


def _closed_by_pooler(s: Situation) -> int:
    """Return the connections that ended before they were there, through a pooler that swallows what
    the server said."""
    if s.pooler is None or s.pooler.kind not in _SWALLOWS:
        return 0
    return sum(e.count for e in s.run.errors(s.slice_ids) if e.sqlstate == "connect-failed")


def _refusals_words(s: Situation, by_server: Sequence[Refusal], closed: int) -> str:
    if by_server:
        refused = sum(each.count for each in by_server)
        behind = f", behind {s.pooler.name}" if s.pooler is not None else ""
        return f", and {counted(refused, 'was', 'were')} refused by {by_server[0].words}{behind}"
    if closed and s.pooler is not None:
        name = s.pooler.name
        return (
            f", and {counted(closed, 'was', 'were')} closed by {name} without an answer: it does"
            " not pass on PostgreSQL's refusal"
        )
    return _held_back_words(s)


def _held_back_words(s: Situation) -> str:
    """Return what a pooler lacks that lets its clients wait while the server refuses it: such a
    refusal is in its log alone."""
    size = s.pooler.size if s.pooler is not None else None
    if s.pooler is None or size is None:
        return ""
    queues = s.pooler_queues
    has, waiting = (float(np.median(v)) for v in (queues.servers, queues.waiting))
    if not (waiting >= 1.0 and has < size):
        return ""
    return (
        f", and {s.pooler.name} has {figure(has)} of the {size} connections of its pool while"
        f" {counted(waiting, 'client waits', 'clients wait')}: PostgreSQL refuses the others"
    )


def _evidence(
    s: Situation, seen: tuple[float, float, float, float], refused: int, closed: int
) -> list[Evidence]:
    used, usable, ours, idle = seen
    bar = f"at least {percent(USED_SHARE)}; about to fail at {percent(CRITICAL_SHARE)}"
    return [
        s.evidence("connections in use / usable", used / usable, "share", bar),
        s.evidence("connections in use", used, "count"),
        s.evidence("connections usable without reserved ones", usable, "count"),
        s.evidence("of these, this load's and its probes'", ours, "count"),
        s.evidence("of these, idle sessions of others", idle, "count"),
        s.evidence("connections refused", float(refused), "count", "any"),
        s.evidence("connections closed by the pooler", float(closed), "count"),
        *_by_state(s),
    ]


def _by_state(s: Situation) -> list[Evidence]:
    """Return the average number of sessions in each state that was seen, the load's included."""
    rows = s.run.series("metric_activity", s.slice_ids)
    states = dict.fromkeys(str(state) for state in rows["state"])
    means = {state: float(rows["count"][rows["state"] == state].mean()) for state in states}
    return [
        s.evidence(f"sessions {state}", mean, "sessions") for state, mean in means.items() if mean
    ]


SIGNATURE = Signature(
    id="connection-slots",
    false_positives=(
        "a number of clients that never grows: then the connections that are left suffice; sessions"
        " with the right to reserved connections"
    ),
    examine=examine,
    of_refusals=True,
)
