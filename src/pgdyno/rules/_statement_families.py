"""Families of statements of pg_stat_statements, which differ only in their values."""

from __future__ import annotations

from msgspec import Struct

from pgdyno.facts.sight import Sight
from pgdyno.json_types import Row
from pgdyno.probe.statement_shapes import statement_shape

_TEXT_MAX = 120


class StatementFamily(Struct, frozen=True):
    """The sums of statements that differ only in their values."""

    text: str
    """Their shape, shortened."""
    calls: float
    exec_ms: float
    wal_bytes: float
    blocks: float
    """Blocks read, and written by their own sessions."""
    jit_ms: float | None
    """Time of compiling, for the most part within ``exec_ms``; None if it is not counted."""

    @property
    def compiled_ms(self) -> float:
        """The time of compiling within that of executing, as far as it is counted."""
        return min(self.jit_ms or 0.0, self.exec_ms)


def shapes(sight: Sight) -> list[StatementFamily]:
    """Return the shapes of the statements that the look has, those that take the most time first.
    Unseen if it could not be taken."""
    by_text: dict[str, list[Row]] = {}
    for row in sight.rows("statement"):
        if row["toplevel"]:
            by_text.setdefault(statement_shape(row["query"]), []).append(row)
    found = [_shape(text, rows) for text, rows in by_text.items()]
    return sorted(found, key=lambda each: -each.exec_ms)


def _shape(text: str, rows: list[Row]) -> StatementFamily:
    known = [row["jit_ms"] for row in rows if row["jit_ms"] is not None]
    return StatementFamily(
        text=text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…",
        calls=sum(row["calls"] for row in rows),
        exec_ms=sum(row["exec_ms"] for row in rows),
        wal_bytes=sum(row["wal_bytes"] or 0.0 for row in rows),
        blocks=sum(row["blocks"] or 0.0 for row in rows),
        jit_ms=sum(known) if known else None,
    )
