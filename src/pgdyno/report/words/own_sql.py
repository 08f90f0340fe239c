"""Sentences about SQL of the user's as a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.results.compare import CompareResult

if TYPE_CHECKING:
    from pgdyno.results import Result


def took_words(result: Result | None) -> str:
    """Return how long the change itself took; '' where it was not by SQL."""
    sql = result.sql if isinstance(result, CompareResult) else None
    if sql is None or sql.make_ms is None:
        return ""
    undo = "" if sql.undo_ms is None else f", and {numbers.ms(sql.undo_ms)} to undo it"
    return f"the SQL takes {numbers.ms(sql.make_ms)}{undo} (medians of {sql.times}, without a load)"
