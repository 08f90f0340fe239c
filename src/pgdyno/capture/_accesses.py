"""Pages that statements read, and scans of tables and indexes, over a period.

Scans tell the plans of a load also where its statements cannot be explained: that needs rights on
its tables, which a role in pg_monitor has not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from pgdyno.capture._queries import rows_of
from pgdyno.clone.capture_file import Scans, Statement, Table

if TYPE_CHECKING:
    import psycopg

    from pgdyno.probe.statements import Rise

Counts: TypeAlias = "dict[tuple[str, str], float]"


class Accesses:
    """Counts from when it is made until ``read`` is called the last time."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str, tables: list[int]) -> None:
        """``schema`` is that of pg_stat_statements. Raises psycopg.Error."""
        self._connection = connection
        self._schema = schema
        self._tables = tables
        self._last = self._read()
        self._pages: Counter[tuple[str, str]] = Counter()
        self._scans: Counter[tuple[str, str]] = Counter()

    def read(self) -> None:
        """Read the counts again. Raises psycopg.Error."""
        before, self._last = self._last, self._read()
        for rises, earlier, now in zip((self._pages, self._scans), before, self._last, strict=True):
            rises.update(_risen(earlier, now))

    def _read(self) -> tuple[Counts, Counts]:
        pages = rows_of(self._connection, "pages", schema=self._schema)
        scans = rows_of(self._connection, "scans", {"tables": self._tables})
        return (
            {(row["id"], ""): row["pages"] for row in pages},
            {(str(row["table_id"]), row["columns"]): row["scans"] for row in scans},
        )

    def with_pages(self, statement: Statement, key: str, rise: Rise) -> Statement:
        """Return a statement with the pages of a call; ``key`` is its id, ``rise`` its counts."""
        calls = rise["calls"] or 1.0

        def each(count: float | None) -> float | None:
            return None if count is None else round(count / calls, 4)

        return replace(
            statement,
            pages=each(self._pages.get((key, ""))),
            pages_dirtied=each(rise["blocks_dirtied"]),
            wal_records=each(rise["wal_records"]),
            wal_images=each(rise["wal_fpi"]),
        )

    def with_scans(self, tables: Mapping[int, Table], seconds: float) -> dict[int, Table]:
        """Return the tables with their scans in so many seconds."""
        found: defaultdict[str, list[Scans]] = defaultdict(list)
        for (table, columns), scans in sorted(self._scans.items()):
            if scans > 0:
                found[table].append(Scans(round(scans / seconds, 4), columns))
        return {
            number: replace(table, scans=tuple(found[str(number)]))
            for number, table in tables.items()
        }


def _risen(before: Counts, after: Counts) -> Counts:
    """Return the increase; what was reset meanwhile is counted from then on."""
    earlier = {key: before.get(key, 0.0) for key in after}
    return {
        key: count - earlier[key] if count >= earlier[key] else count
        for key, count in after.items()
    }
