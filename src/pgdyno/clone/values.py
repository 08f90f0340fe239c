"""The value of a key: an expression of the script language, by the type of the column.

The same key has the same value wherever it is made, and different keys of a unique column have
different ones.
"""

from __future__ import annotations

import math
import re

from msgspec import Struct

from pgdyno.clone.capture_file import Column, Table

EPOCH_S = 1_735_689_600
"""The time of key 0: the start of 2025, UTC."""
_DAY_S = 86_400
_TEXT_MIN = 12
"""Characters from which on letters that a key decides are hardly ever those of another."""
_TEXT_MAX = 65_535
_LENGTH_DEFAULT = 16
_TIMES = {"date": 200_000, "timestamp": 10**9, "timestamptz": 10**9}
"""Highest keys of times, which are days or seconds."""
_DIGITS_MAX = 18
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
DOCUMENTS = frozenset(("json", "jsonb"))
_DOCUMENT_BYTES = 16
"""Of a document beside its text, at most."""
_ARRAY_BYTES = 24
_NUMBERS = {
    "smallint": 2,
    "integer": 4,
    "bigint": 8,
    "numeric": 8,
    "real": 4,
    "double precision": 8,
}
"""Bytes of an element by its type."""
_ELEMENT_TEXTS = ("text", "character varying")
_ELEMENT_BYTES = 4
"""Of an element's text, beside its characters."""
_ELEMENT_LENGTH = 8
_ELEMENTS_MAX = 65_535
_SMALLINTS = 32_767
_DISTINCT = 1000
"""Different elements where no statistics tell."""
_NUMBER_RANGES = ("int4range", "int8range", "numrange")
_TIME_RANGES = {"tsrange": 3600, "tstzrange": 3600, "daterange": 86_400}
"""Seconds of a range by its type."""
RANGES = (*_NUMBER_RANGES, *_TIME_RANGES)
_MOST = {"int4range": 2**31 - 2, **dict.fromkeys(_TIME_RANGES, 10**9)}
"""Highest keys of ranges."""
_HEADER_BYTES = 1
ROW_BYTES, _ROW_ALIGNED = 28, 8
"""Of a row beside its columns: header and line pointer; of its columns it takes a multiple."""
_PAGE_BYTES, _PAGE_HEADER_BYTES = 8168, 24
"""Of a page without its header, and of that."""
_UNUSED_ROWS, _ALIGNED_BYTES = 0.5, 3.5
"""Room that a page, in rows, and a row leave unused on average."""
_ROWS_MIN = 100
_ELEMENTS = 3
"""Elements of an array, where nothing is known of it."""
_BYTES = {
    "int2": 2,
    "int4": 4,
    "int8": 8,
    "float4": 4,
    "float8": 8,
    "bool": 1,
    "uuid": 16,
    "date": 4,
    "enum": 4,
}
_ALIGNED = frozenset(("int2", "int4", "int8", "float4", "float8", "enum", *_TIMES))
"""Types whose values begin at a multiple of their bytes."""
_WORD = 8
"""Characters of a word."""
LABEL_CHARACTERS = 10


def is_made(column: Column) -> bool:
    """Return whether there are values of a column's type, or the server computes them."""
    others = ("enum", "bool", "uuid", "numeric", "float4", "float8", "money", "interval", "array")
    known = (_WHOLE, _TEXTS, _FIXED, DOCUMENTS, _TIMES, RANGES, others)
    return any(column.base in each for each in known) or bool(column.generated)


def value_of(table: Table, column: Column, key: str) -> str:
    """Return the expression of the value of a key, which is an expression itself. Of a column that
    refers to another, the value is that one's (``Keys.value``)."""
    base, unique = column.base, table.is_in_key(column)
    if base in _FIXED:
        return _FIXED[base]
    if base in DOCUMENTS or base == "array":
        return _with_parts(table, column, key)
    if base in _NUMBER_RANGES:
        return f"range_of({key}, 1)"
    if base in _TIME_RANGES:
        return f"range_of(timestamp({EPOCH_S} + {key}), {_TIME_RANGES[base]})"
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
        return f"timestamp({EPOCH_S} + {_seconds(column, key)})"
    most = _most(column)
    return key if unique or most is None else f"mod({key}, {most})"


def _with_parts(table: Table, column: Column, key: str) -> str:
    """Return the document or the array of a key, as wide as the mean. It cannot be compressed."""
    if column.base in DOCUMENTS:
        known = column.width_bytes
        width = min(_TEXT_MAX, _width_of_rows(table) if known is None else round(known))
        return f"document_of({key}, {max(0, width - _DOCUMENT_BYTES)})"
    if (elements := elements_of(column, table)) is None:
        return "'{}'"
    length = f", {elements.length}" if elements.length else ""
    return f"array_of({key}, {elements.count}, {elements.distinct}{length})"


class Elements(Struct, frozen=True):
    """The elements of an array."""

    count: int
    """Of one array."""
    distinct: int
    """Different ones of all arrays."""
    length: int
    """Characters of each; 0: they are numbers."""
    bytes_each: int

    def drawn(self) -> str:
        """Return the expression of one of them."""
        key = f"random(1, {self.distinct})"
        return f"text_of({key}, {self.length})" if self.length else key


def elements_of(column: Column, table: Table | None = None) -> Elements | None:
    """Return the elements of an array, as many as leave the rows of its table as wide as they are
    if nothing else is known; None if there are no values of their type."""
    type_ = re.sub(r"\(.*?\)", "", column.type).removesuffix("[]")
    is_text = type_ in _ELEMENT_TEXTS
    if not is_text and type_ not in _NUMBERS:
        return None
    each = _ELEMENT_BYTES + _ELEMENT_LENGTH if is_text else _NUMBERS[type_]
    width = column.width_bytes
    if width is None and table is not None and table.rows >= _ROWS_MIN:
        width = _width_of_rows(table) if column in _of_unknown_width(table) else None
    bytes_ = _ELEMENTS * each if width is None else max(0, round(width) - _ARRAY_BYTES)
    count = min(
        _ELEMENTS_MAX, bytes_ // each if column.elements is None else round(column.elements)
    )
    length = max(1, bytes_ // max(1, count) - _ELEMENT_BYTES) if is_text else 0
    most = _SMALLINTS if type_ == "smallint" else _WHOLE["int4"]
    distinct = column.distinct_elements or max(column.distinct or 0, _DISTINCT)
    bytes_each = _ELEMENT_BYTES + length if is_text else each
    return Elements(count, max(1, min(most, round(distinct))), length, bytes_each)


def is_text(column: Column) -> bool:
    """Return whether the values of a column are texts or documents."""
    return column.base in _TEXTS or column.base in DOCUMENTS


def bytes_of(column: Column, table: Table | None = None) -> int:
    """Return about the bytes of a value, of a column whose width is not known."""
    if column.base == "array" and (elements := elements_of(column, table)) is not None:
        return _ARRAY_BYTES + elements.count * elements.bytes_each
    return _WORD + _HEADER_BYTES if _is_word(column) else _BYTES.get(column.base, 8)


def fillfactor_of(table: Table) -> int | None:
    """Return the fillfactor among a table's storage parameters, in percent."""
    found = re.search(r"\bfillfactor=(\d+)", " ".join(table.options))
    return int(found[1]) if found else None


def filled_share(table: Table) -> float:
    """Return the fillfactor with which pages have as many rows as the source's, as these rows are
    made."""
    if not table.pages:
        return 1.0
    used = (table.rows / table.pages + _UNUSED_ROWS) * _made_bytes(table)
    return (used + _PAGE_HEADER_BYTES) / (_PAGE_BYTES + _PAGE_HEADER_BYTES)


def _made_bytes(table: Table) -> int:
    """Return the bytes that a row takes in its page, as it is made."""
    end = 0.0
    for column in table.columns:
        if column.is_always_null or column.virtual:
            continue
        if is_text(column):
            width: float = text_length(table, column) + _HEADER_BYTES
        elif column.base in _ALIGNED:
            width = bytes_of(column)
            end = math.ceil(end / width) * width
        else:
            width = column.width_bytes or bytes_of(column, table)
        end += width * (1 - column.null_share)
    return ROW_BYTES + math.ceil(end / _ROW_ALIGNED) * _ROW_ALIGNED


def follows_keys(column: Column) -> bool:
    """Return whether higher keys of a column have higher values."""
    return column.base in ("int4", "int8", *_TIMES)


def is_signed(column: Column) -> bool:
    """Return whether a column has whole numbers, also below zero."""
    return column.base in _WHOLE and column.base != "oid"


def is_time(column: Column) -> bool:
    """Return whether a column has dates, or times with a date."""
    return column.base in _TIMES


def literal_of(column: Column, key: int) -> str:
    """Return the value of a key of a column whose values follow the keys, as SQL has it."""
    if column.base not in _TIMES:
        return str(key)
    seconds = key % _TIMES["date"] * _DAY_S if column.base == "date" else key
    return f"to_timestamp({EPOCH_S + seconds})::{column.base}"


def _seconds(column: Column, key: str) -> str:
    """Return the seconds of a key of times: those of days, one for each key, in dates."""
    return f"mod({key}, {_TIMES['date']}) * {_DAY_S}" if column.base == "date" else key


def most_key(column: Column) -> int:
    """Return the highest key that a column of its own has."""
    limit = re.search(r"\((\d+)\)", column.type)
    if column.base in _TEXTS and limit:
        return min(_KEY_MAX, int(10 ** min(_DIGITS_MAX, int(limit[1]))) - 1)
    most = (
        _TIMES.get(column.base)
        or _MOST.get(column.base)
        or _WHOLE.get(column.base)
        or _most(column)
    )
    return min(_KEY_MAX, most or _KEY_MAX)


def _most(column: Column) -> int | None:
    """Return the number below which a column's values are; None if it holds any key."""
    found = re.search(r"\((\d+)(?:,(-?\d+))?\)", column.type)
    if column.base == "numeric" and found:
        digits = int(found[1]) - int(found[2] or 0)
        return 10 ** max(0, digits) if digits < _DIGITS_MAX else None
    return _WHOLE["int2"] if column.base == "int2" else None


def text_length(table: Table, column: Column) -> int:
    """Return the characters of a text, which all its values have."""
    most = _length_most(column)
    if column.base == "bpchar":
        return most
    if column.width_bytes is not None:
        return max(1, min(most, round(column.width_bytes) - _HEADER_BYTES))
    return max(1, min(most, _WORD if _is_word(column) else _width_of_rows(table)))


def _is_word(column: Column) -> bool:
    """Return whether a text has a default: it is one of few words then, such as that of a state."""
    return column.base in _TEXTS and column.default == "value"


def _length_most(column: Column) -> int:
    """Return the characters that a text can have."""
    limit = re.search(r"\((\d+)\)", column.type)
    if column.base == "bpchar":
        return min(_TEXT_MAX, int(limit[1])) if limit else 1
    is_limited = limit and column.base not in ("array", "bytea")
    return min(_TEXT_MAX, int(limit[1])) if limit and is_limited else _TEXT_MAX


def _width_of_rows(table: Table) -> int:
    """Return the characters of each text, or the bytes of each array where there are none, where
    only the size of the table is known: those that cannot have as many leave the rest to the
    others. With few rows it tells nothing: pages may be nearly empty, or full of old versions."""
    if table.rows < _ROWS_MIN or not table.pages:
        return _LENGTH_DEFAULT
    columns = [each for each in table.columns if not each.is_always_null]
    texts = _of_unknown_width(table)
    others = sum(each.width_bytes or bytes_of(each) for each in columns if each not in texts)
    left = bytes_of_row(table) - ROW_BYTES - others - len(texts) * _HEADER_BYTES
    left -= sum(_length_most(each) for each in texts if each.base == "bpchar")
    limits = sorted(_length_most(each) for each in texts if each.base != "bpchar")
    for number, limit in enumerate(limits):
        if limit * (len(limits) - number) >= left:
            return max(1, round(left / (len(limits) - number)))
        left -= limit
    return _TEXT_MAX


def _of_unknown_width(table: Table) -> list[Column]:
    """Return the columns whose width only the size of the table tells: texts, or else arrays."""
    unknown = [
        each for each in table.columns if each.width_bytes is None and not each.is_always_null
    ]
    texts = [each for each in unknown if is_text(each) and not _is_word(each)]
    return texts or [each for each in unknown if each.base == "array"]


def bytes_of_row(table: Table) -> float:
    """Return the bytes that a row takes in its page: half of one finds no room there."""
    used = _PAGE_BYTES * (fillfactor_of(table) or 100) / 100
    return max(0.0, used / (table.rows / table.pages + _UNUSED_ROWS) - _ALIGNED_BYTES)
