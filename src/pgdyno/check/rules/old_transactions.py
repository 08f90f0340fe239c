"""Transactions that have been at work for hours: vacuum cannot remove what died since they began.

Trigger: a transaction is ``AGE_S_MIN`` old, not idle, and holds a snapshot or a transaction ID.
Threshold: db-triage alarms at an hour. It is minor: dumps and reports take that long.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import counted, duration

AGE_S_MIN = 3600.0
SHOWN = 5


def examine(sight: Sight) -> Fault | Fine:
    """Examine the oldest transactions for those at work."""
    old = [
        row
        for row in sight.rows("old_transaction")
        if not row["state"].startswith("idle") and row["transaction_s"] >= AGE_S_MIN
        and row["xmin_age"] is not None
    ]  # fmt: skip
    if not old:
        return Fine("no transaction has been at work for an hour")
    worst = old[0]
    number = counted(len(old), "transaction has", "transactions have")
    whose = " of ".join(filter(None, (worst["application"], worst["role"])))
    return Fault(
        sentence=(
            f"{number} been at work for more than {duration(AGE_S_MIN)}, process {worst['pid']}"
            f" ({whose}) for {duration(worst['transaction_s'])}: vacuum cannot remove rows that"
            " died"
            " since"
        ),
        severity="minor",
        confidence=0.8,
        evidence=[
            measured(f"transaction of process {row['pid']}", row["transaction_s"], "s",
                     f"at least {duration(AGE_S_MIN)}")
            for row in old[:SHOWN]
        ],
        advice="see what it does; a standby can take dumps and reports",
    )  # fmt: skip


RULE = Rule(
    id="old-transactions",
    looks=("old_transaction",),
    false_positives="a dump, a report or a load of data that has to take that long",
    examine=examine,
    covered_by=("xmin-pinned",),
)
