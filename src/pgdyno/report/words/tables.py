"""Tables of the report. Separate from charts, because the terminal does not need bokeh."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Table(Struct, frozen=True):
    """A table of text; ``right`` has the indices of the right-aligned columns."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()
    wide: bool = False
    """True if it has the width of the page, and its rows become blocks on a narrow screen."""
    even: bool = False
    """True if its columns have texts of about the same length."""
    folded: str = ""
    """The words under which the page shows it on request."""
    spare: bool = False
    """True if the terminal leaves its last rows out first."""


def figures_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table with names in the first column and figures in the others."""
    return Table(caption, head, rows, right=frozenset(range(1, len(head))))
