"""The columns of an index, as a user writes them: ``customer`` or ``(customer, "Placed at")``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pgdyno.spec.sql_text import NAME, folded, quoted

_COLUMN = re.compile(NAME)
_COLUMNS = re.compile(rf"\s*{NAME}\s*(?:,\s*{NAME}\s*)*")


def columns_of(text: str) -> tuple[str, ...]:
    """Return the names of the columns, folded as PostgreSQL folds them. Raises ValueError for
    anything but names separated by commas, such as an expression."""
    listed = text.strip()
    if listed.startswith("(") and listed.endswith(")"):
        listed = listed[1:-1]
    if _COLUMNS.fullmatch(listed) is None:
        raise ValueError(f'"{text}" is not a list of columns, such as "customer, placed"')
    return tuple(map(folded, _COLUMN.findall(listed)))


def trial_index(table: str, columns: str) -> str:
    """Return the name of an index that pgdyno creates to try it, in the schema of ``table``, of
    which the server keeps the first 63 bytes each time."""
    return "_".join(("pgdyno", table.rpartition(".")[2], *columns_of(columns)))


def columns_text(columns: Iterable[str]) -> str:
    """Return what :func:`columns_of` reads."""
    return ", ".join(map(quoted, columns))
