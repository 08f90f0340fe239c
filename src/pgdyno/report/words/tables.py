"""Tables of the report, and rows of its CSV. Apart from charts, as the terminal needs no bokeh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pgdyno.json_types import Row
    from pgdyno.results.knee import CurvePoint
    from pgdyno.results.pool import SizePoint


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


def point_row(point: CurvePoint | SizePoint, *, after_response: Row | None = None) -> Row:
    """Return the columns of a CSV that points of all searches have, with those of one search
    after the response times."""
    low, high = point.ci95 or (None, None)
    return {
        "throughput_tps": point.tps,
        "lo": low,
        "hi": high,
        "response_ms_p50": point.p50_ms,
        "response_ms_p99": point.p99_ms,
        **(after_response or {}),
        "slices": point.slices,
        "seconds": point.seconds,
        "met": point.met,
        "steady": point.steady,
    }
