"""WAL buffers are full again and again: sessions write WAL out to make room.

Trigger: since the statistics began, ``COUNTED_S_MIN`` or more ago, it has happened at least
``FULL_PER_S_MIN`` times a second, and wal_buffers is below ``BUFFERS_BYTES_MAX``. Threshold: 0.2 ms
of CPU time each, as calibrated for the finding costly-settings, is a hundredth of a core at this
rate. db-triage wants a tenth of all writes of WAL, which version 18 no longer counts.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, alter_system, measured, proposed
from pgdyno.numbers import figure, size
from pgdyno.record.finding import Skip

FULL_PER_S_MIN = 50.0
COUNTED_S_MIN = 3600.0
BUFFERS_BYTES_MAX = 64 << 20


def examine(sight: Sight) -> Fault | Fine:
    """Examine how often the buffers were full."""
    total = sight.row("wal_total")
    if (total["counters_s"] or 0.0) < COUNTED_S_MIN:
        raise Skip("the statistics of WAL are too young, or their age is not known")
    per_s = total["wal_buffers_full"] / total["counters_s"]
    buffers = sight.setting("wal_buffers").bytes
    evidence = [
        measured("WAL buffers full", per_s, "count/s", f"at least {FULL_PER_S_MIN:g}/s"),
        measured("wal_buffers", buffers, "bytes", "less than 64 MB"),
    ]
    if per_s < FULL_PER_S_MIN or buffers >= BUFFERS_BYTES_MAX:
        return Fine("WAL buffers are large enough", evidence)
    return Fault(
        sentence=(
            f"the WAL buffers of {size(buffers)} are full {figure(per_s)} times a second on"
            " average,"
            " and sessions write WAL to make room"
        ),
        severity="costs",
        confidence=0.6,
        evidence=evidence,
        commands=alter_system({"wal_buffers": "'64MB'"}, restart=True),
        proposals=[proposed("wal-buffers", "fewer writes of WAL", {"wal_buffers": "64MB"})],
    )


RULE = Rule(
    id="wal-buffers-full",
    looks=("setting", "wal_total"),
    false_positives="a load of data that is over, in statistics that began lately",
    examine=examine,
    covered_by=("costly-settings",),
)
