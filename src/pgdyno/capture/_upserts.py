"""The rows that INSERTs with ON CONFLICT DO UPDATE add.

The rows of such a statement are those that it inserts and those that it updates; the table's are
only those that are inserted, by it and by other statements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from msgspec.structs import replace

from pgdyno.clone.capture_file import Statement


def with_added(
    statements: Mapping[str, Statement], inserted_per_s: Mapping[str, float]
) -> dict[str, Statement]:
    """Return the statements with the rows that they add to the tables in which they update others;
    the rows that are inserted in a second are those of the tables by name."""
    written: defaultdict[str, float] = defaultdict(float)
    by_others: defaultdict[str, float] = defaultdict(float)
    for each in statements.values():
        counts = written if each.on_conflict == "update" else by_others
        counts[_table_of(each)] += each.calls_per_s * each.rows

    def with_rows(statement: Statement) -> Statement:
        table = _table_of(statement)
        if statement.on_conflict != "update" or table not in inserted_per_s or not written[table]:
            return statement
        share = (inserted_per_s[table] - by_others[table]) / written[table]
        return replace(statement, added=round(statement.rows * max(0.0, min(1.0, share)), 4))

    return {key: with_rows(each) for key, each in statements.items()}


def _table_of(statement: Statement) -> str:
    """Return the table into which a statement inserts rows; '' if there is none."""
    return next((each.table for each in statement.parameters if each.use == "inserted"), "")
