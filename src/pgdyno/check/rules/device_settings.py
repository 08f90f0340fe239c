"""Settings of the block devices of data and WAL that do not suit a database on flash.

Trigger, for a device that does not rotate: read-ahead above ``READ_AHEAD_KB_MAX``, so that a read
of one page fetches hundreds; or one of the I/O schedulers for rotating disks (bfq, cfq).
Thresholds: ours; Linux's default is 128 kB, vacuum gains from some read-ahead, and nothing from
more than a megabyte. It is minor. Virtual devices often say that they rotate, and are then not
judged.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.record.finding import Evidence
from pgdyno.shapes import Row

READ_AHEAD_KB_MAX = 1024
_FOR_ROTATING = ("bfq", "cfq")


def examine(sight: Sight) -> Fault | Fine:
    """Examine the devices below data and WAL."""
    flash = [row for row in sight.rows("block_device") if not row["rotational"]]
    ahead = [row for row in flash if (row["read_ahead_kb"] or 0) > READ_AHEAD_KB_MAX]
    scheduled = [row for row in flash if row["scheduler"] in _FOR_ROTATING]
    evidence = [item for row in flash for item in _evidence(row)]
    if not ahead and not scheduled:
        return Fine("the block devices of data and WAL are set as they should be", evidence)
    said = [f"{row['device']} reads {row['read_ahead_kb']} kB ahead" for row in ahead]
    said += [f"{row['device']} has the I/O scheduler {row['scheduler']}" for row in scheduled]
    return Fault(
        sentence="; ".join(said),
        severity="minor",
        confidence=0.5,
        evidence=evidence,
        commands=[
            *(f"blockdev --setra 256 /dev/{row['device']}" for row in ahead),
            *(f"echo none > /sys/block/{row['device']}/queue/scheduler" for row in scheduled),
        ],
    )


def _evidence(row: Row) -> list[Evidence]:
    bar = f"more than {READ_AHEAD_KB_MAX} kB"
    return [
        measured(f"read-ahead of {row['device']}", row["read_ahead_kb"], "kB", bar),
        measured(f"I/O scheduler of {row['device']}", row["scheduler"], "", "bfq or cfq"),
    ]


RULE = Rule(
    id="device-settings",
    looks=("block_device",),
    false_positives="large scans alone, such as those of a warehouse",
    examine=examine,
)
