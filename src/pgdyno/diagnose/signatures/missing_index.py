"""Missing index: statements read whole tables to find a few rows.

Trigger: sequential scans of at least ``SCAN_ROWS_MIN`` rows each are estimated to take at least
``COST_SHARE`` of the response time, by the rows that they read and ``ROW_CPU_S`` of CPU time each
(see ``facts.tables`` and ``_cpu_uses``).

The columns of the index that is proposed are those that the statement with the most time on the
table compares with values, where its text shows them (see ``_conditions``).

Thresholds: no published tool has one that counts the cost; calibrated by injection, a condition on
a column without an index in tables of 100,000 rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdyno.diagnose._conditions import compared
from pgdyno.diagnose._cpu_uses import (
    backend_cores,
    cpu_parts,
    cpu_uses,
    ratio_of_short,
    ratio_without,
    response_share,
)
from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.compiling import STATEMENT_CPU_S
from pgdyno.diagnose.facts.slices import CLIENT_BACKEND, PARALLEL_WORKER
from pgdyno.diagnose.facts.tables import Table, indexes, scanned_tables
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence, Proposal
from pgdyno.spec.change import Change
from pgdyno.spec.columns import columns_text
from pgdyno.spec.sql_text import mentions, names_table, relation
from pgdyno.wait_events import wait_class

if TYPE_CHECKING:
    from pgdyno.record import StatementTotal

COST_SHARE = 0.05
SHORTENED = 80


def examine(s: Situation) -> Found | Cleared:
    """Examine the sequential scans of each table."""
    scanned = scanned_tables(s)
    share = response_share(s, "missing-index")
    evidence = _evidence(s, scanned, share)
    if not scanned or share < COST_SHARE:
        return Cleared(
            f"sequential scans of many rows take {percent(share)} of the response time", evidence
        )
    worst = scanned[0]
    statement = _statement(s, worst)
    columns = _columns(s, worst)
    where = f": {statement}" if statement else ""
    return Found(
        sentence=f"{worst.name} is read as a whole, {_rows_words(s, worst)}{where}",
        parts=cpu_parts(s),
        share=share,
        liftable=ratio_without(s, cpu_uses(s)["missing-index"]).lifted,
        confidence=0.8 if statement else 0.6,
        evidence=evidence,
        proposals=_index(s, worst, columns),
        advice=(
            f"create an index of {relation(worst.name)} on"
            f" {columns_text(columns) or 'the columns that the statement compares'}, if EXPLAIN"
            " shows that a filter removes most rows"
        ),
    )


def _on_table(s: Situation, table: Table) -> list[StatementTotal]:
    """Return the scripts' statements that mention a table, those that take the most time first."""
    mine = [each for each in s.statements if mentions(each.statement, table.name)]
    return sorted(mine, key=lambda each: -each.service.count * each.service.mean)


def _columns(s: Situation, table: Table) -> tuple[str, ...]:
    """Return the columns that the slowest statement on ``table`` compares with values; none if its
    text does not show them, or if an index on them is there already."""
    statements = _on_table(s, table)
    found = compared(statements[0].statement) if statements else None
    if found is None or not names_table(found.table, table.name):
        return ()
    there = [set(index.columns) for index in indexes(s) if index.table == table.name]
    return () if any(set(found.columns) <= each for each in there) else found.columns


def _index(s: Situation, table: Table, columns: tuple[str, ...]) -> list[Proposal]:
    """Return the proposal of an index.

    What it saves is the CPU time of the statements on the table, by their share of the samples that
    show a session computing, except for ``STATEMENT_CPU_S`` each, the most that a statement takes
    which finds few rows; at least what the rows are estimated to take.
    """
    if not columns:
        return []
    per_s = sum(each.done for each in _on_table(s, table)) / s.seconds
    computing = _computing_share(s, table) - per_s * STATEMENT_CPU_S / backend_cores(s)
    saved = max(cpu_uses(s)["missing-index"], computing)
    ratio = ratio_of_short(s, saved)
    if ratio < WORTHWHILE_RATIO:
        return []
    change = Change(indexes={table.name: columns_text(columns)})
    why = f"the statement would read the rows that it finds instead of {_rows_words(s, table)}"
    return [
        Proposal(
            remedy_id="create-index", change=change, predicted_ratio=ratio, why=why, specific=True
        )
    ]


def _rows_words(s: Situation, table: Table) -> str:
    """Return how many rows a scan of a table reads. In every version, each process of a parallel
    scan counts a scan, and the rows that it read itself (heapam.c)."""
    rows = figure(table.scanned_rows / table.scans)
    waits = s.run.waits(s.slice_ids)
    parallel = any(wait.backend_type == PARALLEL_WORKER and wait.average for wait in waits)
    return f"{rows} rows by each {'process of a parallel scan' if parallel else 'scan'}"


def _computing_share(s: Situation, table: Table) -> float:
    """Return the part of the sessions seen computing whose statement mentions a table."""
    computing = [
        wait
        for wait in s.waits
        if wait.backend_type == CLIENT_BACKEND
        and wait_class(wait.state, wait.wait_event_type, wait.wait_event) == "cpu"
    ]
    mine = sum(each.average for each in computing if mentions(each.statement or "", table.name))
    every = sum(each.average for each in computing)
    return mine / every if every else 0.0


def _statement(s: Situation, table: Table) -> str:
    """Return the statement, shortened, that mentions the table and runs or reads the most."""
    sampled = [wait for wait in s.run.waits(s.slice_ids) if wait.statement and wait.average > 0]
    for wait in sorted(sampled, key=lambda wait: -wait.average):
        text = " ".join((wait.statement or "").split())
        if mentions(text, table.name):
            return text if len(text) <= SHORTENED else text[: SHORTENED - 1] + "…"
    return ""


def _evidence(s: Situation, scanned: list[Table], share: float) -> list[Evidence]:
    bar = f"at least {percent(COST_SHARE)}"
    evidence = [s.evidence("sequential scans / response time (estimate)", share, "share", bar)]
    for table in scanned[:3]:
        evidence += [
            s.evidence(f"sequential scans of {table.name}", table.scans, "per s"),
            s.evidence(
                f"rows of {table.name} read by each", table.scanned_rows / table.scans, "rows"
            ),
        ]
    return evidence


SIGNATURE = Signature(
    id="missing-index",
    false_positives=(
        "statements that need most rows of the table, as reports do; a scan that ends early, after"
        " a LIMIT; the server counts a parallel scan once for each of its processes"
    ),
    examine=examine,
)
