"""Pages that statements read, and scans of tables and indexes, over a period.

Scans tell the plans of a load also where its statements cannot be explained: that needs rights on
its tables, which a role in pg_monitor has not. The planner has bitmaps in place of plain scans of
an index where the rows are not in its order.
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
_MOST = 0.5
"""Share of the entries of an index from which on bitmaps have read most of them."""


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
        self._entries: Counter[tuple[str, str]] = Counter()
        self._fetched: Counter[tuple[str, str]] = Counter()

    def read(self) -> None:
        """Read the counts again. Raises psycopg.Error."""
        before, self._last = self._last, self._read()
        counted = self._pages, self._scans, self._entries, self._fetched
        for rises, earlier, now in zip(counted, before, self._last, strict=True):
            rises.update(_risen(earlier, now))

    def _read(self) -> tuple[Counts, ...]:
        pages = rows_of(self._connection, "pages", schema=self._schema)
        scans = rows_of(self._connection, "scans", {"tables": self._tables})
        return (
            {(row["id"], ""): row["pages"] for row in pages},
            *(
                {(str(row["table_id"]), row["columns"]): row[count] for row in scans}
                for count in ("scans", "entries", "fetched")
            ),
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
        """Return the tables with their scans in so many seconds. A column without statistics whose
        index bitmaps have read has no order."""
        found: defaultdict[str, list[Scans]] = defaultdict(list)
        for (table, columns), scans in sorted(self._scans.items()):
            if scans > 0:
                found[table].append(Scans(round(scans / seconds, 4), columns))
        by_bitmap = self._by_bitmap()
        return {
            number: replace(
                table,
                scans=tuple(found[str(number)]),
                columns=tuple(
                    replace(each, correlation=0.0)
                    if each.correlation is None and (str(number), each.name) in by_bitmap
                    else each
                    for each in table.columns
                ),
            )
            for number, table in tables.items()
        }

    def _by_bitmap(self) -> set[tuple[str, str]]:
        """Return the indexes most of whose entries bitmaps have read: those that plain scans have
        not fetched, and the table has. They are known by table and columns."""
        left = {
            place: max(0.0, entries - self._fetched[place])
            for place, entries in self._entries.items()
            if place[1]
        }
        whole: defaultdict[str, float] = defaultdict(float)
        for (table, _), entries in left.items():
            whole[table] += entries
        return {
            (table, columns)
            for (table, columns), entries in left.items()
            if entries > _MOST * self._entries[table, columns]
            and self._fetched[table, ""] > _MOST * whole[table]
        }


def _risen(before: Counts, after: Counts) -> Counts:
    """Return the increase; what was reset meanwhile is counted from then on."""
    earlier = {key: before.get(key, 0.0) for key in after}
    return {
        key: count - earlier[key] if count >= earlier[key] else count
        for key, count in after.items()
    }
