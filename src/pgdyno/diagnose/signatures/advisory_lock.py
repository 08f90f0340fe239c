"""Advisory locks: sessions wait for a lock that the application itself defines.

Trigger: at least ``WAITING_SHARE`` of the client sessions in a transaction, and at least
``WAITING_MIN`` on average, are seen waiting for an advisory lock (Lock:advisory).

Thresholds: as for hot rows, see ``_queues``.
"""

from __future__ import annotations

import re

from pgdyno.diagnose._lock_holders import FOREIGN_ADVICE, holder_of
from pgdyno.diagnose._queues import cleared, evidence, matters, queues, quoted, summary
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation

_OF_TRANSACTION = re.compile(r"advisory_xact_lock", re.IGNORECASE)


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions that wait for an advisory lock."""
    found = queues(s, "advisory")
    sentence, shown = summary(s, found, "an advisory lock"), evidence(s, found, "an advisory lock")
    if not matters(s, found):
        return Cleared(cleared(s, found, "an advisory lock"), shown, parts=("advisory",))
    waiting = [found.waiting_statement, *s.statements_waiting("advisory")]
    text = next(filter(None, waiting), None)
    statement = quoted(text)
    holder = holder_of(s, found)
    return Found(
        sentence=f"{sentence}: {statement}{holder.words}" if statement else sentence + holder.words,
        parts=found.parts,
        share=found.own_share,
        liftable=1.0,
        confidence=0.9,
        evidence=shown,
        causes=("idle-in-transaction",),
        advice=FOREIGN_ADVICE if holder.statement else _advice(text or ""),
    )


def _advice(statement: str) -> str:
    """Return what shortens the time that the lock is held: one of a transaction ends with it."""
    sooner = (
        "shorten what follows it in the transaction, at whose end it is let go of,"
        if _OF_TRANSACTION.search(statement)
        else "let go of it before the commit (pg_advisory_unlock)"
    )
    return (
        f"take the lock later, {sooner} or divide it into locks with different keys: while it is"
        " held, all other clients are idle"
    )


SIGNATURE = Signature(
    id="advisory-lock",
    false_positives="a queue that the application wants, such as one worker at a time",
    examine=examine,
)
