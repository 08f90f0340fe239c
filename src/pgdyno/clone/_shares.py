"""Rows of statements that are there, or new, as shares and chances in the script language."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from pgdyno.clone.capture_file import SHORTENED, WRITING, Column, Parameter, Statement, Table
from pgdyno.clone.keys import Keys, Place
from pgdyno.spec.change import first_word
from pgdyno.spec.sql_text import NAME

ALWAYS = 0.95
"""Share of the transactions from which on a statement is in all, and of rows from which all are
new, or there."""
SHARES = 1000
"""Parts of a whole in chances."""
FOUND = 0.5
"""Rows of a call from which on a statement finds what it looks for."""
_WITH = re.compile(r"(?i)\s*with\b")
_AND = re.compile(r"(?i)\band\b")
_JOINS = re.compile(r"(?i)\b(?:join|union|using|exists|or)\b|\bfrom\s+[^\s,]+(?:\s+\w+)?\s*,")
"""Words, and a list of tables, by which a statement may find nothing although its row is there."""


def chosen(share: float, one: str, other: str) -> str:
    """Return an expression that is ``one`` in a share of the cases, and ``other`` in the rest."""
    return f"case when random(1, {SHARES}) <= {round(share * SHARES)} then {one} else {other} end"


def mixed(there: str, new: str, share: float) -> tuple[str, float]:
    """Return an expression that is ``new`` in a share of the cases, and this share."""
    if share >= ALWAYS:
        return new, share
    return (chosen(share, new, there) if round(share * SHARES) else there), share


def on_average(mean: float) -> str:
    """Return the expression of a whole number that is ``mean`` on average."""
    least = math.floor(mean)
    return f"{least} + {chosen(mean - least, '1', '0')}"


def by_references(statement: Statement, keys: Keys) -> Iterator[tuple[Place, int]]:
    """Yield the columns that refer to others by which a statement finds rows, with the number of
    keys by which it does."""
    if statement.rows >= FOUND and not statement.aggregates:
        for each in statement.parameters:
            place = each.table, each.column
            if each.use == "compared" and each.table and keys.root(place) != place:
                rows, used = keys.rows(keys.tables[each.table]), keys.used(place)
                is_always = keys.is_key(place) and statement.rows >= ALWAYS
                is_told = is_always and rows and not _JOINS.search(statement.text)
                yield place, min(used, rows) if is_told else used


def skews(statement: Statement, keys: Keys) -> Iterator[tuple[str, float]]:
    """Yield a table that a statement updates, with the exponent of its rows."""
    if first_word(statement.text) == "update":
        for each in statement.parameters:
            table = keys.tables.get(each.table)
            if table is not None and table.update_skew and each.use == "compared":
                yield table.full_name, table.update_skew


def must_be_new(statement: Statement, parameter: Parameter, table: Table) -> bool:
    """Return whether a value may be in no other row: that of a column that is a key by itself."""
    is_written = parameter.use in WRITING and (parameter.column,) in table.keys
    return is_written and not statement.on_conflict


def new_keys(statements: Iterable[Statement], tables: Mapping[str, Table]) -> set[Place]:
    """Return the columns of which statements give new rows a key by itself."""
    return {
        (each.table, each.column)
        for statement in statements
        for each in statement.parameters
        if each.use == "inserted" and each.table in tables
        if must_be_new(statement, each, tables[each.table])
    }


def values_of(statement: Statement, place: Place) -> int:
    """Return how many values for a column a statement has: one for each row that it inserts."""
    return max(1, sum((each.table, each.column) == place for each in statement.parameters))


def found_together(statements: Iterable[Statement]) -> dict[Place, float]:
    """Return the most rows that a statement finds by a single value of a column, and by no other
    column."""
    found: dict[Place, float] = {}
    for each in statements:
        compared = [of for of in each.parameters if of.use == "compared"]
        is_other = each.aggregates or SHORTENED in each.text or _WITH.match(each.text)
        if len(compared) == 1 and not (is_other or compared[0].type.endswith("[]")):
            place = compared[0].table, compared[0].column
            found[place] = max(each.rows, found.get(place, 0.0))
    return found


def only_grows(statement: Statement, column: Column) -> bool:
    """Return whether an INSERT replaces the value of a column by higher ones alone, and does."""
    name = rf"\b{re.escape(column.name)}\b"
    replaced = re.search(rf"(?i){name}\s*<=?\s*excluded\s*\.\s*{name}", statement.text)
    return replaced is not None and statement.rows >= FOUND


def wants_unset(statement: Statement, column: Column) -> bool:
    """Return whether a statement changes rows in which a flag is not set."""
    unset = rf"(?i)\bwhere\b.*\bnot\s+(?:{NAME}\s*\.\s*)?{re.escape(column.name)}\b"
    return column.base == "bool" and re.search(unset, statement.text, re.DOTALL) is not None


def new_share(same: Iterable[Statement], place: Place, turn: int) -> float:
    """Return the chance that a row of an INSERT is new, for statements that are the ``same`` but
    for their number of rows: one has the rows of those with fewer. With ON CONFLICT as many are
    new as are known, the last ones: later statements that name a single row name the first."""
    before = 0.0
    for statement in sorted(same, key=lambda each: values_of(each, place)):
        if not statement.on_conflict:
            return 1.0
        new = statement.rows if statement.on_conflict == "nothing" else statement.added or 0.0
        if (values := values_of(statement, place)) > turn:
            return min(1.0, max(0.0, turn + 1 - values + new - before))
        before = new
    return 1.0


def found_share(statement: Statement, table: Table) -> float:
    """Return the share of the executions that find their row, of a statement that names one by a
    whole key and nothing else; 1 of others."""
    named = [each for each in statement.parameters if each.use not in ("limit", "offset", "set")]
    added = [each for each in named if each.use == "added"]
    compared = [each for each in named if each.use == "compared"]
    columns = sorted(each.column for each in compared if each.table == table.full_name)
    is_one = columns in [sorted(key) for key in table.keys]
    is_one &= len(columns) + len(added) == len(named) and not statement.aggregates
    is_one &= len(_AND.findall(statement.text)) < len(columns)
    return min(1.0, statement.rows) if is_one and not _JOINS.search(statement.text) else 1.0
