"""The skew of updates, without a value: how many different rows a number of updates has changed.

Each row has the transaction that made its present version (xmin). Of U updates, a row that has a
part p of them is changed with the probability 1 - exp(-U p). With the parts of a Zipf distribution,
p proportional to 1 / k^s for the row of rank k, the number of changed rows has one exponent s,
which is 0 where all rows are alike.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pgdyno.capture._queries import rows_of
from pgdyno.clone.capture_file import Table
from pgdyno.clone.schema import name_of
from pgdyno.server.sql_files import OWN

if TYPE_CHECKING:
    import psycopg

_PAGES_MAX = 2000
"""Pages of a table that are read."""
_UPDATES_MIN = 200
"""Updates below which the number of changed rows says nothing of their spread."""
_INSERTED_MAX = 0.5
"""Share of the changed rows that may be new ones, which have a young xmin too."""
_CHANGED_MAX = 0.98
"""Share of the rows from which on any spread changes all."""
EXPONENT_MIN = 0.3
"""Exponents below which the updates are as good as even, within the error of a sample."""
_EXPONENT_MAX = 4.0
_BUCKETS = 400
_STEPS = 40
_XIDS = 2**32


class Updates(Struct, frozen=True):
    """Rows of a table that were inserted, deleted, updated, and updated within their page (HOT)."""

    inserted: float = 0.0
    deleted: float = 0.0
    updated: float = 0.0
    hot: float = 0.0

    def and_since(self, earlier: Updates, now: Updates) -> Updates:
        """Return these and the rows from one count to another; those of counters that were reset
        meanwhile are not known."""
        return Updates(
            self.inserted + max(0.0, now.inserted - earlier.inserted),
            self.deleted + max(0.0, now.deleted - earlier.deleted),
            self.updated + max(0.0, now.updated - earlier.updated),
            self.hot + max(0.0, now.hot - earlier.hot),
        )


def next_xid(connection: psycopg.Connection[Any]) -> int:
    """Return the first transaction ID that is not given yet. Raises psycopg.Error."""
    (row,) = rows_of(connection, "next_xid")
    return int(row["xid"])


def exponent_of(
    connection: psycopg.Connection[Any], table: Table, updates: Updates, since: int
) -> float | None:
    """Return the Zipf exponent of a table's updates since a transaction ID. None if it is not
    known: too few updates, too many new rows, or a role that may not read the table."""
    import psycopg

    if updates.updated < _UPDATES_MIN or table.partitions is not None:
        return None
    part = 100.0 * min(1.0, _PAGES_MAX / max(1, table.pages))
    age = f"(xmin::text::bigint - {since % _XIDS} + {_XIDS}) % {_XIDS}"
    try:
        row = connection.execute(
            f"{OWN} select count(*), count(*) filter (where {age} < {_XIDS // 2})"
            f" from {name_of(table)} tablesample system ({part})".encode()
        ).fetchone()
    except psycopg.Error:
        return None
    assert row is not None
    rows, changed = row
    if not changed:
        return None
    sampled = rows / max(rows, table.rows) if part < 100 else 1.0
    changed = changed / sampled - updates.inserted
    if changed < (1 - _INSERTED_MAX) * (changed + updates.inserted):
        return None
    return exponent(rows / sampled, updates.updated, changed)


def exponent(rows: float, updates: float, changed: float) -> float:
    """Return the exponent with which so many updates change so many of the rows."""
    if changed >= _CHANGED_MAX * rows or changed >= _expected(rows, updates, EXPONENT_MIN):
        return 0.0
    least, most = EXPONENT_MIN, _EXPONENT_MAX
    for _ in range(_STEPS):
        middle = (least + most) / 2
        if _expected(rows, updates, middle) > changed:
            least = middle
        else:
            most = middle
    return round(least, 2)


def _expected(rows: float, updates: float, exponent: float) -> float:
    """Return the mean number of rows that updates change."""
    buckets = [*_ranks(max(1, round(rows)))]
    parts = [(count, rank**-exponent) for count, rank in buckets]
    whole = sum(count * part for count, part in parts)
    return sum(-count * math.expm1(-updates * part / whole) for count, part in parts)


def _ranks(rows: int) -> list[tuple[int, float]]:
    """Return ranks from 1 in buckets: how many, and their geometric mean."""
    steps = (round((rows + 1) ** (number / _BUCKETS)) for number in range(_BUCKETS + 1))
    edges = sorted({1, *steps, rows + 1})
    pairs = itertools.pairwise(edges)
    return [(above - least, math.sqrt(least * (above - 1))) for least, above in pairs]
