"""Foreign keys: sessions that insert or update a row wait for the row that it refers to.

The check of a foreign key locks the referenced row FOR KEY SHARE. That mode waits only for those
who delete the row, change its key, or have locked it FOR UPDATE. Where it does not wait, it still
costs: a row that several transactions share has a multixact, see that signature.

Trigger: at least ``WAITING_SHARE`` of the client sessions in a transaction, and at least
``WAITING_MIN`` on average, wait for a row in the mode FOR KEY SHARE.

Thresholds: as for hot rows, see ``_queues``.
"""

from __future__ import annotations

from pgdyno.diagnose._lock_holders import FOREIGN_ADVICE, holder_of
from pgdyno.diagnose._queues import cleared, evidence, matters, queues, quoted, summary
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation

ADVICE = (
    "lock the referenced row FOR NO KEY UPDATE instead of FOR UPDATE: foreign keys do not wait for"
    " that; and do not update columns of its key"
)


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions that wait to share a row."""
    found = queues(s, "foreign key")
    table = f" of {found.relation}" if found.relation else ""
    sentence = summary(s, found, f"rows{table} that a foreign key refers to")
    shown = evidence(s, found, "a referenced row")
    if not matters(s, found):
        return Cleared(
            cleared(s, found, "rows that a foreign key refers to"), shown, parts=("row",)
        )
    holder, statement = holder_of(s, found), quoted(found.blocker)
    held = f", held by: {statement}" if statement else ""
    return Found(
        sentence=f"{sentence}{holder.words or held}",
        parts=found.parts,
        share=found.own_share,
        liftable=1.0,
        confidence=0.8,
        evidence=shown,
        causes=("idle-in-transaction",),
        advice=f"{FOREIGN_ADVICE}; or {ADVICE}" if holder.statement else ADVICE,
    )


SIGNATURE = Signature(
    id="foreign-key",
    false_positives="statements that lock rows FOR KEY SHARE themselves",
    examine=examine,
)
