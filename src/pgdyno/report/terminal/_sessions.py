"""Client sessions in the terminal: states, and where they come from."""

from __future__ import annotations

from collections.abc import Collection

from pgdyno.record import RunFile
from pgdyno.report.terminal._lines import Line, labelled, table_lines
from pgdyno.report.words import sessions


def session_lines(run: RunFile, ids: Collection[int] | None, width: int) -> list[Line]:
    """Return a sentence and a table of origins, where sessions have several purposes or many do
    nothing."""
    if not sessions.is_notable(run, ids):
        return []
    words = sessions.sentence(run, ids)
    lines = [Line(""), *labelled("sessions", words, width)]
    table = sessions.origins_table(run, ids)
    if table is None:
        return lines
    rows = [[f"  {row[0]}", *row[1:]] for row in table.rows]
    return [*lines, *table_lines(["sessions of", *table.head[1:]], rows, width)]
