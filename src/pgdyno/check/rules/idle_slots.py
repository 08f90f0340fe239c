"""Replication slots that nobody uses, and that keep WAL.

Trigger: a slot that is not active and keeps more WAL than max_wal_size, which is what the server
keeps for itself. Threshold: ours; from then on the slot is why the WAL grows. db-triage alarms at
three times that and 50 GB, which is late.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import size
from pgdyno.spec.sql_text import literal


def examine(sight: Sight) -> Fault | Fine:
    """Compare the WAL that each idle slot keeps with max_wal_size."""
    most = sight.setting("max_wal_size").bytes
    keep = sight.setting("max_slot_wal_keep_size")
    rows = [
        row
        for row in sight.rows("slot")
        if not row["active"] and (row["kept_bytes"] or 0) > most and row["wal_status"] != "lost"
    ]
    if not rows:
        return Fine("no idle replication slot keeps much WAL")
    worst = max(rows, key=lambda row: row["kept_bytes"])
    unlimited = keep.number < 0
    until = "until the disk is full" if unlimited else f"up to {size(keep.bytes)}"
    return Fault(
        sentence=(
            f"nobody uses the replication slot {worst['slot']}, and it keeps"
            f" {size(worst['kept_bytes'])} of WAL, {until}"
        ),
        severity="will fail" if unlimited else "costs",
        confidence=0.85,
        evidence=[
            *(
                measured(f"{row['slot']}, WAL kept", row["kept_bytes"], "bytes",
                         f"more than {size(most)}")
                for row in rows
            ),
            measured(keep.name, "no limit" if unlimited else keep.bytes, "bytes"),
        ],
        advice="let its consumer go on, or drop the slot if there is none any more",
        commands=[f"SELECT pg_drop_replication_slot({literal(row['slot'])})" for row in rows],
    )  # fmt: skip


RULE = Rule(
    id="idle-slots",
    looks=("setting", "slot"),
    false_positives="a consumer that was stopped for maintenance and comes back",
    examine=examine,
    covered_by=("slot-holds-wal",),
)
