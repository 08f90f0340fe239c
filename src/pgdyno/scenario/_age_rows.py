"""Rows of the tables under load: those that were there, and those whose insertion was acknowledged.

An insertion is acknowledged if its statement was done and no later statement of its transaction
failed. Statements that insert one row with VALUES can be counted; what others do to a table is not
known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from msgspec import Struct

from pgdyno.record import ErrorTotal, RunFile, StatementTotal
from pgdyno.results.age import AgeTable

_INSERT = re.compile(
    r"insert\s+into\s+([\w.\"]+)\s*(?:\([^()]*\)\s*)?values\s*\((?:[^()]|\([^()]*\))*\)\s*;?\s*"
    r"(?:returning\b.*)?",
    re.IGNORECASE | re.DOTALL,
)
_KEEPS_ROWS = re.compile(
    r"(?:select|update|begin|start|commit|end|rollback|savepoint|release|set|show|connect)\b",
    re.IGNORECASE,
)
_READS = re.compile(r"(?:select|show|table|values)\b(?!.*\bfor\s+(?:no|key|update|share))",
                    re.IGNORECASE | re.DOTALL)  # fmt: skip
_CONTROL = re.compile(r"(?:begin|start|commit|end|rollback|savepoint|release|set)\b", re.IGNORECASE)


def reads(statement: str) -> bool:
    """Return whether a statement only reads."""
    return _READS.match(statement.strip()) is not None


def writes(statement: str) -> bool:
    """Return whether a statement is one that writes or locks rows."""
    return not reads(statement) and _CONTROL.match(statement.strip()) is None


class _Inserted(Struct, frozen=True):
    """Rows of one table whose insertion was acknowledged."""

    rows: int
    unsure: int
    """Rows of transactions of which it is not known whether they were committed."""


def tables_of(run: RunFile, before: Mapping[str, int], after: Mapping[str, int]) -> list[AgeTable]:
    """Return each table with its rows before and after, and the rows inserted meanwhile."""
    totals, errors = run.statements(), run.errors()
    open_ = run.ledger().cancelled + run.ledger().backlog
    others = [each for each in totals if not _is_counted(each.statement) and _acted(each, errors)]
    return [
        _table(name, rows, after.get(name, 0), _inserted(name, totals, errors, open_), others)
        for name, rows in before.items()
    ]


def _acted(total: StatementTotal, errors: list[ErrorTotal]) -> bool:
    """Return whether a statement was done without the error that its script expects."""
    expected = sum(
        each.count
        for each in errors
        if each.expected and (each.script, each.statement) == (total.script, total.statement)
    )
    return total.done > expected


def _table(
    name: str, before: int, after: int, inserted: _Inserted, others: Collection[StatementTotal]
) -> AgeTable:
    if any(_may_concern(each.statement, name) for each in others):
        return AgeTable(table=name, before=before, inserted=None, after=after, complete=None)
    added = after - before
    complete = inserted.rows - inserted.unsure <= added <= inserted.rows + inserted.unsure
    return AgeTable(
        table=name, before=before, inserted=inserted.rows, after=after, complete=complete
    )


def _is_counted(statement: str) -> bool:
    text = statement.strip()
    return bool(_INSERT.fullmatch(text) or _KEEPS_ROWS.match(text))


def _may_concern(statement: str, table: str) -> bool:
    """Return whether a statement may insert or delete rows of ``table``."""
    named = re.match(r"(?:insert|delete)\b", statement.strip(), re.IGNORECASE)
    name = re.escape(table.rpartition(".")[2].strip('"'))
    return named is None or re.search(rf"\b{name}\b", statement, re.IGNORECASE) is not None


def _inserted(
    table: str, totals: list[StatementTotal], errors: list[ErrorTotal], open_: int
) -> _Inserted:
    rows = unsure = 0
    for total in totals:
        found = _INSERT.fullmatch(total.statement.strip())
        if found and _same(found[1], table):
            rows += total.done
            unsure += _failed_later(total, totals, errors) + open_
    return _Inserted(rows, unsure)


def _same(written: str, table: str) -> bool:
    """Return whether a name in a statement is that of a table, which is qualified."""
    name = written if "." in written else f"public.{written}"
    return name.replace('"', "").lower() == table.replace('"', "").lower()


def _failed_later(
    total: StatementTotal, totals: list[StatementTotal], errors: list[ErrorTotal]
) -> int:
    """Return how many transactions failed after a statement, which then was done for nothing."""
    script = (total.client_group, total.script)
    later = {
        each.statement
        for each in totals
        if (each.client_group, each.script) == script and each.position > total.position
    }
    return sum(
        each.count
        for each in errors
        if (each.client_group, each.script) == script and each.statement in later
    )
