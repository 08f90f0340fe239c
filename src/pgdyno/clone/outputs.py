"""The columns that a statement returns, by the names under which a script has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from pgdyno.clone.capture_file import Statement
from pgdyno.clone.keys import Keys, Place
from pgdyno.spec.sql_text import NAME, folded

_BEGINS = re.compile(r"(?i)\b(select|insert|update|delete|merge|values)\b")
_FROM = re.compile(r"(?i)\bfrom\b")
_RETURNING = re.compile(r"(?i)\breturning\b")
_COMMA = re.compile(",")
_NAMED = re.compile(rf"(?is)(?P<whole>.*?)(?:\s+as\s+(?P<name>{NAME}))?")
_COLUMN = re.compile(rf"(?:{NAME}\.)?({NAME})")
_ONE_OF = re.compile(
    rf"(?is)coalesce\s*\(\s*(?:min|max)\s*\(\s*(?:{NAME}\.)?({NAME})\s*\)\s*,[^()]*\)"
)
_ALL_OF = re.compile(
    rf"(?is)(?:coalesce\s*\(\s*)?array_agg\s*\(\s*(?:{NAME}\.)?({NAME})\s*(?:order\s+by\b[^()]*)?\)"
    r"(?:\s*,[^()]*\))?"
)
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
NUMBERS = ("int2", "int4", "int8")
"""Types of which a script can name an element of an array, and write values without quotes."""


class Output(Struct, frozen=True):
    """A column that a statement returns."""

    column: str
    """'' of an expression."""
    name: str
    is_never_null: bool = False
    """True if it is a value that replaces null."""
    is_array: bool = False
    """True if it has the values of all rows."""


def returned_keys(statement: Statement, keys: Keys) -> dict[Place, str]:
    """Return the keys of rows that a statement returns, with their names: those that are never
    null, and of columns of tables that it has parameters of."""
    found: dict[Place, str] = {}
    tables = dict.fromkeys(each.table for each in statement.parameters if each.table in keys.tables)
    for output in outputs_of(statement.text):
        for table in (keys.tables[each] for each in tables if not output.is_array):
            if (column := table.column(output.column)) is None:
                continue
            root = keys.root((table.full_name, column.name))
            is_there = column.not_null or table.is_in_key(column) or output.is_never_null
            if is_there and any(root[1] in key for key in keys.tables[root[0]].keys):
                found.setdefault(root, output.name)
            break
    return found


def returned_arrays(statement: Statement, keys: Keys) -> dict[Place, str]:
    """Return the columns of which a statement returns the values of all rows that it finds, with
    their names: those of numbers in the table that it has parameters of."""
    arrays = {each.column: each.name for each in outputs_of(statement.text) if each.is_array}
    names = {each.table for each in statement.parameters if each.table in keys.tables}
    if len(names) != 1 or not statement.aggregates:
        return {}
    (table,) = map(keys.tables.__getitem__, names)
    numbers = {each.name for each in table.columns if each.base in NUMBERS}
    return {(table.full_name, each): arrays[each] for each in arrays if each in numbers}


def outputs_of(text: str) -> list[Output]:
    """Return what a statement returns; nothing if a script could not have all of it as
    variables."""
    found = [_output(each) for each in _items(_listed(text))]
    outputs = [each for each in found if each is not None]
    return outputs if len(outputs) == len(found) else []


def _listed(text: str) -> str:
    """Return the list of what a statement returns."""
    begin = next(_outside(_BEGINS, text), None)
    if begin is None:
        return ""
    if begin[0].lower() != "select":
        returning = next(_outside(_RETURNING, text), None)
        return "" if returning is None else text[returning.end() :]
    end = next((each.start() for each in _outside(_FROM, text)), len(text))
    return text[begin.end() : end]


def _items(listed: str) -> Iterator[str]:
    begin = 0
    for comma in (*_outside(_COMMA, listed), None):
        item = listed[begin : None if comma is None else comma.start()].strip()
        if item:
            yield item
        begin = len(listed) if comma is None else comma.end()


def _output(item: str) -> Output | None:
    """Return an output; None if its name is no variable."""
    named = _NAMED.fullmatch(item)
    assert named is not None
    column, one, all_ = (each.fullmatch(named["whole"]) for each in (_COLUMN, _ONE_OF, _ALL_OF))
    name = named["name"] or (column[1] if column else "")
    if not _VARIABLE.fullmatch(folded(name)):
        return None
    of = column or one or all_
    return Output(
        folded(of[1]) if of else "",
        folded(name),
        is_never_null=one is not None,
        is_array=all_ is not None,
    )


def _outside(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield what is found outside of parentheses and brackets."""
    depths = _depths(text)
    yield from (each for each in pattern.finditer(text) if not depths[each.start()])


def _depths(text: str) -> Sequence[int]:
    depth, found = 0, []
    for character in text:
        found.append(depth)
        depth += (character in "([") - (character in ")]")
    return found
