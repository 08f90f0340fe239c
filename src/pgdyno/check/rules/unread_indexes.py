"""Indexes that nothing reads, and that enforce nothing: they cost space, and an entry for each row.

Trigger: an index of at least ``SIZE_BYTES_MIN`` without a scan since the statistics began, at least
``COUNTED_S_MIN`` ago, or, from version 16, for 30 days. Indexes of constraints, replica identities
and partitioned indexes are left alone. It is minor where the table is not written.

Thresholds: pg_gather lists any index without a scan. Statistics of a week have seen the work of
each weekday; a month's end they may have missed. A megabyte is ours: smaller ones are not worth the
risk. On a standby its own scans are counted alone, so nothing is judged there.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, Unseen, measured, pages_bytes
from pgdyno.numbers import counted, duration, listed, size
from pgdyno.record.finding import Skip

SIZE_BYTES_MIN = 1 << 20
COUNTED_S_MIN = 7 * 86400.0
SHOWN = 5


def examine(sight: Sight) -> Fault | Fine:
    """Examine the indexes without a scan."""
    if sight.is_standby:
        raise Skip("a standby counts its own scans alone")
    rows = [
        row
        for row in sight.rows("unused_index")
        if pages_bytes(sight, row["pages"]) >= SIZE_BYTES_MIN
    ]
    counted_s = sight.row("server")["counters_s"]
    if not rows:
        return Fine("every index of some size is read or enforces something")
    if counted_s is not None and counted_s < COUNTED_S_MIN:
        raise Unseen(
            "indexes that are not read",
            f"the statistics began {duration(counted_s)} ago",
            f"check again when they are {duration(COUNTED_S_MIN)} old",
        )
    total = sum(pages_bytes(sight, row["pages"]) for row in rows)
    written = any(row["n_written"] for row in rows)
    number = counted(len(rows), "index", "indexes")
    since = f"in {duration(counted_s)}" if counted_s else "since the statistics began"
    names = listed([row["index_name"] for row in rows])
    return Fault(
        sentence=f"{number} of {size(total)} had no scan {since}: {names}",
        severity="costs" if written else "minor",
        confidence=0.6 if counted_s else 0.5,
        evidence=[
            measured(
                "statistics began before", counted_s, "s", f"at least {duration(COUNTED_S_MIN)}"
            ),
            *(
                measured(f"size of {row['index_name']}", pages_bytes(sight, row["pages"]), "bytes")
                for row in rows[:SHOWN]
            ),
        ],
        advice="drop it if no standby, no rare report and no foreign key needs it",
        commands=[f"DROP INDEX CONCURRENTLY {row['index_name']}" for row in rows[:SHOWN]],
    )


RULE = Rule(
    id="unread-indexes",
    looks=("server", "unused_index"),
    false_positives=(
        "scans on standbys, which only they count; work of a month's end; an index that serves the"
        " deletes of a foreign key"
    ),
    examine=examine,
    covered_by=("unused-indexes",),
)
