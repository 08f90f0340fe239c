"""Connections that end between the clients and the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgdyno.facts.pooler import PoolerInForce
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, duration, figure, percent
from pgdyno.record import ErrorTotal
from pgdyno.record.failures import is_answer
from pgdyno.record.finding import Evidence, Skip
from pgdyno.record.incidents import incidents
from pgdyno.record.void import IncidentCause
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.pooler import HAPROXY_TIMEOUTS, haproxy_seconds

if TYPE_CHECKING:
    from pgdyno._engine import Histogram

LOST = "connection-lost"
"""The engine's code for a connection that was closed without a word."""
NEAR_MS = 5_000
"""Time around the slices in which the end of a server may have ended a connection of theirs."""
ALIKE_MIN = 3
"""Ends that have to agree before a time is called that of a limit."""
ALIKE_FACTOR = 1.25
LIMIT_S_MIN = 0.1
_GONE = {
    "sessions_abandoned": "sessions whose client went away",
    "sessions_fatal": "sessions that ended with a fatal error, such as a client that is gone",
}
_SHORT_S = 60.0
"""A proxy's limit below it may be the one, where the time does not tell."""
_OF_SERVER = (
    IncidentCause.RESTART,
    IncidentCause.CRASH,
    IncidentCause.REPLACEMENT,
    IncidentCause.PROMOTION,
)
_UNREACHED = (IncidentCause.ABSENCE, IncidentCause.NO_ANSWERS, IncidentCause.NO_DATA)


@rule(
    "connections-cut",
    of_clients=True,
    of_refusals=True,
    false_positives=(
        "a process of the server that ends without a word to its client and without being counted,"
        " such as one that an extension ends"
    ),
)
def connections_cut(s: Situation) -> Found | Cleared:
    """Cut connections: something between the clients and the server closes connections, such as a
    proxy, a load balancer or a firewall with a limit for silent ones.

    A server that ends a session says so before (57P01, 57P05, 25P03, …), or restarts, or ends all
    sessions because one of its processes crashed, and it counts those that were terminated.

    Trigger: connections of the load were closed without a word, while the server neither restarted
    nor crashed (its postmaster and its checkpointer are those from before, and no client received
    a message of that), and counts fewer terminated sessions (``pg_stat_database.sessions_killed``)
    than half of them. ``sessions_fatal`` tells nothing: it also counts sessions that find their
    client gone ("connection to client lost").

    The limit is named if at least ``ALIKE_MIN`` connections had been silent in both directions for
    about the same time: nine tenths within a factor of ``ALIKE_FACTOR``, ``LIMIT_S_MIN`` or longer.
    A proxy that closes in one direction only lets the answer of a statement through first, and then
    the limit does not show.

    Thresholds: half, as both may happen in one period. A factor, as proxies look at their limits
    now and then. Calibrated by injection: with HAProxy's ``timeout client`` = 1s connections ended
    after 1.00 to 1.01 s.

    Look-alikes: connections that a pooler refuses are "pooler client limit", and those that the
    server refuses "connection slots".
    """
    errors = [each for each in s.run.errors(s.slice_ids) if not each.expected]
    lost = [each for each in errors if each.sqlstate == LOST]
    count = sum(each.count for each in lost)
    silence = s.run.histogram("silence", s.slice_ids)
    ended = _ended(s)
    evidence = _evidence(s, count, ended, silence)
    if not count:
        return Cleared("no connection was closed without a word", evidence)
    if (why := _why_of_server(s, errors)) is not None:
        return Cleared(why, evidence)
    if ended is not None and 2 * ended >= count:
        sessions = counted(ended, "session was", "sessions were")
        return Cleared(f"{sessions} terminated on the server", evidence)
    limit_s = _limit_s(silence)
    return Found(
        sentence=f"{_count_words(count, ended)}{_when_words(limit_s, lost)}",
        severity="costs",
        confidence=0.9 if ended is not None and limit_s is not None else 0.7,
        evidence=evidence,
        advice=_advice(s.pooler, limit_s),
    )


def _ended(s: Situation) -> float | None:
    """Return the sessions that the server counts as terminated; None if that is unknown."""
    return s.run.delta("metric_database", "sessions_killed", s.slice_ids)


def _why_of_server(s: Situation, errors: Sequence[ErrorTotal]) -> str | None:
    """Return why the server itself may have closed them; None if it ran on. Raises Skip if neither
    clients nor probes reached it."""
    began_ms, ended_ms = s.window_ms
    near = [
        each
        for each in incidents(s.run)
        if began_ms - NEAR_MS <= 1000 * each.at_s <= ended_ms + NEAR_MS
    ]
    if of_server := next((each for each in near if each.cause in _OF_SERVER), None):
        return f"connections were lost, and {of_server.sentence}"
    if unreached := next((each for each in near if each.cause in _UNREACHED), None):
        raise Skip(f"whether the server closed them is not known: {unreached.sentence}")
    said = [each for each in errors if len(each.sqlstate) == 5 and not is_answer(each.sqlstate)]
    of_end = next((each for each in said if each.sqlstate.startswith("57P0")), None)
    return None if of_end is None else f"the server ended sessions: {of_end.words}"


def _limit_s(silence: Histogram) -> float | None:
    """Return the time after which silent connections end, in seconds; None if they end after
    different times."""
    if silence.count < ALIKE_MIN:
        return None
    low_s, middle_s, high_s = (silence.percentile(each) / 1e9 for each in (5, 50, 95))
    alike = low_s >= LIMIT_S_MIN and high_s <= ALIKE_FACTOR * low_s
    return middle_s if alike else None


def _count_words(count: int, ended: float | None) -> str:
    connections = counted(count, "connection was", "connections were")
    by_server = "" if ended is None else f" and terminated {figure(ended) if ended else 'none'}"
    return (
        f"{connections} closed by something between the clients and the server, which ran on"
        f"{by_server}"
    )


def _when_words(limit_s: float | None, lost: Sequence[ErrorTotal]) -> str:
    """Return after how long, and during what."""
    waiting = sum(each.count for each in lost if each.script and each.statement)
    pausing = sum(each.count for each in lost) - waiting
    during = [
        *([f"{waiting:,} while the client waited for an answer"] if waiting else []),
        *([f"{pausing:,} between two statements"] if pausing else []),
    ]
    after = "" if limit_s is None else f", after {duration(limit_s)} without a byte"
    return f"{after}: {', '.join(during)}"


def _advice(pooler: PoolerInForce | None, limit_s: float | None) -> str:
    named = [] if pooler is None else _timeouts(pooler, limit_s)
    if limit_s is None:
        known = f", here {' and '.join(named)}" if named else ""
        return (
            "look at what is between the clients and the server, with its log: its limits of time"
            f"{known}, its limits of connections, or a restart of it"
        )
    limit = " and ".join(named) or (
        "the limit for silent connections of what is between (HAProxy: timeout client, timeout"
        " server, timeout tunnel; the idle timeout of a load balancer, a firewall or NAT)"
    )
    return (
        f"raise {limit} above the longest statement and the longest pause of the clients; where it"
        f" cannot be raised, let pools end idle connections before"
        f" {duration(limit_s)}. TCP keepalives more often than that (tcp_keepalives_idle,"
        " keepalives_idle) suffice for a firewall or NAT, but not for a proxy, which answers them"
        " itself"
    )


def _timeouts(pooler: PoolerInForce, limit_s: float | None) -> list[str]:
    """Return the settings of pgdyno's own proxy that are this limit, or may be an unknown one."""
    known = {name: haproxy_seconds(pooler.settings.get(name, "")) for name in HAPROXY_TIMEOUTS}
    return [
        f"{pooler.name}'s {name} = {pooler.settings[name]}"
        for name, each_s in known.items()
        if each_s is not None
        and (each_s < _SHORT_S if limit_s is None else each_s <= limit_s <= ALIKE_FACTOR * each_s)
    ]


def _evidence(s: Situation, count: int, ended: float | None, silence: Histogram) -> list[Evidence]:
    evidence = [
        s.evidence("connections closed without a word", float(count), "count", "any"),
        s.evidence(
            "sessions terminated, by the server's count", ended, "count", "fewer than half of them"
        ),
    ]
    for name, words in _GONE.items():
        gone = s.run.delta("metric_database", name, s.slice_ids)
        evidence.append(s.evidence(words, gone, "count"))
    if silence.count:
        bar = f"{percent(0.9)} within a factor of {ALIKE_FACTOR:g}"
        for each in (5, 50, 95):
            silent_ms = silence.percentile(each) / 1e6
            name = f"time without a byte before the end, p{each}"
            evidence.append(s.evidence(name, silent_ms, "ms", bar if each != 50 else None))
    return evidence
