"""Idle connections that nobody ends: few are used, the others stay or become more.

Each occupies a connection of the server and the memory of its process. They pile up where a pool or
a pooler never ends what it no longer needs, until new clients are refused.

Trigger: at the end connections that have been idle for ``OLD_S`` or longer are not fewer than in
the middle, are at least as many as were ever at work at the same time, and either

* are ``IDLE_SHARE`` of the connections that the server has for clients; or
* have become more by ``GROWN_MIN`` or more, in both halves, and at this pace all connections are
  used up within ``SOON_S``.

Thresholds: ten seconds is far above the pause between two uses of a connection that is needed, and
the shortest limit of usual pools (HikariCP's least idleTimeout); pgpool-II's connection_life_time
was effective against 7,000 connections at 30 to 60 s. Half of the connections leaves room for as
many again. It is about to fail in the second case alone.

Look-alikes: connections that are almost used up, by whomever, are the finding "connection slots".
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts import client_sessions
from pgdyno.diagnose.facts.client_sessions import Moments
from pgdyno.diagnose.facts.slots import most_of, seen_sessions, usable
from pgdyno.numbers import counted, duration, figure, percent
from pgdyno.record.finding import Evidence
from pgdyno.record.sessionages import WORDS

OLD_S = 10
IDLE_SHARE = 0.5
GROWN_MIN = 10
SOON_S = 3600.0
ADVICE = (
    "let the pools end what they do not use: HikariCP minimumIdle and idleTimeout, DBCP maxIdle and"
    " minEvictableIdleTimeMillis, SQLAlchemy a smaller pool_size, PgBouncer server_idle_timeout,"
    " pgpool-II connection_life_time (some versions ignore it together with serialize_accept: see"
    " unreaped-connections); for what remains idle_session_timeout (from 14 on), but not"
    " for a pool that does not expect it"
)


def examine(s: Situation) -> Found | Cleared:
    """Examine connections that are idle for long."""
    seen, slots = seen_sessions(s, OLD_S), usable(s)
    idle, working = float(seen.long_idle[-1]), float(seen.at_work.max())
    left_s = _used_up_s(seen, slots)
    evidence = _evidence(s, seen, slots, left_s)
    sentence = (
        f"{counted(idle, 'connection has', 'connections have')} been idle for {duration(OLD_S)} or"
        f" longer, of {figure(float(seen.connected[-1]))}"
    )
    stay = idle >= seen.long_idle[len(seen.long_idle) // 2] and idle >= max(1.0, working)
    grows = left_s is not None and left_s <= SOON_S
    if not stay or not (grows or idle / slots >= IDLE_SHARE):
        return Cleared(sentence, evidence)
    most = most_of(s, "idle")
    of = f", most of {most.name}" if most is not None else ""
    end = (
        f"; at this pace the server's {figure(slots)} are used up in {duration(left_s)}"
        if grows and left_s is not None
        else f"; {figure(slots)} can be used"
    )
    return Found(
        sentence=f"{sentence}, and at most {figure(working)} were at work at once{of}{end}",
        liftable=0.0,
        confidence=0.8,
        evidence=evidence,
        about_to_fail=grows,
        causes=("unreaped-connections",),
        advice=ADVICE,
    )


def _used_up_s(seen: Moments, slots: float) -> float | None:
    """Return the seconds until growing idle connections use up all; None if they do not grow."""
    middle, last = len(seen.at_ms) // 2, len(seen.at_ms) - 1
    first_half = seen.long_idle[middle] - seen.long_idle[0]
    second_half = seen.long_idle[last] - seen.long_idle[middle]
    grown = float(first_half + second_half)
    seconds = float(seen.at_ms[last] - seen.at_ms[0]) / 1000
    more = float(seen.connected[last] - seen.connected[0])
    if first_half <= 0 or second_half <= 0 or grown < GROWN_MIN or more <= 0 or seconds <= 0:
        return None
    return max(0.0, slots - float(seen.connected[last])) * seconds / more


def _evidence(s: Situation, seen: Moments, slots: float, left_s: float | None) -> list[Evidence]:
    found = client_sessions.origins(s.run, s.slice_ids)
    ages = client_sessions.ages_at_end(found, "idle_ages")
    evidence = [
        s.evidence(
            "connections idle for long / usable",
            float(seen.long_idle[-1]) / slots,
            "share",
            f"at least {percent(IDLE_SHARE)}, or used up within {duration(SOON_S)}",
        ),
        s.evidence(
            f"connections idle for {duration(OLD_S)} or longer", float(seen.long_idle[-1]), "count"
        ),
        s.evidence("of these at the beginning", float(seen.long_idle[0]), "count"),
        s.evidence("most connections at work at once", float(seen.at_work.max()), "count"),
        s.evidence("connections usable without reserved ones", slots, "count"),
        s.evidence(
            "never used since they connected", float(sum(each.unused for each in found)), "count"
        ),
    ]
    if left_s is not None:
        evidence.append(s.evidence("all used up in", left_s, "s"))
    evidence += [
        s.evidence(f"idle for {words}", float(count), "sessions")
        for words, count in zip(WORDS, ages, strict=True)
        if count
    ]
    return evidence


SIGNATURE = Signature(
    id="idle-connections",
    false_positives=(
        "pools of a fixed size that are kept open for bursts that did not come within the period"
    ),
    examine=examine,
)
