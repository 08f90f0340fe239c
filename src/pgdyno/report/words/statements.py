"""The server's own counts of statements in words: a table of groups, and of shapes.

A column that this server's version or its settings leave out is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgdyno import numbers
from pgdyno.report.words.prose import cut
from pgdyno.report.words.tables import Table, figures_table
from pgdyno.results.run_parts import ServerStatements, StatementFigures, StatementGroup

TEXT_MAX = 160
ROWS_MAX = 30

Cell = Callable[[StatementFigures], str]
_COLUMNS: dict[str, tuple[str, Cell]] = {
    "calls": ("calls", lambda each: numbers.count(each.calls)),
    "exec_ms": ("time", lambda each: numbers.ms(each.exec_ms)),
    "share": ("of server's time", lambda each: numbers.percent(each.share)),
    "each": ("per call", lambda each: numbers.ms(each.exec_ms / each.calls)),
    "plan_ms": ("planning", lambda each: numbers.ms(each.plan_ms)),
    "rows": ("rows", lambda each: numbers.count(each.rows)),
    "wal_bytes": ("WAL", lambda each: numbers.size(each.wal_bytes)),
    "wal_records": ("records", lambda each: numbers.count(each.wal_records)),
    "wal_fpi": ("page images", lambda each: numbers.count(each.wal_fpi)),
    "wal_buffers_full": ("buffers full", lambda each: numbers.count(each.wal_buffers_full)),
    "blocks_dirtied": ("dirtied", lambda each: numbers.count(each.blocks_dirtied)),
    "blocks_read": ("read", lambda each: numbers.count(each.blocks_read)),
    "temp_blocks": ("temporary", lambda each: numbers.count(each.temp_blocks)),
    "io_ms": ("I/O", lambda each: numbers.ms(_io_ms(each))),
    "jit_ms": ("JIT", lambda each: numbers.ms(each.jit_ms)),
}
_SHORT = ("calls", "share", "each", "wal_bytes", "blocks_dirtied", "blocks_read", "io_ms", "jit_ms")
"""Columns that fit a terminal."""


def _io_ms(each: StatementFigures) -> float | None:
    if each.read_ms is None or each.write_ms is None:
        return None
    return each.read_ms + each.write_ms


def _known(names: Sequence[str], rows: Sequence[StatementFigures]) -> list[str]:
    """Return the columns that have a figure in some row."""
    derived: dict[str, Callable[[StatementFigures], float | None]] = {
        "each": lambda each: each.exec_ms,
        "io_ms": _io_ms,
    }
    return [
        name
        for name in names
        if any(
            (derived[name](each) if name in derived else getattr(each, name)) is not None
            for each in rows
        )
    ]


def short_rows(
    found: ServerStatements, rows_max: int, width: int
) -> tuple[list[str], list[list[str]]]:
    """Return the heads of the columns, and a row for each of the first groups, texts cut to
    ``width``."""
    names = _known(_SHORT, found.groups)
    rows = [
        [cut(each.text, width), *(_COLUMNS[name][1](each) for name in names)]
        for each in found.groups[:rows_max]
    ]
    return [_COLUMNS[name][0] for name in names], rows


def tables(found: ServerStatements | None) -> list[Table]:
    """Return the table of groups, and that of shapes if there are more of them."""
    if found is None or found.absent:
        return []
    groups = _table("Statements that begin alike, up to their second parameter", found.groups)
    if len(found.shapes) == len(found.groups):
        return [groups]
    return [groups, _table("Statements by shape", found.shapes)]


def _table(caption: str, figures: Sequence[StatementFigures]) -> Table:
    names = _known(list(_COLUMNS), figures)
    shown = figures[:ROWS_MAX]
    rows = [[_text(each), *(_COLUMNS[name][1](each) for name in names)] for each in shown]
    more = len(figures) - len(shown)
    caption = f"{caption}; {more:,} more are in the run file" if more else caption
    return figures_table(caption, ["Statement", *(_COLUMNS[name][0] for name in names)], rows)


def _text(each: StatementFigures) -> str:
    text = cut(each.text, TEXT_MAX)
    if isinstance(each, StatementGroup) and each.shapes > 1:
        return f"{text} … ({each.shapes:,} shapes)"
    return text


def sentences(found: ServerStatements | None) -> list[str]:
    """Return the notes beside the tables, or the reason why there are none."""
    if found is None:
        return []
    if found.absent:
        return [f"not read: {found.absent}"]
    said = [
        f"the server counted {numbers.count(sum(each.calls for each in found.groups))} executions"
        f" that took {numbers.ms(found.exec_ms)}, with the waits within them"
    ]
    if found.evictions:
        times = "once" if found.evictions == 1 else f"{found.evictions:,} times"
        said.append(
            f"pg_stat_statements evicted statements {times} because it was full, and their counts"
            " are missing: raise pg_stat_statements.max"
        )
    return said
