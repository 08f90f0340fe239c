"""The columns that the parameters of statements belong to, from plans on an empty schema.

The planner resolves names and types: a condition has a column and a parameter, and the rows of an
INSERT or an UPDATE have expressions for the columns in their order. Of SET and LIMIT the text is
read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pgdyno.capture._lists import Lists, lists_of, rows_of_values
from pgdyno.clone.capture_file import Parameter, Table, Use
from pgdyno.clone.values import is_made
from pgdyno.plans.conditions import all_comparisons
from pgdyno.plans.tree import Node, read_plan
from pgdyno.spec.sql_text import NAME, folded

if TYPE_CHECKING:
    import psycopg

_PLACE = re.compile(r"\$(\d+)")
_COLUMN = re.compile(rf'(?<![\w:."])({NAME})\.({NAME})(?![\w$(])')
"""A column of a relation, which is no type of a schema and no function."""
_PLAIN = re.compile(r"\(*\$(\d+)\)*(?:::[^$]*)?", re.DOTALL)
_LIST = re.compile(r"(?:ANY\s*)?\(*ARRAY\[(.*)\]\)*(?:::[^$]*)?", re.DOTALL)
_LIMIT = re.compile(r"\b(limit|offset|fetch\s+(?:first|next))\s+\(?\$(\d+)", re.IGNORECASE)
_SET = re.compile(r"\bset\b(.*?)(?:\bwhere\b|\bfrom\b|\breturning\b|$)", re.IGNORECASE | re.DOTALL)
_ASSIGNED = re.compile(rf"({NAME})\s*=([^=]*?)(?=,\s*{NAME}\s*=|$)", re.DOTALL)
_CHOOSING = re.compile(r"\b(?:case|coalesce|greatest|least)\b", re.IGNORECASE)
_COMPUTING = re.compile(r"[-+*/|]")
_ADDING = re.compile(r"\bexcluded\b[^,]*[-+]|[-+][^,]*\bexcluded\b", re.IGNORECASE)
"""A new value of a row that is there, to which an INSERT adds its own."""
_INSERT = re.compile(
    rf"\s*insert\s+into\s+[^\s(]+(?:\s+as\s+{NAME})?\s*\(([^()]*)\)\s*values", re.I
)
_BOUNDS: tuple[dict[str, Use], dict[str, Use]] = (
    {">": "least", ">=": "least", "<": "most", "<=": "most"},
    {"<": "least", "<=": "least", ">": "most", ">=": "most"},
)
"""Uses of a value behind an operator, and before it."""
_SERIES = re.compile(r"(?i)\bgenerate_series\s*\([^()]*\)")
_ENDS = re.compile(r"(?i)\bgenerate_series\s*\(\s*\$(\d+)(?:::\w+)?\s*,\s*\$(\d+)(?:::\w+)?\s*\)")
_SUM = re.compile(r"\(*\$(\d+)(?:::bigint)?\)* [-+] \(*\$(\d+)\)*(?:::[^$]*)?")
_COMPUTED = re.compile(r"\$\d+(?=\s*[-+*/%]\s*\$\d)")
_WITH_TEXT = re.compile(r"\b(\w+(?: \w+)*) = text\b")
"""Types in the message about an operator that the server does not have."""
_IN_VALUES = re.compile(r"(?i)\bin\s*\(\s*values\s*\([^()]*\)(?:\s*,\s*\([^()]*\))*")
_NAMED = re.compile(r"(?i)\$\d+(?=\s+as\s)")
"""Values of columns with a name, such as the depth with which a recursive query begins."""
_UNTYPED = re.compile(r"\$\d+(?![\d:])")
_NAME = "pgdyno_capture"
_OF_VALUES, _CHANGING = "Values Scan", "ModifyTable"
"""Kinds of nodes: rows of VALUES, and changes of rows."""
_TYPES = f"""
select parameter_types::pg_catalog.text[] from pg_catalog.pg_prepared_statements
 where name operator(pg_catalog.=) '{_NAME}'
""".encode()


class Unplannable(Exception):
    """A statement that the server refuses on the empty schema."""


def planned(
    connection: psycopg.Connection, text: str, tables: Mapping[str, Table]
) -> tuple[str, tuple[Parameter, ...]]:
    """Return a statement that the server can prepare, and its parameters in order of their numbers.
    Raises Unplannable."""
    import psycopg

    try:
        typed, types = _prepared(connection, text)
        top = generic_plan(connection, typed)
    except psycopg.Error as problem:
        raise Unplannable(problem.diag.message_primary or str(problem)) from None
    found = {**dict(_limits(typed)), **dict(_uses(top, typed, tables))}
    return typed, tuple(
        Parameter(type_, *found.get(number, ("other", "", "")))
        for number, type_ in enumerate(types, 1)
    )


def generic_plan(connection: psycopg.Connection, text: str) -> Node:
    """Return the plan of a statement for any parameters. Raises psycopg.Error."""
    answer = connection.execute(
        f"explain (generic_plan, verbose, format json) {text}".encode(), prepare=False
    ).fetchone()
    assert answer is not None
    return read_plan(answer[0][0]).root


def _prepared(connection: psycopg.Connection, text: str) -> tuple[str, list[str]]:
    """Return a statement and the types of its parameters. Those that could be of any type, such as
    the ones that jsonb_build_object takes, are texts, those of a series or a sum numbers, those
    of IN (VALUES …) of the type that they are compared with, and those that have a name and are no
    texts numbers.
    Raises psycopg.Error."""
    import psycopg

    while True:
        try:
            connection.execute(f"prepare {_NAME} as {text}".encode())
        except (
            psycopg.errors.IndeterminateDatatype,
            psycopg.errors.AmbiguousFunction,
            psycopg.errors.UndefinedFunction,
        ) as problem:
            typed = _with_type(text, problem)
            if typed == text:
                raise
            text = typed
            continue
        row = connection.execute(_TYPES, prepare=False).fetchone()
        connection.execute(f"deallocate {_NAME}".encode())
        assert row is not None
        return text, row[0]


def _with_type(text: str, problem: psycopg.Error) -> str:
    """Return a statement with the type of parameters for want of which the server refuses it; the
    same if it has one."""
    import psycopg

    if isinstance(problem, psycopg.errors.UndefinedFunction):
        compared = _WITH_TEXT.search(problem.diag.message_primary or "")
        untyped = rf"\g<0>::{compared[1]}" if compared else r"\g<0>"
        typed = _IN_VALUES.sub(lambda each: _UNTYPED.sub(untyped, each[0]), text)
        return typed if typed != text else _NAMED.sub(r"\g<0>::bigint", text)
    if isinstance(problem, psycopg.errors.AmbiguousFunction):
        typed = _SERIES.sub(lambda each: _PLACE.sub(r"\g<0>::bigint", each[0]), text)
        typed = _COMPUTED.sub(r"\g<0>::bigint", typed)
        return text if "::bigint::bigint" in typed else typed
    found = _PLACE.search(problem.diag.message_primary or "")
    if found is None or f"{found[0]}::" in text:
        return text
    return re.sub(rf"\${found[1]}(?!\d)", r"\g<0>::text", text)


Found = tuple[int, tuple[Use, str, str]]
"""Number of a parameter, and its use, table and column."""


def _limits(text: str) -> Iterator[Found]:
    for found in _LIMIT.finditer(text):
        yield int(found[2]), ("offset" if found[1].lower() == "offset" else "limit", "", "")
    for found in _ENDS.finditer(text):
        yield from ((int(found[1]), ("least", "", "")), (int(found[2]), ("most", "", "")))


def _uses(top: Node, text: str, tables: Mapping[str, Table]) -> Iterator[Found]:
    """Yield the uses of parameters in a plan; those in rows come last, and count."""
    relations = {
        each.alias: tables[each.relation].full_name
        for each in top.walk()
        if each.relation in tables
    }
    lists = lists_of(text, [each.alias for each in top.walk() if each.kind == _OF_VALUES])
    beside: set[int] = set()
    """Parameters of columns that the text compares them with, and not one that is equal to it."""
    for node in top.walk():
        for condition in node.conditions.values():
            for number, use in _compared(condition, relations, lists):
                is_beside = _is_beside(text, number, use[2])
                if is_beside or number not in beside:
                    yield number, use
                    beside |= {number} if is_beside else set()
    for node in top.walk():
        if node.kind == _CHANGING and node.children and node.relation in tables:
            yield from _written(node, text, tables[node.relation], lists)


def _is_beside(text: str, number: int, column: str) -> bool:
    """Return whether a statement has a column's name before a comparison with a parameter."""
    compared = rf"\b{re.escape(column)}\"?\s*(?:in\b|[<>=!]+)\s*(?:any\b\s*)?\(?\s*\${number}(?!\d)"
    return re.search(compared, text, re.IGNORECASE) is not None


def _compared(condition: str, relations: Mapping[str, str], lists: Lists) -> Iterator[Found]:
    for each in all_comparisons(condition):
        for (side, other), bounds in zip(each.sides(), _BOUNDS, strict=True):
            column, numbers = column_of(side, relations), _numbers(other, relations, lists)
            if column is not None:
                use = bounds.get(each.operator, "compared")
                yield from ((number, (use, *column)) for number in numbers)
                if computed := _SUM.fullmatch(other):
                    yield int(computed[1]), (use, *column)
                    yield int(computed[2]), ("added", *column)


def column_of(side: str, relations: Mapping[str, str]) -> tuple[str, str] | None:
    """Return table and column of a side that depends on one column alone."""
    found = {(folded(alias), folded(name)) for alias, name in _COLUMN.findall(side)}
    if len(found) != 1:
        return None
    ((alias, name),) = found
    return (relations[alias], name) if alias in relations else None


def _numbers(side: str, relations: Mapping[str, str], lists: Lists) -> list[int]:
    """Return the parameters that a side has the values of: a single one, a list, or those of rows
    that the statement has."""
    places = {(folded(alias), folded(name)) for alias, name in _COLUMN.findall(side)}
    if any(alias in relations for alias, _ in places):
        return []
    if len(places) == 1:
        return lists.get(places.pop(), [])
    numbers = [int(each) for each in _PLACE.findall(side)]
    return numbers if len({*numbers}) == 1 or _LIST.fullmatch(side) else []


def _written(node: Node, text: str, table: Table, lists: Lists) -> Iterator[Found]:
    found = _SET.search(text)
    assigned = _ASSIGNED.findall(found[1]) if found else []
    if re.match(r"\s*(?:with\b.*\))?\s*insert\b", text, re.I | re.S):
        added = {folded(name) for name, expression in assigned if _ADDING.search(expression)}
        for number, (plainly, name, column) in _inserted(node, text, table, lists):
            yield number, ("added" if column in added else plainly, name, column)
    for name, expression in assigned:
        column = folded(name)
        plain = _PLAIN.fullmatch(expression.strip())
        if plain:
            yield int(plain[1]), ("set", table.full_name, column)
        else:
            chosen = _CHOOSING.search(expression) and not _COMPUTING.search(expression)
            use: Use = "set" if chosen else "added"
            for number in _PLACE.findall(expression):
                yield int(number), (use, table.full_name, column)


def _inserted(node: Node, text: str, table: Table, lists: Lists) -> Iterator[Found]:
    """Yield the parameters in rows of an INSERT: those of VALUES in turn, or the output of the
    plan."""
    listed = _INSERT.match(text)
    names = [folded(each) for each in re.findall(NAME, listed[1])] if listed else []
    rows = next(each for each in node.children if not each.is_apart)
    if listed and rows.kind == _OF_VALUES:
        for row in rows_of_values(text):
            for name, value in zip(names, row, strict=False):
                yield from ((number, ("inserted", table.full_name, name)) for number in value)
        return
    made = filter(is_made, table.columns)
    for column, expression in zip(made, rows.output, strict=False):
        for number in _numbers(expression, {}, lists):
            yield number, ("inserted", table.full_name, column.name)
