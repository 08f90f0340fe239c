"""Texts of statements without comments and values."""

from __future__ import annotations

import re

from pgdyno.probe.statement_shapes import NOT_SHAPE, SPACE

_KEPT = frozenset(("select", "insert", "update", "delete", "merge", "with", "values"))
_BEGIN = re.compile(r"\s*(?:begin|start\s+transaction)\b", re.IGNORECASE)
_WORD = re.compile(r"[\s(]*(\w+)")
_DIGITS_MAX = 2
"""Digits of a number that pg_stat_statements leaves in a text: a length of a type, or the position
of a column. Longer ones become parameters."""


def first_word(text: str) -> str:
    """Return the first word of a statement, in lower case."""
    found = _WORD.match(text)
    return found[1].lower() if found else ""


def is_kept(text: str) -> bool:
    """Return whether a statement reads or changes rows."""
    return first_word(text) in _KEPT


def begins(text: str) -> bool:
    """Return whether a statement begins a transaction block."""
    return _BEGIN.match(text) is not None


def without_values(text: str) -> str:
    """Return a statement without comments, and with further parameters in place of values."""
    number = max((int(each) for each in re.findall(r"\$(\d+)", text)), default=0)

    def replaced(part: re.Match[str]) -> str:
        nonlocal number
        if part["name"]:
            return part[0]
        if part["comment"]:
            return " "
        if part[0].isdigit() and len(part[0]) <= _DIGITS_MAX:
            return part[0]
        number += 1
        return f"${number}"

    return SPACE.sub(" ", NOT_SHAPE.sub(replaced, text)).strip().rstrip(";").strip()
