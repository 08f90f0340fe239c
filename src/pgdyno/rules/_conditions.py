"""The columns of a table that a statement compares with values, read from the statement's text.

Only what the text alone shows: a statement of one table, without joins, subqueries and OR. Of its
WHERE, a column that is compared with a value (a parameter, a variable, a constant) counts; other
conditions, which an index would leave to a filter, are passed over.
"""

from __future__ import annotations

import re

from msgspec import Struct

from pgdyno.facts.statement_budgets import without_values
from pgdyno.spec.sql_text import NAME, RELATION, folded

_ALIAS = rf"(?:\s+(?:as\s+)?(?!set\b|where\b){NAME})?"
_STATEMENT = re.compile(
    rf"(?:select\s.*?\sfrom\s+(?:only\s+)?(?P<read>{RELATION}){_ALIAS}"
    rf"|delete\s+from\s+(?:only\s+)?(?P<deleted>{RELATION}){_ALIAS}"
    rf"|update\s+(?:only\s+)?(?P<updated>{RELATION}){_ALIAS}\s+set\s.*?)"
    r"\s+where\s+(?P<condition>.*)",
    re.IGNORECASE | re.DOTALL,
)
_END = re.compile(
    r"\b(?:group\s+by|order\s+by|limit|offset|fetch|having|window|for|returning)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_MORE_THAN_TEXT_SHOWS = re.compile(
    r"\b(?:join|or|union|intersect|except|using|with|case)\b|\bselect\b.*\bselect\b|\bset\b.*\bfrom\b",
    re.IGNORECASE | re.DOTALL,
)
_VALUE = r"[-+]?\s*(?:\?|\$\d+)(?:\s*::\s*[\w ]+)?"
_COLUMN = rf"(?:{NAME}\s*\.\s*)?(?P<column>{NAME})"
_BETWEEN = re.compile(rf"(\s)between\s+{_VALUE}\s+and\s+{_VALUE}", re.IGNORECASE)
_COMPARED = re.compile(
    rf"{_COLUMN}\s*(?:(?P<equal>=\s*{_VALUE}|\bin\s*\(\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*\))"
    rf"|[<>]=?\s*{_VALUE})",
    re.IGNORECASE,
)


class ComparedColumns(Struct, frozen=True):
    """Columns that a statement compares with values."""

    table: str
    """As written, with a schema or without."""
    columns: tuple[str, ...]
    """Those compared for equality, then one of which a range is wanted: in this order an index
    serves all of them."""


def compared(statement: str) -> ComparedColumns | None:
    """Return the table and the columns; None if the text does not show them."""
    text = without_values(statement).strip("; ")
    found = _STATEMENT.fullmatch(text)
    if found is None or _MORE_THAN_TEXT_SHOWS.search(text):
        return None
    condition = _END.sub("", _BETWEEN.sub(r"\1> ?", found["condition"]))
    equal: dict[str, None] = {}
    ranges: dict[str, None] = {}
    for part in re.split(r"\band\b", condition, flags=re.IGNORECASE):
        if match := _COMPARED.fullmatch(part.strip()):
            (equal if match["equal"] else ranges)[folded(match["column"])] = None
    columns = (*equal, *[name for name in ranges if name not in equal][:1])
    table = found["read"] or found["deleted"] or found["updated"]
    return ComparedColumns(table, columns) if columns else None
