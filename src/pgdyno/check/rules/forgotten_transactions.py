"""Sessions that are idle in a transaction: they keep locks, and rows that vacuum could remove.

Trigger: a session has been idle in its transaction for ``IDLE_S_MIN``, at the end of the check: for
most of the time for which a check watches. Clients whose round trips are slow pause for less than a
second. It costs something from ``LONG_S`` on, where pg_gather and db-triage warn; before, it is
minor.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import counted, duration

IDLE_S_MIN = 15.0
LONG_S = 300.0
SHOWN = 5


def examine(sight: Sight) -> Fault | Fine:
    """Examine the oldest transactions for idle ones."""
    idle = [
        row
        for row in sight.rows("old_transaction")
        if row["state"].startswith("idle in transaction") and row["state_s"] >= IDLE_S_MIN
    ]
    if not idle:
        return Fine("no session is idle in a transaction for long")
    worst = max(idle, key=lambda row: row["state_s"])
    number = counted(len(idle), "session is", "sessions are")
    whose = " of ".join(filter(None, (worst["application"], worst["role"])))
    return Fault(
        sentence=(
            f"{number} idle in a transaction, process {worst['pid']} ({whose}) for"
            f" {duration(worst['state_s'])}: it keeps its locks, and vacuum cannot remove newer"
            " dead rows"
        ),
        severity="costs" if worst["state_s"] >= LONG_S else "minor",
        confidence=0.85,
        evidence=[
            measured(f"process {row['pid']} idle for", row["state_s"], "s",
                     f"at least {duration(IDLE_S_MIN)}")
            for row in idle[:SHOWN]
        ],
        advice=(
            "end it after a look at what it is; idle_in_transaction_session_timeout for the role"
            " ends the next one"
        ),
        commands=[f"SELECT pg_terminate_backend({row['pid']})" for row in idle[:SHOWN]],
    )  # fmt: skip


RULE = Rule(
    id="forgotten-transactions",
    looks=("old_transaction",),
    false_positives="somebody at a prompt who thinks; a two-phase commit that waits for others",
    examine=examine,
    covered_by=("idle-in-transaction",),
)
