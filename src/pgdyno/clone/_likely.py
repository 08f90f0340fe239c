"""References that no constraint has: columns with the name of a key of another table, or with that
of columns that do refer to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from pgdyno.clone.capture_file import Column, Table

Place = tuple[str, str]
"""Table, with its schema, and column."""
_ANY = ""
_Named: TypeAlias = Mapping[tuple[str, str], list[Place]]
"""Keys by names of columns that may refer to them, and by the key's schema or ``_ANY``."""
_ALL = 0.9
"""Rows of a table, as a share of another's, from which on each of these may have one there: both
are estimates."""


def likely_references(tables: Mapping[str, Table]) -> dict[Place, Place]:
    """Return references by the column that refers, without those of constraints; with those that
    names showed before they were replaced."""
    named = _by_name(tables)
    found = {
        (table.full_name, each.columns[0]): (each.table, each.keys[0])
        for table in tables.values()
        for each in table.likely
        if each.table in tables
    }
    ways = {
        each.full_name: {to.table for to in (*each.references, *each.likely)}
        for each in tables.values()
    }
    of_tables = {both for table in tables.values() for both in _of_table(table)}
    # What has the name of a table refers to it, whatever leads back from there.
    wanted = sorted(
        _wanted(tables, named), key=lambda each: (each[1].name, each[2]) not in of_tables
    )
    for table, column, to in wanted:
        if not _leads(ways, to[0], table.full_name):
            found[table.full_name, column.name] = to
            ways[table.full_name].add(to[0])
    return found


def _wanted(tables: Mapping[str, Table], named: _Named) -> Iterator[tuple[Table, Column, Place]]:
    """Yield the columns that may refer to others, with the keys of these."""
    for table in tables.values():
        both = (*table.references, *table.likely)
        referring = {name for each in both for name in each.columns}
        for column in table.columns:
            to = _target(table, column, named, tables)
            if to is not None and column.name not in referring and not _is_made_by_server(column):
                yield table, column, to


def _target(
    table: Table, column: Column, named: _Named, tables: Mapping[str, Table]
) -> Place | None:
    """Return the key that a column's name is that of, or the next of its names if that is its own:
    the first one that can have its values, in its own schema if there is one."""
    for name in _names(table, column):
        both: tuple[Place, ...] = (
            *named.get((name, table.schema), ()),
            *named.get((name, _ANY), ()),
        )
        to = next((each for each in both if _can_have(each, table, column, tables)), None)
        if to is not None and to[0] != table.full_name:
            return to
    return None


def _can_have(to: Place, table: Table, column: Column, tables: Mapping[str, Table]) -> bool:
    """Return whether a key can have the values of a column of a table."""
    key = tables[to[0]].column(to[1])
    return key is not None and key.base == column.base and _has(tables[to[0]], table, column)


def _names(table: Table, column: Column) -> dict[str, None]:
    """Return the names that a column of a table has as a reference: its own, and without what it
    begins with, such as the role of what it refers to: ``billing_address_id``."""
    words = column.name.split("_")
    ends = ("_".join(words[place:]) for place in range(1, len(words) - 1))
    return dict.fromkeys((column.name, column.name.removeprefix(_prefix(table)), *ends))


def _has(to: Table, table: Table, column: Column) -> bool:
    """Return whether a table has enough rows for the values of a column of another."""
    if (column.name,) in table.keys:
        return to.rows >= _ALL * table.rows
    return to.rows > 0 or table.rows <= 0


def _by_name(tables: Mapping[str, Table]) -> _Named:
    """Return the keys that columns with a name may refer to, the most likely first: those of tables
    with this name, those to which others with the name do refer, and those that have it."""
    found: defaultdict[tuple[str, str], dict[Place, None]] = defaultdict(dict)
    ordered = sorted(tables.values(), key=_is_of_others)
    for names_of in (_of_table, lambda table: _referring(table, tables), _of_key):
        for name, place in (each for table in ordered for each in names_of(table)):
            for schema in (tables[place[0]].schema, _ANY):
                found[name, schema][place] = None
    return {name: [*places] for name, places in found.items()}


def _of_table(table: Table) -> Iterator[tuple[str, Place]]:
    """Yield a table's key of one column with the names that the table's has."""
    if table.keys and len(table.keys[0]) == 1:
        place, one = (table.full_name, table.keys[0][0]), table.name.removesuffix("s")
        for name in (f"{table.name}_id", f"{one}_id", *([one] if one != table.name else [])):
            yield name, place


def _referring(table: Table, tables: Mapping[str, Table]) -> Iterator[tuple[str, Place]]:
    for each in table.references:
        if len(each.columns) == 1 and each.table in tables and each.table != table.full_name:
            yield each.columns[0], (each.table, each.keys[0])


def _of_key(table: Table) -> Iterator[tuple[str, Place]]:
    """Yield the last column of a primary key, or those that are a key by themselves where there is
    none, with their names."""
    keys = table.keys[:1] if table.has_primary else [key for key in table.keys if len(key) == 1]
    for key in keys:
        if key[-1] != "id":
            yield key[-1], (table.full_name, key[-1])


def _is_made_by_server(column: Column) -> bool:
    return column.has_sequence or column.default == "uuid"


def _is_of_others(table: Table) -> tuple[bool, int, str]:
    """Return by what tables are in order if a key of the same name may be that of several: those
    whose keys the server makes come first, then those with shorter names."""
    keys = [table.column(each) for each in table.keys[0]] if table.has_primary else []
    is_made = any(each is not None and _is_made_by_server(each) for each in keys)
    return not is_made, len(table.name), table.full_name


def _leads(ways: Mapping[str, Iterable[str]], start: str, end: str) -> bool:
    """Return whether references lead from a table to another: a further one back would make a
    circle, in which no column has keys of its own."""
    reached = {start: None}
    for each in (left := [start]):  # It grows meanwhile.
        new = [to for to in ways.get(each, ()) if to not in reached]
        reached.update(dict.fromkeys(new))
        left += new
    return end in reached


def _prefix(table: Table) -> str:
    """Return what the names of all columns of a table begin with, up to the first underscore."""
    beginnings = {each.name.partition("_")[0] for each in table.columns}
    return f"{beginnings.pop()}_" if len(beginnings) == 1 and len(table.columns) > 1 else ""
