"""Idle in transaction: clients pause between the statements of a transaction.

While they do, they hold what they have locked, their connection, and the rows that vacuum could
otherwise remove. Where sessions wait for their locks, that is a queue of its own kind: the remedy
is not fewer writers but shorter transactions.

Trigger, either of:

* at least ``WAITING_SHARE`` of the client sessions in a transaction, and at least ``WAITING_MIN``
  on average, wait for locks of sessions that are idle in their transaction (see ``_queues``);
* clients pause for at least ``PAUSE_SHARE`` of the time that transactions take, and wait for
  connections for at least ``POOL_SHARE`` of the response time.

Pauses are measured by the client's own clock, so that the time of round trips is not counted, and
the server must have seen as large a part of the sessions wait for their client in a transaction:
without a transaction block a session that pauses holds nothing but its connection.
Threshold of pauses: half, where a connection is more often idle than at work; calibrated by
injection, transactions that sleep for 16 ms between two statements.
"""

from __future__ import annotations

from pgdyno.diagnose._budget import Part
from pgdyno.diagnose._lock_holders import FOREIGN_ADVICE, holder_of
from pgdyno.diagnose._queues import (
    THINK_MS,
    Queues,
    cleared,
    evidence,
    matters,
    queues,
    quoted,
    think_ms,
)
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence

PAUSE_SHARE = 0.5
POOL_SHARE = 0.15
_OF_CROWD: tuple[Part, ...] = ("pool wait", "client", "pause")


def examine(s: Situation) -> Found | Cleared:
    """Examine what is held by sessions that are idle in a transaction."""
    found = queues(s, "idle")
    shown = [*evidence(s, found, "locks of idle sessions"), *_pause_evidence(s, found)]
    blocks, crowds = matters(s, found), holds_connections(s)
    parts: tuple[Part, ...] = found.parts if blocks else ()
    share = found.own_share if blocks else None
    if crowds:
        parts += _OF_CROWD
        share = None if share is None else share + s.budget.share(*_OF_CROWD)
    if not parts:
        return Cleared(cleared(s, found, "locks of sessions that are idle in a transaction"), shown)
    return Found(
        sentence=_sentence(s, found, blocks=blocks, crowds=crowds),
        parts=parts,
        share=share,
        liftable=1.0,
        confidence=0.8,
        evidence=shown,
        advice=_advice(s, found),
    )


def holds_connections(s: Situation) -> bool:
    """True if clients wait for connections that are held while others pause in a transaction."""
    paused = min(_pauses(s), s.part("client"))
    return paused >= PAUSE_SHARE and s.budget.share("pool wait") >= POOL_SHARE


def _pauses(s: Situation) -> float:
    """Part of the service time for which clients pause; 0 if that is the generator's lateness."""
    if think_ms(s) < THINK_MS or s.budget.service_ms <= 0:
        return 0.0
    return min(1.0, think_ms(s) / s.budget.service_ms)


def _sentence(s: Situation, found: Queues, *, blocks: bool, crowds: bool) -> str:
    prepared = found.looks and found.looks[0].blocker_state == "prepared"
    holder = "of a prepared transaction" if prepared else "of clients that pause in a transaction"
    if _is_foreign(s, found):
        holder = "of a session that is not of this load and pauses in a transaction"
    waiting = f"{figure(found.sessions)} of {figure(s.sessions_at_work)} sessions"
    paused = f"clients pause for {percent(_pauses(s))} of the time that transactions take"
    statement = quoted(found.blocker)
    after = f", after: {statement}" if statement and not prepared else ""
    if blocks and crowds:
        return f"{waiting} wait for locks {holder}, and others for their connections{after}"
    if crowds:
        return f"{paused}, and hold connections that others wait for"
    return f"{waiting} in a transaction wait for locks {holder}{after}"


def _is_foreign(s: Situation, found: Queues) -> bool:
    """True if most wait for a session that is not of the load, and not prepared."""
    prepared = found.looks and found.looks[0].blocker_state == "prepared"
    return not prepared and holder_of(s, found).statement is not None


def _pause_evidence(s: Situation, found: Queues) -> list[Evidence]:
    shown = [
        s.evidence(
            "pauses of clients / time of transactions",
            _pauses(s),
            "share",
            f"at least {percent(PAUSE_SHARE)} with a wait for connections",
        ),
        s.evidence("pause of a client in a transaction", think_ms(s), "ms"),
        s.evidence(
            "wait for a connection / response time",
            s.budget.share("pool wait"),
            "share",
            f"at least {percent(POOL_SHARE)}",
        ),
        s.evidence(
            "sessions waiting for their client / sessions in a transaction",
            s.part("client"),
            "share",
            f"at least {percent(PAUSE_SHARE)} with a wait for connections",
        ),
    ]
    if found.looks:
        idle_ms = found.blocker_ms("state")
        shown.append(s.evidence("holder idle for, when seen, on average", idle_ms, "ms"))
    return shown


def _advice(s: Situation, found: Queues) -> str:
    if _is_foreign(s, found):
        return FOREIGN_ADVICE
    if found.looks and found.looks[0].blocker_state == "prepared":
        return "commit or roll back the prepared transaction (pg_prepared_xacts lists them)"
    return (
        "do what takes the client's time before the transaction or after it; a limit for those that"
        " forget to commit is idle_in_transaction_session_timeout"
    )


SIGNATURE = Signature(
    id="idle-in-transaction",
    false_positives="scripts that sleep within a transaction and stand for a load that does not",
    examine=examine,
)
