"""Sessions that are idle in a transaction hold connections of the server.

A pooler in transaction mode cannot lend such a connection to another client, and vacuum cannot
remove what it may still see. Nobody need wait for it yet.

Trigger: at the end ``HELD_MIN`` or more sessions, and ``HELD_SHARE`` of the connections that the
server has for clients, have been idle in their transaction for ``LONG_S`` or longer.

Thresholds: ten seconds is longer than any statement of an application should let its transaction
wait for; 5 of 100 connections is a fifth of what reports of such leaks show (23 sessions for 40
minutes, 160 of 1,000).

Look-alikes: sessions that others wait for are the finding "idle in transaction"; one that is idle
for minutes is named by ``pgdyno check`` (forgotten transactions).
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.slots import most_of, seen_sessions, usable
from pgdyno.numbers import counted, duration, figure, percent

LONG_S = 10
HELD_MIN = 5
HELD_SHARE = 0.05


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions that are idle in a transaction for long."""
    seen, slots = seen_sessions(s, LONG_S), usable(s)
    held = float(seen.long_paused[-1])
    evidence = [
        s.evidence(
            f"sessions idle in a transaction for {duration(LONG_S)} or longer",
            held,
            "count",
            f"at least {HELD_MIN}, and {percent(HELD_SHARE)} of the usable connections",
        ),
        s.evidence("connections usable without reserved ones", slots, "count"),
        s.evidence("sessions idle in a transaction", float(seen.paused.mean()), "sessions"),
        s.evidence("most of them at once", float(seen.paused.max()), "count"),
    ]
    sentence = (
        f"{counted(held, 'session has', 'sessions have')} been idle in a transaction for"
        f" {duration(LONG_S)} or longer"
    )
    if held < HELD_MIN or held / slots < HELD_SHARE:
        return Cleared(sentence, evidence)
    most = most_of(s, "in_transaction")
    of = f", most of {most.name}" if most is not None else ""
    return Found(
        sentence=f"{sentence}, and hold as many of {figure(slots)} connections{of}",
        liftable=0.0,
        confidence=0.85,
        evidence=evidence,
        advice=(
            "end transactions before the client does anything else; a limit for those that forget"
            " is idle_in_transaction_session_timeout, PgBouncer's idle_transaction_timeout or"
            " pgpool-II's client_idle_limit"
        ),
    )


SIGNATURE = Signature(
    id="held-connections",
    false_positives="batch jobs that keep a few transactions open on purpose",
    examine=examine,
)
