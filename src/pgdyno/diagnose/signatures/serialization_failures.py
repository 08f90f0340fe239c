"""Serialization failures: transactions fail because others changed what they read, and are retried.

At REPEATABLE READ and SERIALIZABLE PostgreSQL ends a transaction that cannot be put in order with
the others (SQLSTATE 40001, chapter 13.2 of its manual). What it did until then is lost, and the
retry does it again.

Trigger: at least ``LOST_SHARE`` of the attempts at a transaction ended so. That part of the
response time is taken to be lost: an attempt that fails is taken to last as long as one that
succeeds.

Threshold: as for waits for locks, see ``_queues``; calibrated by injection, clients that change one
row at SERIALIZABLE, of whose attempts two thirds failed.
"""

from __future__ import annotations

from pgdyno.diagnose._queues import WAITING_SHARE
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import figure, percent

SQLSTATE = "40001"
LOST_SHARE = WAITING_SHARE


def examine(s: Situation) -> Found | Cleared:
    """Examine the attempts that ended with a serialization failure."""
    errors = [error for error in s.run.errors(s.slice_ids) if error.sqlstate == SQLSTATE]
    lost, retried = (sum(e.count for e in of) for of in (errors, [e for e in errors if e.retried]))
    ledger = s.run.ledger(s.slice_ids)
    attempts = ledger.done + ledger.failed + retried
    share = min(1.0, lost / attempts) if attempts else 0.0
    sentence = f"{percent(share)} of the attempts at a transaction end with a serialization failure"
    shown = [
        s.evidence("attempts that failed with 40001 / attempts", share, "share",
                   f"at least {percent(LOST_SHARE)}"),
        s.evidence("attempts that failed with 40001", lost, "count"),
        s.evidence("of these retried", retried, "count"),
    ]  # fmt: skip
    if share < LOST_SHARE:
        return Cleared(sentence, shown)
    return Found(
        sentence=f"{sentence}, {figure(lost / s.seconds)} a second, and their work is lost",
        share=share,
        liftable=1.0,
        confidence=0.8,
        evidence=shown,
        advice=(
            "take a lock before the first statement that reads (LOCK TABLE, or an advisory lock"
            " before BEGIN), so that conflicting transactions take turns; or READ COMMITTED with"
            " SELECT … FOR UPDATE, where that is enough; or spread what all of them change"
        ),
    )


SIGNATURE = Signature(
    id="serialization-failures",
    false_positives=(
        "a benchmark with fewer rows than the real load has; attempts that fail at their first"
        " statement, and so lose less time than is taken"
    ),
    examine=examine,
    of_clients=True,
)
