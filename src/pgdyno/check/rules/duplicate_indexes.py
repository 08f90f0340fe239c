"""Two indexes of a table that are the same: the second costs space and an entry for each row.

Trigger: the same method, columns in their order, operator classes, collations, directions, included
columns, expressions and predicate; of a unique index and one that is not, the latter can go. Of two
that enforce something, nothing is said, since a constraint or a foreign key may refer to either.
It costs something from ``SIZE_BYTES_MIN`` on; smaller ones are minor. Threshold of size: ours.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured, pages_bytes
from pgdyno.numbers import counted, size

SIZE_BYTES_MIN = 1 << 20
SHOWN = 5


def examine(sight: Sight) -> Fault | Fine:
    """Examine the pairs that the catalogs show."""
    rows = [row for row in sight.rows("duplicate_index") if not row["enforces"]]
    if not rows:
        return Fine("no two indexes are the same")
    sizes = [pages_bytes(sight, row["pages"]) for row in rows]
    worst = rows[0]
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    number = counted(len(rows), "index is", "indexes are")
    return Fault(
        sentence=(
            f"{number} the same as another, {size(sum(sizes))} in all: {worst['index_name']} and"
            f" {worst['kept']}{more}"
        ),
        severity="costs" if sum(sizes) >= SIZE_BYTES_MIN else "minor",
        confidence=0.95,
        evidence=[
            measured(f"{row['index_name']}, the same as {row['kept']}", bytes_, "bytes")
            for row, bytes_ in zip(rows[:SHOWN], sizes, strict=False)
        ],
        commands=[f"DROP INDEX CONCURRENTLY {row['index_name']}" for row in rows[:SHOWN]],
    )


RULE = Rule(
    id="duplicate-indexes",
    looks=("server", "duplicate_index"),
    false_positives="an index that replaces another one, which will be dropped next",
    examine=examine,
)
