"""The tables of a database from its catalogue and statistics, without values."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pgdyno.capture._code import Known, has_values, without_literals
from pgdyno.capture._queries import rows_of
from pgdyno.capture._skew import Updates
from pgdyno.capture._tokens import Unreadable
from pgdyno.clone.capture_file import Column, Index, Partitions, Reference, Table, sequence_name
from pgdyno.clone.schema import labels_of
from pgdyno.clone.values import is_made
from pgdyno.numbers import counted, listed
from pgdyno.spec.sql_text import NAME, folded, quoted

if TYPE_CHECKING:
    import psycopg

    from pgdyno.json_types import Row

TABLES_MAX = 5000
ROWS_MIN = 20
"""Rows below which a class of values is not counted: it might tell of somebody."""
_NAMED_MAX = 3
_LATE_S = 0.5
"""Time by which the server counts rows late, on average: sessions report them once a second."""
_OF_NULL = re.compile(rf" WHERE \(({NAME}) IS NULL\)$")


class Catalogue:
    """Tables by their ids, and what is not as it is on the server."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        """Read the catalogue. Raises psycopg.Error."""
        self.gaps: list[str] = []
        found = rows_of(connection, "tables", {"most": TABLES_MAX})
        if len(found) == TABLES_MAX:
            self.gaps.append(
                f"tables beyond the {TABLES_MAX:,} whose rows are used most are left out"
            )
        self.ids = [int(row["id"]) for row in found]
        values = {"tables": self.ids, "rows_min": ROWS_MIN}
        self._columns = _by_table(rows_of(connection, "columns", values))
        self._constraints = _by_table(rows_of(connection, "constraints", values))
        self._indexes = _by_table(rows_of(connection, "indexes", values))
        labels = rows_of(connection, "labels", {"tables": self.ids})
        columns = [row for rows in self._columns.values() for row in rows]
        self.known = Known(
            frozenset(_texts_of(found, columns)),
            {row["label"]: labels_of(row["labels"])[row["place"] - 1] for row in labels},
        )
        """Texts that code may have."""
        self._names = {int(row["id"]): f"{row['schema']}.{row['name']}" for row in found}
        self.tables = tuple(self._table(row) for row in found)
        self._tell(found)

    def _table(self, row: Row) -> Table:
        number = int(row["id"])
        columns = tuple(map(self._column, self._columns[number]))
        here = {each.name for each in columns if is_made(each)}
        given = here - {each.name for each in columns if each.generated}
        constraints, indexes = self._constraints[number], self._indexes[number]
        plain = [each for each in indexes if each["is_unique"] and each["is_plain"]]
        primary = _columns_within(given, (each for each in constraints if each["kind"] == "p"))
        unique = _columns_within(
            given, [*(each for each in constraints if each["kind"] == "u"), *plain]
        )
        references = tuple(
            Reference(
                tuple(each["columns"]),
                self._names[int(each["other_id"])],
                tuple(each["keys"]),
                each["action"],
            )
            for each in constraints
            if each["kind"] == "f" and int(each["other_id"]) in self._names
        )
        return Table(
            schema=row["schema"],
            name=row["name"],
            rows=row["rows"],
            pages=int(row["pages"]),
            columns=columns,
            keys=(*primary, *unique),
            has_primary=bool(primary),
            references=references,
            indexes=tuple(
                Index(each["sql"], unique=_is_of_key(each, (*primary, *unique)))
                for each in indexes
                if each["sql"] is not None
                and each not in plain
                and here.issuperset(each["columns"])
            ),
            options=tuple(row["options"]),
            unlogged=row["is_unlogged"],
            partitions=_partitions(row),
            checks=tuple(filter(None, map(_check, constraints))),
        )

    def _column(self, row: Row) -> Column:
        expression = _without_values(row["expression"] or "", self.known)
        return Column(
            name=row["name"],
            type=row["domain_type"] if row["is_domain"] else row["type"],
            base=row["base"] if row["is_builtin"] or row["base"] in ("enum", "array") else "",
            not_null=row["not_null"],
            default="none" if row["generated"] else row["default_kind"],
            identity=row["identity"],
            generated=expression,
            virtual=bool(expression) and row["generated"] == "v",
            labels=row["labels"] or 0,
            null_share=_rounded(row["null_share"]) or 0.0,
            distinct=_rounded(row["distinct_values"]),
            width_bytes=row["width_bytes"],
            correlation=_rounded(row["correlation"]),
            elements=_rounded(row["elements"]),
            distinct_elements=_rounded(row["distinct_elements"]),
            frequent=tuple(_rounded(each) or 0.0 for each in row["frequent"] or ()),
        )

    def with_updates(
        self, updates: Mapping[int, Updates], skews: Mapping[int, float | None], seconds: float
    ) -> tuple[Table, ...]:
        """Return the tables with their updates in so many seconds and the exponents of these, by
        the tables' ids; with the rows that were there already when they were counted."""
        changed = []
        for number, table in zip(self.ids, self.tables, strict=True):
            counts = updates.get(number, Updates())
            rows = counts.updated
            late = _LATE_S * (counts.inserted - counts.deleted) / seconds
            changed.append(
                replace(
                    table,
                    rows=float(max(0, round(table.rows + late))) if table.rows else 0.0,
                    updates_per_s=round(rows / seconds, 2),
                    hot_share=round(counts.hot / rows, 3) if rows > 0 else None,
                    update_skew=skews.get(number),
                )
            )
        return tuple(changed)

    def _tell(self, found: Sequence[Row]) -> None:
        """Add what is left out, or guessed, to the gaps."""
        name = {int(row["id"]): quoted(row["name"]) for row in found}
        columns = [
            (each, made)
            for number, table in zip(self.ids, self.tables, strict=True)
            for each, made in zip(self._columns[number], table.columns, strict=True)
        ]
        lacking = {
            "tables with partitions by expressions have none here": [
                quoted(row["name"]) for row in found if row["is_by_expression"]
            ],
            "partitions by a list, or by ranges of texts, are by hash here": [
                quoted(row["name"]) for row in found if row["strategy"] == "list"
            ],
            "without statistics that this role may read, the numbers of different values are"
            " guessed": [quoted(row["name"]) for row in found if not row["is_readable"]],
            "columns of these types are left out": sorted(
                {each["type"] for each, made in columns if not is_made(made)}
            ),
            "columns that the server computes are stored as others": [
                f"{name[int(each['table_id'])]}.{quoted(each['name'])}"
                for each, made in columns
                if each["generated"] and not made.generated
            ],
            "CHECK constraints with values, and EXCLUDE constraints, are left out": sorted(
                {
                    name[number]
                    for number, rows in self._constraints.items()
                    if any(
                        each["kind"] == "x" or (each["kind"] == "c" and _check(each) is None)
                        for each in rows
                    )
                }
            ),
            "indexes with values in their text are left out": sorted(
                {
                    name[number]
                    for number, rows in self._indexes.items()
                    if any(each["sql"] is None for each in rows)
                }
            ),
        }
        for words, names in lacking.items():
            if names:
                where = counted(len(names), "place", "places")
                self.gaps.append(f"{words} ({where}: {listed(names, _NAMED_MAX)})")


def _columns_within(here: set[str], rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Return the columns of keys that are all ``here``."""
    return [tuple(each["columns"]) for each in rows if here.issuperset(each["columns"])]


def _by_table(rows: Sequence[Row]) -> defaultdict[int, list[Row]]:
    found: defaultdict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[int(row["table_id"])].append(row)
    return found


def _partitions(row: Row) -> Partitions | None:
    if row["strategy"] is None or row["is_by_expression"] or not row["parts"]:
        return None
    whole = sum(row["rows_of_parts"])
    shares = (round(each / whole, 4) for each in row["rows_of_parts"]) if whole else ()
    is_range = row["strategy"] == "range"
    by, count = tuple(row["partitioned_by"]), row["parts"]
    return Partitions(row["strategy"], by, count, tuple(shares) if is_range else ())


def _texts_of(tables: Sequence[Row], columns: Sequence[Row]) -> Iterator[str]:
    """Yield the names of schemas, tables and columns, and those of the sequences of columns."""
    names = {int(row["id"]): row["name"] for row in tables}
    yield from names.values()
    yield from (row["schema"] for row in tables)
    for row in columns:
        yield row["name"]
        if row["identity"] or row["default_kind"] == "sequence":
            yield sequence_name(names[int(row["table_id"])], row["name"])


def _without_values(expression: str, known: Known) -> str:
    try:
        return without_literals(expression, known)
    except Unreadable:
        return ""


def _is_of_key(index: Row, keys: Iterable[tuple[str, ...]]) -> bool:
    """Return whether a unique index of some rows is of a key's columns without those that are null
    in these: rows that are made are unique there, too."""
    null = _OF_NULL.search(index["sql"])
    if null is None or not index["is_unique"]:
        return False
    return any({*index["columns"], folded(null[1])} == {*each} for each in keys)


def _check(constraint: Row) -> str | None:
    """Return a CHECK; None of another constraint, and of one with values."""
    sql: str | None = constraint["sql"]
    try:
        return None if sql is None or has_values(sql) else sql
    except Unreadable:
        return None


def _rounded(value: float | None) -> float | None:
    """Return a statistic with the six digits that a real number has."""
    return None if value is None else float(f"{value:.6g}")
