"""The disk of the WAL has no room for max_wal_size.

Trigger: max_wal_size is more than the space that is free on the disk of the WAL plus what the WAL
takes already. Threshold: none; the server may use all of max_wal_size between two checkpoints, and
stops when the disk is full. It is no hard limit: WAL may grow beyond it.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, alter_system, measured
from pgdyno.numbers import size
from pgdyno.record.finding import Skip


def examine(sight: Sight) -> Fault | Fine:
    """Compare max_wal_size with the space for it."""
    disk = next((row for row in sight.rows("disk_space") if "wal" in row["holds"].split(",")), None)
    if disk is None or disk["wal_dir_bytes"] is None:
        raise Skip("the WAL's directory is not accessible")
    wanted = sight.setting("max_wal_size").bytes
    room = float(disk["free_bytes"] + disk["wal_dir_bytes"])
    evidence = [
        measured("max_wal_size", wanted, "bytes", "more than the space for it"),
        measured("free on the disk of the WAL", disk["free_bytes"], "bytes"),
        measured("size of the WAL", disk["wal_dir_bytes"], "bytes"),
    ]
    if wanted <= room:
        return Fine("the disk of the WAL has room for max_wal_size", evidence)
    return Fault(
        sentence=(
            f"max_wal_size is {size(wanted)}, and the disk of the WAL has room for {size(room)}:"
            " the"
            " server stops if it uses all of it"
        ),
        severity="costs",
        confidence=0.8,
        evidence=evidence,
        advice="free space on the disk of the WAL, or move the WAL to a larger one",
        commands=alter_system({"max_wal_size": f"'{max(64, int(room / 2) >> 20)}MB'"}),
    )


RULE = Rule(
    id="wal-disk-small",
    looks=("setting", "disk_space"),
    false_positives="a load that writes so little that checkpoints come by time",
    examine=examine,
    covered_by=("disk-filling",),
)
