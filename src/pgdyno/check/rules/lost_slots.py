"""Replication slots that have lost WAL, or will: their consumer must be built again.

Trigger: wal_status is lost, or unreserved, where the next checkpoint may remove what the consumer
needs (max_slot_wal_keep_size). Threshold: none; it is PostgreSQL's own verdict.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import listed
from pgdyno.spec.sql_text import literal

_BAD = {"lost": "has lost its WAL", "unreserved": "is about to lose its WAL"}


def examine(sight: Sight) -> Fault | Fine:
    """Examine the status of each slot."""
    rows = [row for row in sight.rows("slot") if row["wal_status"] in _BAD]
    if not rows:
        return Fine("no replication slot has lost WAL")
    names = listed([row["slot"] for row in rows])
    status = rows[0]["wal_status"]
    lost = [row["slot"] for row in rows if row["wal_status"] == "lost"]
    return Fault(
        sentence=(
            f"the replication slot {names} {_BAD[status]}: its consumer cannot go on and must be"
            " built again"
            if status == "lost"
            else f"the replication slot {names} {_BAD[status]}, and its consumer must then be built"
            " again"
        ),
        severity="costs",
        confidence=0.95,
        evidence=[measured(f"{row['slot']}, wal_status", row["wal_status"], "") for row in rows],
        advice="build the consumer again with a slot of its own, or drop the slot if there is none",
        commands=[f"SELECT pg_drop_replication_slot({literal(name)})" for name in lost],
    )


RULE = Rule(
    id="lost-slots",
    looks=("slot",),
    false_positives="the slot of a consumer that was given up",
    examine=examine,
)
