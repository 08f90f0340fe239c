"""Small tables of the report, apart from charts: the terminal needs no bokeh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows for a reader; ``right`` holds the indices of the columns of figures."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()


def figures_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table whose first column names things and whose others are figures."""
    return Table(caption, head, rows, right=frozenset(range(1, len(head))))
