"""Columns that are null in all rows, as the statements tell where no statistics can be read: no
INSERT writes them, and no UPDATE sets them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from pgdyno.capture._told import with_told
from pgdyno.clone.capture_file import Column, Function, Statement, Table
from pgdyno.clone.keys import Place
from pgdyno.spec.sql_text import NAME, folded

_INSERT = re.compile(
    rf"(?i)\binsert\s+into\s+(?:{NAME}\s*\.\s*)?({NAME})(?:\s+as\s+{NAME})?\s*(?:\(([^()]*)\))?"
)
_UPDATE = re.compile(rf"(?i)\b(?:update|merge\s+into)\s+(?:only\s+)?(?:{NAME}\s*\.\s*)?({NAME})")
_ASSIGNED = re.compile(rf"({NAME})\s*=(?!=)")


def with_nulls(
    tables: tuple[Table, ...], statements: Iterable[Statement], functions: Sequence[Function]
) -> tuple[Table, ...]:
    """Return the tables with columns that are null in all rows, of those into which statements
    insert rows."""
    written: defaultdict[str, set[str]] = defaultdict(set)
    inserted: set[str] = set()
    for text in (each.text for each in statements):
        for name, listed in _INSERT.findall(text):
            inserted.add(folded(name))
            written[folded(name)].update(map(folded, listed.split(",") if listed else ["*"]))
        for name in (*_UPDATE.findall(text), *(each[0] for each in _INSERT.findall(text))):
            written[folded(name)].update(map(folded, _ASSIGNED.findall(text)))
    in_functions = " ".join(each.sql for each in functions)
    told = {
        place: 1.0
        for table in tables
        if table.name in inserted and "*" not in written[table.name]
        if not table.triggers and table.name not in in_functions
        for place in _left_out(table, written[table.name])
    }
    return with_told(tables, "null_share", told)


def _left_out(table: Table, written: set[str]) -> Iterator[Place]:
    """Yield the columns of a table that are null unless they are written, and are not."""
    for each in table.columns:
        if each.name not in written and not each.not_null and _is_unknown(each):
            yield table.full_name, each.name


def _is_unknown(column: Column) -> bool:
    """Return whether nothing tells that a column has values."""
    has_default = column.default != "none" or column.has_sequence or column.generated
    known = (column.distinct, column.width_bytes, column.correlation)
    return not has_default and not column.null_share and all(each is None for each in known)
