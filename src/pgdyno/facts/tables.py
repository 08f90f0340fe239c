"""The tables and indexes under load: what was done to them, and which columns statements update."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from pgdyno.facts.slices import Facts
from pgdyno.record import Series
from pgdyno.record.finding import Skip
from pgdyno.spec.sql_text import NAME, RELATION, folded

_COUNTED = (
    *("n_tup_ins", "n_tup_upd", "n_tup_del", "n_tup_hot_upd", "n_tup_newpage_upd"),
    *("seq_scan", "seq_tup_read", "idx_scan"),
)
UNREPORTED_MAX = 1.5
SCAN_ROWS_MIN = 1000.0
"""Rows of a sequential scan, above which an index would pay: about ten pages of short rows."""
_UPDATE = re.compile(
    rf"\s*update\s+(?:only\s+)?({RELATION})\s*\*?"
    rf"(?:\s+(?:as\s+)?(?!set\b){NAME})?\s+set\s+(.*)",
    re.IGNORECASE | re.DOTALL,
)
_END_OF_SET = re.compile(r"\b(where|from|returning)\b", re.IGNORECASE)
_ASSIGNED = re.compile(rf"(?:^|,)\s*({NAME})\s*(?:\[[^]]*\]\s*)*(?:\.\s*{NAME}\s*)?=", re.I)
_INNERMOST = re.compile(r"\([^()]*\)")


class TableCounts(Struct, frozen=True):
    """Counts of a table per second."""

    name: str
    """schema.name."""
    inserted: float
    updated: float
    deleted: float
    hot: float
    moved: float | None
    """Updates that put the row on another page; None: not counted before version 16."""
    scans: float
    scanned_rows: float
    """Sequential scans, and the rows that they read."""
    index_scans: float

    @property
    def written(self) -> float:
        """Rows written."""
        return self.inserted + self.updated + self.deleted


class Index(Struct, frozen=True):
    """An index, as it was at the end of the slices."""

    table: str
    name: str
    method: str
    scans: float
    """Since the statistics were last reset."""
    enforces: bool
    """True if it is there for a constraint or a replica identity."""
    columns: tuple[str, ...]


@lru_cache(maxsize=1)
def tables(s: Facts) -> list[TableCounts]:
    """Return the recorded tables, the most written first. Raises Skip if there are none."""
    series, scale = s.run.series("metric_table", s.slice_ids), _reported(s) / s.seconds
    found = []
    for name, risen in _risen(series, "relation", _COUNTED).items():
        per_s = {column: rise * scale for column, rise in risen.items()}
        table = TableCounts(
            name=name,
            inserted=per_s.get("n_tup_ins", 0.0),
            updated=per_s.get("n_tup_upd", 0.0),
            deleted=per_s.get("n_tup_del", 0.0),
            hot=per_s.get("n_tup_hot_upd", 0.0),
            moved=per_s.get("n_tup_newpage_upd"),
            scans=per_s.get("seq_scan", 0.0),
            scanned_rows=per_s.get("seq_tup_read", 0.0),
            index_scans=per_s.get("idx_scan", 0.0),
        )
        found.append(table)
    if not found:
        raise Skip("the tables' counters were not recorded")
    return sorted(found, key=lambda table: (-table.written, table.name))


def _reported(s: Facts) -> float:
    """Return the factor for what sessions had done but not yet reported at the slices' end.

    They report at most once a second, tables and transactions together, so what is missing of the
    transactions is missing of the tables.
    """
    counted = s.run.delta("metric_database", "xact_commit", s.slice_ids)
    done = s.throughput_tps * s.seconds
    return min(UNREPORTED_MAX, max(1.0, done / counted)) if counted else 1.0


def scanned_tables(s: Facts) -> list[TableCounts]:
    """Return the tables read by sequential scans of many rows each, most rows first."""
    found = [
        table
        for table in tables(s)
        if table.scanned_rows and table.scanned_rows >= SCAN_ROWS_MIN * table.scans
    ]
    return sorted(found, key=lambda table: -table.scanned_rows)


def indexes(s: Facts) -> list[Index]:
    """Return the indexes as they were last read; empty if they were not."""
    series = s.run.series("metric_index", s.slice_ids)
    last: dict[tuple[str, str], Index] = {}
    for n in range(len(series["at_ms"])):
        table, name = str(series["relation"][n]), str(series["index_name"][n])
        columns = series["table_columns"][n]
        last[table, name] = Index(
            table=table,
            name=name,
            method=str(series["method"][n]),
            scans=float(series["idx_scan"][n]),
            enforces=bool(series["enforces"][n] > 0),
            columns=tuple(str(columns).split(",")) if columns else (),
        )
    return list(last.values())


def updated_columns(statement: str) -> tuple[str, frozenset[str]] | None:
    """Return the table, as written, and the columns that an UPDATE sets one by one; None for
    another statement, and for ``set (a, b) = …``."""
    match = _UPDATE.match(statement)
    if match is None:
        return None
    assignments = _without_parentheses(match[2])
    assignments = _END_OF_SET.split(assignments, maxsplit=1)[0]
    names = frozenset(folded(found[1]) for found in _ASSIGNED.finditer(assignments))
    return (match[1], names) if names else None


def _without_parentheses(text: str) -> str:
    """Return the text without what stands in parentheses."""
    while (shorter := _INNERMOST.sub(" ", text)) != text:
        text = shorter
    return text


def _risen(series: Series, key: str, columns: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the rise of each column for each value of ``key``, within each slice; a column of
    which no value was recorded is left out. A counter that falls was reset, which counts as 0."""
    risen: dict[str, dict[str, float]] = {}
    last: dict[tuple[Any, str, str], float] = {}
    for column in columns:
        values: Sequence[float] = series[column].tolist()
        for name, part, value in zip(series[key], series["slice_id"], values, strict=True):
            mine = risen.setdefault(str(name), {})
            if value != value:  # NaN stands for NULL
                continue
            before = last.get((part, str(name), column), value)
            mine[column] = mine.get(column, 0.0) + max(0.0, value - before)
            last[part, str(name), column] = value
    return risen
