"""The value of a key: an expression of the script language, by the type of the column.

The same key has the same value wherever it is made, and different keys of a unique column have
different ones.
"""

from __future__ import annotations

import random
import re
import string

from pgdyno.clone.capture_file import Column, Table

_EPOCH_S = 1_735_689_600
"""The time of key 0: the start of 2025, UTC."""
_DAY_S = 86_400
_TEXT_MIN = 12
"""Characters from which on letters that a key decides are hardly ever those of another."""
_TEXT_MAX = 65_535
_LENGTH_DEFAULT = 16
_TIMES = {"date": 200_000, "timestamp": 10**9, "timestamptz": 10**9}
"""Highest keys of times, which are days or seconds."""
_KEY_MAX = 2**53
"""Of columns that hold any number: a float has it too."""
_WHOLE = {"int2": 32_767, "int4": 2**31 - 1, "int8": 2**63 - 1, "oid": 2**31 - 1}
_TEXTS = frozenset(("text", "varchar", "bpchar", "name", "bytea"))
_FIXED = {
    "inet": "'127.0.0.1'",
    "cidr": "'127.0.0.0/8'",
    "macaddr": "'00:00:00:00:00:00'",
    "time": "'00:00'",
    "timetz": "'00:00+00'",
    "xml": "'<a/>'",
    "tsvector": "''",
}
"""Types whose values are all the same."""
_DOCUMENTS = frozenset(("json", "jsonb"))
_DOCUMENT_BYTES = 16
"""Of a document beside its text, at most."""
_ARRAY_BYTES = 24
_ELEMENTS = {"smallint": 2, "integer": 4, "bigint": 8, "real": 4, "double precision": 8, "text": 5}
"""Bytes of an element by its type."""
_HEADER_BYTES = 1
_ROW_BYTES = 28
"""Of a row beside its columns: header and line pointer."""
_BYTES = {
    "int2": 2,
    "int4": 4,
    "int8": 8,
    "float4": 4,
    "float8": 8,
    "bool": 1,
    "uuid": 16,
    "date": 4,
}
LABEL_CHARACTERS = 10


def is_made(column: Column) -> bool:
    """Return whether there are values of a column's type, or the server computes them."""
    known = column.base in _WHOLE or column.base in _TEXTS or _same(column) is not None
    others = ("enum", "bool", "uuid", "numeric", "float4", "float8", "money", "interval")
    return known or column.base in (*others, *_TIMES) or bool(column.generated)


def value_of(table: Table, column: Column, key: str) -> str:
    """Return the expression of the value of a key, which is an expression itself. Of a column that
    refers to another, the value is that one's (``Keys.value``)."""
    base, unique = column.base, table.is_in_key(column)
    if (same := _same(column)) is not None:
        return same
    if base in _TEXTS:
        length = text_length(table, column)
        if unique and length < _TEXT_MIN:
            return key
        return f"text_of({key}, {length})"
    if base == "enum":
        return f"text_of({key}, {LABEL_CHARACTERS})"
    if base == "bool":
        return f"mod({key}, 2) = 0"
    if base == "uuid":
        return f"uuid_of({key})"
    if base in _TIMES:
        return f"timestamp({_EPOCH_S} + {_seconds(column, key)})"
    most = _most(column)
    return key if unique or most is None else f"mod({key}, {most})"


def _same(column: Column) -> str | None:
    """Return the value that all rows have, in quotes; None for a type whose rows differ. Documents
    and arrays are as wide as the mean, and cannot be compressed."""
    width = min(_TEXT_MAX, round(column.width_bytes or 0))
    if column.base in _DOCUMENTS:
        return f"""'{{"v": "{_letters(width - _DOCUMENT_BYTES)}"}}'"""
    if column.base == "array":
        element = _ELEMENTS.get(column.type.removesuffix("[]"))
        count = 0 if element is None else (width - _ARRAY_BYTES) // element
        return f"'{{{', '.join(map(str, range(1, count + 1)))}}}'"
    return _FIXED.get(column.base)


def _letters(count: int) -> str:
    return "".join(random.Random(count).choices(string.ascii_letters, k=max(0, count)))


def follows_keys(column: Column) -> bool:
    """Return whether higher keys of a column have higher values."""
    return column.base in ("int4", "int8", *_TIMES)


def literal_of(column: Column, key: int) -> str:
    """Return the value of a key of a column whose values follow the keys, as SQL has it."""
    if column.base not in _TIMES:
        return str(key)
    seconds = key % _TIMES["date"] * _DAY_S if column.base == "date" else key
    return f"to_timestamp({_EPOCH_S + seconds})::{column.base}"


def _seconds(column: Column, key: str) -> str:
    """Return the seconds of a key of times: those of days, one for each key, in dates."""
    return f"mod({key}, {_TIMES['date']}) * {_DAY_S}" if column.base == "date" else key


def most_key(column: Column) -> int:
    """Return the highest key that a column of its own has."""
    limit = re.search(r"\((\d+)\)", column.type)
    if column.base in _TEXTS and limit:
        return min(_KEY_MAX, int(10 ** int(limit[1])) - 1)
    most = _TIMES.get(column.base) or _WHOLE.get(column.base) or _most(column)
    return min(_KEY_MAX, most or _KEY_MAX)


def _most(column: Column) -> int | None:
    """Return the number below which a column's values are; None if it holds any key."""
    found = re.search(r"\((\d+)(?:,(-?\d+))?\)", column.type)
    if column.base == "numeric" and found:
        digits = int(found[1]) - int(found[2] or 0)
        return 10**digits if digits < 18 else None
    return _WHOLE["int2"] if column.base == "int2" else None


def text_length(table: Table, column: Column) -> int:
    """Return the characters of a text, which all its values have."""
    limit = re.search(r"\((\d+)\)", column.type)
    most = min(_TEXT_MAX, int(limit[1])) if limit and column.base != "bytea" else _TEXT_MAX
    if column.base == "bpchar":
        return most if limit else 1
    if column.width_bytes is not None:
        return max(1, min(most, round(column.width_bytes) - _HEADER_BYTES))
    return max(1, min(most, _width_of_rows(table)))


def _width_of_rows(table: Table) -> int:
    """Return the characters of each text, where only the size of the table is known."""
    if table.rows < 1 or not table.pages:
        return _LENGTH_DEFAULT
    texts = [each for each in table.columns if each.base in _TEXTS]
    others = sum(_BYTES.get(each.base, 8) for each in table.columns if each not in texts)
    row = table.size_bytes / table.rows - _ROW_BYTES - others
    return max(1, round(row / max(1, len(texts))) - _HEADER_BYTES)
