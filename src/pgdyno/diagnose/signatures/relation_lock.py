"""Locks on relations: sessions wait for a table that another session has locked as a whole.

LOCK TABLE, TRUNCATE, VACUUM FULL and most forms of ALTER TABLE exclude all others. They also do so
while they wait themselves for a long transaction: everyone who comes later queues behind them.

Trigger: at least ``WAITING_SHARE`` of the client sessions in a transaction, and at least
``WAITING_MIN`` on average, are seen waiting for a relation (Lock:relation).

Thresholds: as for hot rows, see ``_queues``.
"""

from __future__ import annotations

from pgdyno.diagnose._lock_holders import FOREIGN_ADVICE, Holder, holder_of
from pgdyno.diagnose._queues import Queues, cleared, evidence, matters, queues, quoted, summary
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions that wait for a relation."""
    found = queues(s, "relation")
    table = f"a lock on {found.relation}" if found.relation else "a lock on a table"
    sentence, shown = summary(s, found, table), evidence(s, found, "a relation")
    if not matters(s, found):
        return Cleared(cleared(s, found, "a lock on a table"), shown, parts=("relation",))
    holder = holder_of(s, found)
    return Found(
        sentence=f"{sentence}{_held_by(found, holder)}",
        parts=found.parts,
        share=found.own_share,
        liftable=1.0,
        confidence=0.9,
        evidence=shown,
        causes=("idle-in-transaction",),
        advice=FOREIGN_ADVICE
        if holder.statement
        else (
            "lock rows (SELECT … FOR UPDATE) instead of the table, or use a weaker mode; give"
            " statements that change a table a lock_timeout, so that the load does not queue behind"
            " them"
        ),
    )


def _held_by(found: Queues, known: Holder) -> str:
    """Return the statement that all wait behind, and that of the session which has the lock."""
    if known.hidden:
        return known.words
    who = "who has the lock, not a session of this load," if known.statement else "who has the lock"
    holder, first = quoted(found.blocker), quoted(found.first_statement)
    has_it = f"; {who} executes: {holder}" if holder else ""
    if first and found.first_statement != found.waiting_statement:
        return f" behind: {first}{has_it}"
    return has_it


SIGNATURE = Signature(
    id="relation-lock",
    false_positives="maintenance that is meant to stop the load for a moment",
    examine=examine,
)
