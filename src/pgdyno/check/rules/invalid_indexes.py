"""Invalid indexes, left behind by CREATE INDEX CONCURRENTLY or REINDEX that did not finish.

Trigger: pg_index.indisvalid is false, of an index that is not being built: no session holds the
lock of such a command on its table. Threshold: none. No query reads it; where it is ready, each
write still makes an entry.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured, pages_bytes
from pgdyno.numbers import counted, listed

SHOWN = 5


def examine(sight: Sight) -> Fault | Fine:
    """Examine the invalid indexes."""
    rows = sight.rows("invalid_index")
    if not rows:
        return Fine("all indexes are valid")
    number = counted(len(rows), "index is", "indexes are")
    written = sum(row["written"] for row in rows)
    also = f", and {counted(written, 'of them is', 'of them are')} written" if written else ""
    return Fault(
        sentence=(
            f"{number} invalid and never read{also}: {listed([row['index_name'] for row in rows])}"
        ),
        severity="costs",
        confidence=0.9,
        evidence=[
            measured(f"size of {row['index_name']}", pages_bytes(sight, row["pages"]), "bytes")
            for row in rows[:SHOWN]
        ],
        advice="drop it, or build it again; the leftover of a REINDEX ends with _ccnew or _ccold",
        commands=[
            f"REINDEX INDEX CONCURRENTLY {row['index_name']}"
            if "_ccnew" not in row["index_name"] and "_ccold" not in row["index_name"]
            else f"DROP INDEX CONCURRENTLY {row['index_name']}"
            for row in rows[:SHOWN]
        ],
    )


RULE = Rule(
    id="invalid-indexes",
    looks=("server", "invalid_index"),
    false_positives="a command that waits at this moment, between two of its locks",
    examine=examine,
)
