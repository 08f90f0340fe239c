"""Texts of statements without comments and values."""

from __future__ import annotations

import re

from pgdyno.clone.capture_file import SHORTENED
from pgdyno.probe.statement_shapes import NOT_SHAPE, SPACE
from pgdyno.spec.change import first_word

_KEPT = frozenset(("select", "insert", "update", "delete", "merge", "with", "values"))
_BEGIN = re.compile(r"\s*(?:begin|start\s+transaction)\b", re.IGNORECASE)
_OPENING = "( \t\r\n"
_OF_FOREIGN_KEY = re.compile(
    r'(?:select|delete|update)\b.*?\bonly "[^;]*\boperator\(pg_catalog\.', re.I | re.S
)
"""In the statements of its triggers, with names as these write them."""
_OF_ARRAY = re.compile(
    rf"(?i)=\s*any\s*\(\s*array\s*\[((?:\s*\$\d+(?:\s*{re.escape(SHORTENED)})?\s*,?)+)\]\s*\)"
)
_RECURSIVE = re.compile(r"\s*with\s+recursive\b", re.IGNORECASE)
_DIGITS_MAX = 2
"""Digits of a number that pg_stat_statements leaves in a text. Longer ones become parameters."""
_LEFT = re.compile(
    r"(?i)\b(?:(?:n?char|varchar|bpchar|character|varying|bit|numeric|decimal|dec|float|interval|time"
    r"|timestamp|second)\s*\(\s*(?:\d+\s*,\s*)?|by\s+(?:[^()]*,\s*)?)\Z"
)
"""Text before such a number: the length of a type, or the position of a column."""
_BEFORE = 200
"""Characters that are looked at for that."""
_TYPED = re.compile(r"(?i)\b(interval|date|time|timestamp|timestamptz)\s+(\$\d+)")
_OF_WORDS = tuple(
    (re.compile(rf"(?i)({before})\$\d+({behind})"), word)
    for before, behind, word in (
        (r"\bextract\s*\(\s*", r"\s+from\b", "epoch"),
        (r"\bdate_(?:trunc|part)\s*\(\s*", r"\s*,", "'day'"),
        (r"\bat\s+time\s+zone\s+", "", "'UTC'"),
    )
)
"""Places of a word for which pg_stat_statements has a parameter, and a word that fits there."""
_NUMBERED = re.compile(r"\$(\d+)")


def is_kept(text: str) -> bool:
    """Return whether a statement reads or changes rows, and is not one of a foreign key's: those of
    deferred ones are counted beside the load's, and a clone has foreign keys itself."""
    is_of_rows = first_word(text.lstrip(_OPENING)) in _KEPT
    return is_of_rows and _OF_FOREIGN_KEY.match(text) is None


def begins(text: str) -> bool:
    """Return whether a statement begins a transaction block."""
    return _BEGIN.match(text) is not None


def is_recursive(text: str) -> bool:
    """Return whether a statement follows references from row to row."""
    return _RECURSIVE.match(text) is not None


def without_values(text: str) -> str:
    """Return a statement without comments, and with further parameters in place of values, which
    those have that were prepared before pg_stat_statements was reset, or evicted them.

    A server can prepare it: it takes no parameter in ``interval $1``, nor for a unit of time, and
    those in an array have no type of their own, as they have in IN.
    """
    number = max((int(each) for each in _NUMBERED.findall(text)), default=0)

    def replaced(part: re.Match[str]) -> str:
        nonlocal number
        if part["name"]:
            return part[0]
        if part["comment"]:
            return part[0] if part[0] == SHORTENED else " "
        if part[0].isdigit() and len(part[0]) <= _DIGITS_MAX:
            before = text[max(0, part.start() - _BEFORE) : part.start()]
            if _LEFT.search(before):
                return part[0]
        number += 1
        return f"${number}"

    plain = SPACE.sub(" ", NOT_SHAPE.sub(replaced, text)).strip().rstrip(";").strip()
    plain = _OF_ARRAY.sub(r"IN (\1)", _TYPED.sub(r"\2::\1", plain))
    for place, word in _OF_WORDS:
        plain = place.sub(rf"\g<1>{word}\g<2>", plain)
    return _renumbered(plain)


def _renumbered(text: str) -> str:
    """Number parameters from 1 on without gaps, in their order."""
    found = sorted({int(each) for each in _NUMBERED.findall(text)})
    numbers = {each: number for number, each in enumerate(found, 1)}
    return _NUMBERED.sub(lambda each: f"${numbers[int(each[1])]}", text)
