"""Prepared statements behind a pooler that does not keep them: statements fail because they were
prepared in another session.

A pooler in transaction mode lends a session to one client after the other. A statement that a
client has prepared in one session is missing in the next one (26000), or its name is taken there
already (42P05). PgBouncer keeps them apart since 1.21, with max_prepared_statements, which is 0 by
default before 1.24.

Trigger: a statement failed so that had been prepared on the same connection: the load engine knows
what it has prepared on which connection.

Threshold: none; one such failure is certain, because a connection of its own has all that was
prepared on it. Calibrated: with PgBouncer 1.18 in transaction mode and 8 clients for 2 sessions,
9 of 10 transactions failed, and none in session mode.

Look-alikes: a script that itself deallocates, or prepares twice under one name, fails with the same
codes without a pooler; the engine's own statements are not concerned.
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import counted, percent

_CODES = ("26000", "42P05")
ADVICE = (
    "let clients prepare nothing behind this pooler (-M extended or simple here; prepareThreshold=0"
    " of pgJDBC, statement_cache_size=0 of asyncpg), or raise max_prepared_statements of PgBouncer,"
    " from 1.21 on"
)


def examine(s: Situation) -> Found | Cleared:
    """Count the failures of statements that were prepared in another session."""
    lost = {
        code: sum(e.count for e in s.run.errors(s.slice_ids) if e.sqlstate == code and e.advice)
        for code in _CODES
    }
    count, ledger = sum(lost.values()), s.run.ledger(s.slice_ids)
    ended = ledger.done + ledger.failed
    evidence = [
        s.evidence(
            f"statements that failed with {code} though they were prepared", n, "count", "any"
        )
        for code, n in lost.items()
    ]
    if not count:
        return Cleared("no statement failed because another session had prepared it", evidence)
    share = min(1.0, ledger.failed / ended) if ended else 1.0
    failures = counted(float(count), "statement failed", "statements failed")
    name = "the pooler" if s.pooler is None else s.pooler.name
    return Found(
        sentence=(
            f"{failures}, and {percent(share)} of the transactions, because another session had"
            f" prepared them: {name} lends its sessions for transactions and does not keep prepared"
            " statements apart"
        ),
        share=share,
        liftable=share,
        confidence=0.95,
        evidence=evidence,
        advice=ADVICE,
    )


SIGNATURE = Signature(
    id="unkept-statements",
    false_positives="none known: a connection with a session of its own keeps what it prepared",
    examine=examine,
    of_clients=True,
    of_refusals=True,
)
