"""A standby that is far behind.

Trigger: a standby has not replayed more WAL than max_wal_size. Threshold: ours; it is about what
the server keeps for itself, so that without a slot or an archive the standby may have to be built
again, and a failover to it takes as long as replaying that takes.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import duration, size


def examine(sight: Sight) -> Fault | Fine:
    """Compare the WAL that each standby has not replayed with max_wal_size."""
    most = sight.setting("max_wal_size").bytes
    rows = [row for row in sight.rows("standby") if row["state"] != "backup"]
    behind = [row for row in rows if (row["behind_bytes"] or 0) > most]
    evidence = [
        measured(f"WAL that {row['name']} has not replayed", row["behind_bytes"], "bytes",
                 f"more than {size(most)}")
        for row in rows
    ]  # fmt: skip
    if not behind:
        return Fine("no standby is far behind", evidence)
    worst = max(behind, key=lambda row: row["behind_bytes"])
    late = f", {duration(worst['replay_lag_s'])}" if worst["replay_lag_s"] else ""
    return Fault(
        sentence=(
            f"the standby {worst['name']} is {size(worst['behind_bytes'])} of WAL behind{late}"
        ),
        severity="costs",
        confidence=0.7,
        evidence=evidence,
        advice="see its log, its disk, and queries on it that replay waits for",
    )


RULE = Rule(
    id="standby-behind",
    looks=("setting", "standby"),
    false_positives="one that is behind on purpose (recovery_min_apply_delay), or being built",
    examine=examine,
    covered_by=("sync-replication",),
)
