"""Indexes whose columns are the first ones of another index: often one of the two is enough.

Trigger: a B-tree index of at least 1 MB that enforces nothing, and a longer one of the same table
that begins with the same columns, operator classes, collations and directions; neither partial nor
with expressions; and the longer one is less than ``SIZE_TIMES`` as large. Thresholds: ours; where
the longer index is much larger, the short one is cheaper to scan. Duplicates have their own rule.
It is minor: the short one may be read for good reason.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured, pages_bytes
from pgdyno.numbers import counted, size

SIZE_TIMES = 2.0
SHOWN = 5


def examine(sight: Sight) -> Fault | Fine:
    """Examine the pairs that the catalogs show."""
    same = {row["index_name"] for row in sight.rows("duplicate_index")}
    rows = [
        row
        for row in sight.rows("prefix_index")
        if row["longer_pages"] < SIZE_TIMES * row["pages"] and row["index_name"] not in same
    ]
    if not rows:
        return Fine("no index is the beginning of another one of like size")
    total = sum(pages_bytes(sight, row["pages"]) for row in rows)
    worst = rows[0]
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    number = counted(len(rows), "index has", "indexes have")
    return Fault(
        sentence=(
            f"{number} the first columns of another one, {size(total)} in all, and may not be"
            f" needed: {worst['index_name']} beside {worst['longer']}{more}"
        ),
        severity="minor",
        confidence=0.4,
        evidence=[
            measured(f"{row['index_name']}, beginning of {row['longer']}",
                     pages_bytes(sight, row["pages"]), "bytes")
            for row in rows[:SHOWN]
        ],
        advice="compare the plans without it (in a transaction that is rolled back) before it goes",
    )  # fmt: skip


RULE = Rule(
    id="prefix-indexes",
    looks=("server", "prefix_index", "duplicate_index"),
    false_positives=(
        "a short index that stays in memory where the long one does not; one that serves index-only"
        " scans or HOT updates of the other columns"
    ),
    examine=examine,
)
