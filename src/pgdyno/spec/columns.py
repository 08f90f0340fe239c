"""The columns of an index, as a user writes them: ``customer`` or ``(customer, "Placed at")``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pgdyno.spec.sql_text import NAME, folded, quoted

_COLUMN = re.compile(NAME)


def columns_of(text: str) -> tuple[str, ...]:
    """Return the names of the columns, folded as PostgreSQL folds them. Raises ValueError for
    anything but names separated by commas, such as an expression."""
    listed = text.strip()
    if listed.startswith("(") and listed.endswith(")"):
        listed = listed[1:-1]
    names = [name.strip() for name in listed.split(",")]
    if not all(_COLUMN.fullmatch(name) for name in names):
        raise ValueError(f'"{text}" is not a list of columns, such as "customer, placed"')
    return tuple(map(folded, names))


def columns_text(columns: Iterable[str]) -> str:
    """Return what :func:`columns_of` reads."""
    return ", ".join(map(quoted, columns))
