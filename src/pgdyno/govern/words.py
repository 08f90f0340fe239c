"""The ages that a decision rests on, as lines of text for people."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.govern._deciding import ids
from pgdyno.numbers import percent, size
from pgdyno.results.govern import DatabaseAge, GovernDecision, RelationAge

_SHOWN = 5


def lines_of_ages(decision: GovernDecision) -> Iterator[str]:
    """Yield the oldest databases and relations, TOAST tables among them, with the ages of their
    transaction IDs and multixacts, and the space for members of multixacts."""
    for database in decision.databases[:_SHOWN]:
        alone = "" if database.connectable else " (vacuumed by autovacuum alone)"
        yield f"database {database.database}{alone}: {_ages(database)}"
    for relation in decision.relations[:_SHOWN]:
        kind = "TOAST table of" if relation.toast else "table"
        yield (
            f"{kind} {relation.relation}, database {relation.database}: {_ages(relation)},"
            f" {size(relation.size_bytes)}"
        )
    if decision.members is not None:
        yield f"multixact members: {percent(decision.members.share)} of their space"


def _ages(each: DatabaseAge | RelationAge) -> str:
    xids = "transaction ID" if each.xid_age == 1 else "transaction IDs"
    mxids = "multixact" if each.mxid_age == 1 else "multixacts"
    return f"{ids(each.xid_age)} {xids}, {ids(each.mxid_age)} {mxids}"
