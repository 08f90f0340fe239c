"""Pages of which the checksum was wrong: data is damaged.

Trigger: pg_stat_database counts a failure. Threshold: none; one wrong page is damage of disk,
memory or file system, or a bug. Each read of the page fails.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import counted, listed


def examine(sight: Sight) -> Fault | Fine:
    """Examine the counters of all databases."""
    rows = [row for row in sight.rows("database") if row["checksum_failures"]]
    if not rows:
        return Fine("no page had a wrong checksum")
    failures = sum(row["checksum_failures"] for row in rows)
    return Fault(
        sentence=(
            f"{counted(failures, 'page read had', 'pages read had')} a wrong checksum in"
            f" {listed([row['database'] for row in rows])}: data is damaged, and reading it fails"
        ),
        severity="will fail",
        confidence=0.9,
        evidence=[
            measured(f"checksum failures in {row['database']}", row["checksum_failures"], "count",
                     "at least 1")
            for row in rows
        ],
        advice=(
            "the server's log names the file and the block; check disk and memory, restore from a"
            " backup or a standby, and keep a copy of the damaged files"
        ),
    )  # fmt: skip


RULE = Rule(
    id="checksum-failures",
    looks=("database",),
    false_positives="a page that was restored since; the counter stays until it is reset",
    examine=examine,
)
