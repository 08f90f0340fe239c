"""The setup of a capture: its tables, with rows that have as many values as the source's.

Keys, indexes and references come after the rows, as pg_dump has them, and then triggers. Checks
are of new rows alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pgdyno.clone.capture_file import (
    Column,
    Function,
    Index,
    Partitions,
    Reference,
    Table,
    View,
    sequence_name,
)
from pgdyno.clone.keys import Keys
from pgdyno.clone.values import (
    LABEL_CHARACTERS,
    filled_share,
    fillfactor_of,
    follows_keys,
    is_made,
    literal_of,
    most_key,
)
from pgdyno.spec.sql_text import NAME, columns_text, folded, literal, quoted

_SHARES = 10_000
_NAME_BYTES = 63
_FEW_PAGES, _FULL, _FILLED_PERCENT_MIN = 3, 0.9, 10
"""Pages from which on it matters how full they are, the part of the fillfactor above which they
count as full, and the least fillfactor that a server takes."""
_IDENTITY = frozenset(("int2", "int4", "int8"))
ROWS = " \\rows "
"""Between COPY and the rows that are made for it."""
UNCHECKED = "set check_function_bodies = off"
"""Functions name each other, in any order."""
_DEFAULTS = {"time": "now()", "uuid": "gen_random_uuid()"}


def setup_of(keys: Keys, functions: Sequence[Function] = (), views: Sequence[View] = ()) -> str:
    """Return the setup of tables: statements, and COPY with rows that are made."""
    tables = [*keys.tables.values()]
    made = [
        *schemas_and_types(tables, [*functions, *views]),
        *(f"{table_sql(each, _starts(each, keys))};" for each in tables),
        *(f"{each};" for table in tables for each in partitions_sql(table, keys)),
        *([f"{UNCHECKED};"] if functions else []),
        *(f"{each.sql};" for each in functions),
        *(f"{view_sql(each)};" for each in views),
        *(rows for table in tables for rows in _filled_sql(table, keys)),
        *(f"{key_sql(table, each)};" for table in tables for each in table.keys),
        *(f"{index_sql(table, each)};" for table in tables for each in table.indexes),
        *(
            f"{reference_sql(table, each, keys.tables[each.table])};"
            for table in tables
            for each in table.references
        ),
        *(f"{check_sql(table, each)} not valid;" for table in tables for each in table.checks),
        *(f"{each};" for table in tables for each in table.triggers),
    ]
    return "\n".join(made) + "\n"


def schemas_and_types(
    tables: Sequence[Table], others: Sequence[Function | View] = ()
) -> Iterator[str]:
    """Yield the statements that create schemas and types, and let names be found in them."""
    enums = {
        column.type: column.labels for table in tables for column in table.columns if column.labels
    }
    named = (re.findall(NAME, each) for each in enums)
    of_types = {folded(names[0]) for names in named if len(names) > 1}
    schemas = sorted({*of_types, *(each.schema for each in (*tables, *others))} - {"public"})
    for schema in schemas:
        yield f"create schema if not exists {quoted(schema)};"
    if schemas:
        path = literal(", ".join(map(quoted, ["public", *schemas])))
        yield (
            "do $$ begin execute format('alter database %I set search_path = ' || "
            f"{path}, current_database()); end $$;"
        )
        yield f"select set_config('search_path', {path}, false);"
    for name, count in sorted(enums.items()):
        yield f"create type {name} as enum ({', '.join(map(literal, labels_of(count)))});"


def table_sql(table: Table, starts: Mapping[str, int]) -> str:
    """Return the statement that creates a table; ``starts`` are the next values of columns with a
    sequence, 1 by default."""
    columns = ",\n    ".join(_column(each, starts) for each in table.columns if is_made(each))
    options = f" with ({', '.join(table.options)})" if table.options else ""
    kind = "unlogged table" if table.unlogged else "table"
    return f"create {kind} {name_of(table)} (\n    {columns}\n){_partitioned(table)}{options}"


def _partitioned(table: Table) -> str:
    if table.partitions is None:
        return ""
    strategy = "range" if _is_in_order(table) else "hash"
    return f" partition by {strategy} ({columns_text(table.partitions.columns)})"


def _is_in_order(table: Table) -> bool:
    """Return whether a table is partitioned by ranges of a column whose values follow its keys.
    The others are by hash, which leaves out the same partitions where a value is named."""
    if table.partitions is None or table.partitions.strategy != "range":
        return False
    column = table.column(table.partitions.columns[0])
    return column is not None and follows_keys(column)


def partitions_sql(table: Table, keys: Keys) -> Iterator[str]:
    """Yield the statements that create the partitions of a table, ranges with the shares of the
    rows that the source's have."""
    if table.partitions is None:
        return
    count = table.partitions.count
    for number, name in enumerate(partition_names(table)):
        beginning = f"create table {name} partition of {name_of(table)} for values"
        if not _is_in_order(table):
            yield f"{beginning} with (modulus {count}, remainder {number})"
            continue
        low, high = (_bound(table, keys, each) for each in (number, number + 1))
        yield f"{beginning} from ({low}) to ({high})"


def partition_names(table: Table) -> list[str]:
    """Return the names of a table's partitions, as SQL has them."""
    count = 0 if table.partitions is None else table.partitions.count
    schema, name = quoted(table.schema), table.name
    return [f"{schema}.{quoted(f'{name}_part_{number}')}" for number in range(1, count + 1)]


def _bound(table: Table, keys: Keys, number: int) -> str:
    """Return the beginning of a range, by its number from 0."""
    assert table.partitions is not None
    first, *others = table.partitions.columns
    column, count = table.column(first), table.partitions.count
    assert column is not None
    if number in (0, count):
        least = "minvalue" if number == 0 else "maxvalue"
        return ", ".join([least] * (1 + len(others)))
    key = _first_key(table.partitions, keys.count((table.full_name, first)), number)
    key = key or most_key(column) - count + number
    return ", ".join([literal_of(column, key), *["minvalue"] * len(others)])


def _first_key(partitions: Partitions, keys: int, number: int) -> int | None:
    """Return the first of so many keys that is in a range, by its number from 0; None if it and
    those behind it have none."""
    shares = partitions.shares or (1.0,) * partitions.count
    if not sum(shares[number:]):
        return None
    before = sum(shares[:number]) / sum(shares)
    # Each range has a key at least.
    return 1 + number + int(max(0, keys - partitions.count) * before)


def key_sql(table: Table, key: tuple[str, ...]) -> str:
    """Return the statement that adds a key of a table."""
    kind = "primary key" if table.has_primary and key == table.keys[0] else "unique"
    return f"alter table {name_of(table)} add {kind} ({columns_text(key)})"


def index_sql(table: Table, index: Index) -> str:
    """Return the statement that creates an index."""
    unique = "unique " if index.unique else ""
    return f"create {unique}index on {name_of(table)} {index.sql}"


def reference_sql(table: Table, reference: Reference, to: Table) -> str:
    """Return the statement that adds a foreign key."""
    action = f" {reference.action}" if reference.action else ""
    # The rows of several columns refer to nearly all that they could.
    valid = "" if len(reference.columns) == 1 else " not valid"
    return (
        f"alter table {name_of(table)} add foreign key ({columns_text(reference.columns)})"
        f" references {name_of(to)} ({columns_text(reference.keys)}){action}{valid}"
    )


def check_sql(table: Table, check: str) -> str:
    """Return the statement that adds a CHECK."""
    return f"alter table {name_of(table)} add {check}"


def view_sql(view: View) -> str:
    """Return the statement that creates a view."""
    return f"create view {quoted(view.schema)}.{quoted(view.name)} as {view.sql}"


def _starts(table: Table, keys: Keys) -> dict[str, int]:
    return {column.name: keys.count((table.full_name, column.name)) + 1 for column in table.columns}


def labels_of(count: int) -> list[str]:
    """Return the labels of an enum that has so many."""
    from pgdyno._engine import MadeRows

    text = f"copy labels from stdin \\rows {count} text_of(:row + 1, {LABEL_CHARACTERS})"
    made = MadeRows(text, "labels", [], 0)
    return (made.piece(count * (LABEL_CHARACTERS + 1)) or b"").decode().split()


def name_of(table: Table) -> str:
    """Return schema and name as SQL has them."""
    return f"{quoted(table.schema)}.{quoted(table.name)}"


def _column(column: Column, starts: Mapping[str, int]) -> str:
    text = f"{quoted(column.name)} {column.type}"
    if column.generated:
        stored = "virtual" if column.virtual else "stored"
        return f"{text} generated always as ({column.generated}) {stored}"
    if _has_sequence(column):
        start = starts.get(column.name, 1)
        return f"{text} generated by default as identity (start with {start})"
    default = _value(column) if column.default == "value" else _DEFAULTS.get(column.default)
    text += f" default {default}" if default else ""
    return f"{text} not null" if column.not_null else text


def sequence_of(table: Table, column: Column) -> str | None:
    """Return the sequence that a column has in the clone, as text of a regclass; None if it has
    none, or one with a shortened name."""
    if not _has_sequence(column):
        return None
    name = sequence_name(table.name, column.name)
    return f"{quoted(table.schema)}.{quoted(name)}" if len(name.encode()) <= _NAME_BYTES else None


def _has_sequence(column: Column) -> bool:
    return column.has_sequence and column.base in _IDENTITY


def _value(column: Column) -> str | None:
    """Return a value for a column that is left out of an INSERT."""
    if column.base == "enum":
        return literal(labels_of(1)[0])
    if column.base == "bool":
        return "false"
    if column.base in ("text", "varchar", "bpchar", "name"):
        return "'x'"
    if column.base in ("json", "jsonb", "array"):
        return "'{}'"
    if column.base in ("date", "timestamp", "timestamptz", "time", "timetz"):
        return "now()"
    is_number = column.base in _IDENTITY or column.base in ("numeric", "float4", "float8")
    return "1" if is_number else None


def rows_sql(table: Table, keys: Keys) -> Iterator[str]:
    """Yield the COPY that makes the rows of a table, if it has any."""
    columns = [each for each in table.columns if is_made(each) and not each.generated]
    rows = keys.rows(table)
    if rows and columns:
        values = ", ".join(_cell(table, each, keys) for each in columns)
        names = columns_text(each.name for each in columns)
        yield f"copy {name_of(table)} ({names}) from stdin{ROWS}{rows} {values}"


def _filled_sql(table: Table, keys: Keys) -> Iterator[str]:
    """Yield the COPY that makes the rows of a table, which fill its pages as the source's do."""
    loosely, as_before = _filled(table) if keys.rows(table) else ([], [])
    yield from loosely
    yield from rows_sql(table, keys)
    yield from as_before


def _filled(table: Table) -> tuple[list[str], list[str]]:
    """Return the statements by which the pages of a table are filled as little as the source's, and
    then as its storage parameters have it: none if they are nearly full."""
    filled, own = round(100 * filled_share(table)), fillfactor_of(table)
    is_full = filled > _FULL * (own or 100)
    if table.partitions is not None or table.pages < _FEW_PAGES or is_full:
        return [], []
    begin = f"alter table {name_of(table)}"
    return (
        [f"{begin} set (fillfactor = {max(_FILLED_PERCENT_MIN, filled)});"],
        [f"{begin} set (fillfactor={own});" if own else f"{begin} reset (fillfactor);"],
    )


def _cell(table: Table, column: Column, keys: Keys) -> str:
    if keys.is_null(table, column):
        return "null"
    value = keys.value((table.full_name, column.name), keys.of_row(table, column))
    nulls = round(column.null_share * _SHARES)
    if nulls == _SHARES:
        return "null"
    if (is_first := keys.is_first(table, column)) is not None:
        value = f"case when {is_first} then null else {value} end"
    if not nulls or table.is_in_key(column) or value.startswith("'"):
        return value
    return f"case when random(1, {_SHARES}) <= {nulls} then null else {value} end"
