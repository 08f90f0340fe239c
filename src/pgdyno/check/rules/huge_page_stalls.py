"""Transparent huge pages: processes wait while the kernel moves memory to make them.

Trigger: transparent huge pages are always on, and processes waited for compaction at least once a
second on average since the machine was started. Threshold: ours; PostgreSQL's documentation
(huge_pages) discourages them, since some users had slow servers on some versions of Linux. With the
setting alone, and no wait to see, nothing is wrong. It is minor.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import figure
from pgdyno.record.finding import Skip

STALLS_PER_S_MIN = 1.0


def examine(sight: Sight) -> Fault | Fine:
    """Examine the setting and the kernel's counter."""
    row = sight.row("kernel")
    if row.get("thp_enabled") is None or "compact_stall" not in row or not row["uptime_s"]:
        raise Skip("this kernel does not show transparent huge pages")
    per_s = row["compact_stall"] / row["uptime_s"]
    evidence = [
        measured("transparent huge pages", row["thp_enabled"], "", "always"),
        measured("defrag", row["thp_defrag"], ""),
        measured("waits for compaction", per_s, "count/s", f"at least {STALLS_PER_S_MIN:g}/s"),
    ]
    if row["thp_enabled"] != "always" or per_s < STALLS_PER_S_MIN:
        return Fine("no process waits for transparent huge pages", evidence)
    return Fault(
        sentence=(
            f"processes wait {figure(per_s)} times a second while the kernel moves memory to make"
            " transparent huge pages"
        ),
        severity="minor",
        confidence=0.5,
        evidence=evidence,
        commands=["echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"],
    )


RULE = Rule(
    id="huge-page-stalls",
    looks=("kernel",),
    false_positives="other programs on the machine that wait, and not the server",
    examine=examine,
)
