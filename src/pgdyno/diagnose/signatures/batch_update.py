"""Batch updates: sessions wait for different rows, all held by one transaction.

Trigger: at least ``WAITING_SHARE`` of the client sessions in a transaction, and at least
``WAITING_MIN`` on average, wait for rows in queues whose waiters are each first in line for a row
of their own (``SPREAD``), behind the same transaction.

Thresholds and how the queues are distinguished: see ``_queues``.
"""

from __future__ import annotations

from pgdyno.diagnose._lock_holders import Holder, holder_of
from pgdyno.diagnose._queues import Queues, cleared, evidence, matters, queues, quoted, summary
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import figure

ADVICE = (
    "split the batch into transactions of few rows, or run it when the load is low; each row is"
    " held until the batch commits"
)


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions behind transactions that hold many rows."""
    found = queues(s, "batch")
    what = "different rows that one transaction holds"
    sentence = summary(s, found, what)
    shown = [
        *evidence(s, found, "rows of a batch"),
        s.evidence("different rows waited for behind one", found.mean("places"), "count"),
        s.evidence("age of the holder's transaction", found.blocker_ms("transaction"), "ms"),
    ]
    if not matters(s, found):
        return Cleared(cleared(s, found, what), shown, parts=("row",))
    holder = holder_of(s, found)
    return Found(
        sentence=f"{sentence}{_where(found)}{_by(found, holder)}",
        parts=found.parts,
        share=found.own_share,
        liftable=1.0,
        confidence=0.8,
        evidence=shown,
        advice=f"the load itself is not at fault: {ADVICE}" if holder.statement else ADVICE,
    )


def _where(found: Queues) -> str:
    return f" in {found.relation}" if found.relation else ""


def _by(found: Queues, holder: Holder) -> str:
    """Return the holder's age and statement, and whether it is a session of the load."""
    age = f", open for {figure(found.blocker_ms('transaction'))} ms on average when seen"
    if holder.words:
        return f"{age}{holder.words}"
    statement = quoted(found.blocker)
    return f"{age}: {statement}" if statement else age


SIGNATURE = Signature(
    id="batch-update",
    false_positives=(
        "transactions of the load itself that change many rows each, in no common order, so that"
        " each is in the way of several others"
    ),
    examine=examine,
)
