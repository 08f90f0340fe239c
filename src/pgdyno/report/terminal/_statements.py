"""Statements in a summary: as the clients saw them, and as the server counted them."""

from __future__ import annotations

from pgdyno.diagnose.facts.statement_times import time_notes
from pgdyno.record import RunFile
from pgdyno.report.terminal._lines import Line, labelled, table_lines, wrapped
from pgdyno.report.words import accounts, numbers, statements
from pgdyno.report.words.cutting import cut
from pgdyno.results.statements import ServerStatements

STATEMENTS_MAX = 5
GROUPS_MAX = 8
STATEMENT_WIDTH = 44


def statement_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
    """Return the statements that take the most time, and those that never changed a row."""
    totals = run.statements(ids)
    untouched = labelled("no rows", accounts.untouched_words(totals), width, style="yellow")
    if len(totals) < 2:
        return untouched
    slowest = dict(list(accounts.by_time(totals).items())[:STATEMENTS_MAX])
    several = len({(t.client_group, t.script) for t in totals}) > 1
    rows = []
    for t, share in slowest.items():
        name = f"{accounts.statement_origin(t)}: {t.statement}" if several else t.statement
        counts = [numbers.percent(share), numbers.count(t.done), numbers.count(t.failed)]
        figures = [accounts.percentile_ms(t.service, p) for p in (50, 99, 99.9)]
        mean = numbers.ms_figure(t.service.mean / 1e6) if t.service.count else numbers.ABSENT
        rows.append([f"  {cut(name, STATEMENT_WIDTH)}", *counts, mean, *figures])
    more = len(totals) - len(rows)
    label = f"statements, ms{f' ({more} more)' if more else ''}"
    head = [label, "share", "done", "failed", "mean", "p50", "p99", "p99.9"]
    lines = [Line(line.text, bold_to=line.bold_to, spare=True)
             for line in table_lines(head, rows, width)]  # fmt: skip
    for note in time_notes(run, slowest):
        lines += wrapped(f"  {note}", width, indent=2, spare=True)
    return [*lines, *untouched]


def server_statement_lines(found: ServerStatements | None, width: int) -> list[Line]:
    """Return the groups of statements that took the most time on the server."""
    if found is None:
        return []
    said = statements.sentences(found)
    if found.absent:
        return labelled("on server", said[0], width, style="yellow")
    columns, rows = statements.short_rows(found, GROUPS_MAX, STATEMENT_WIDTH)
    more = len(found.groups) - len(rows)
    head = [f"on the server{f' ({more} more)' if more else ''}", *columns]
    lines = table_lines(head, [[f"  {row[0]}", *row[1:]] for row in rows], width)
    for each in said[1:]:
        lines += wrapped(f"  {each}", width, indent=2, style="yellow")
    return lines
