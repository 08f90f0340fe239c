"""Checks and triggers, tried on tables with a few rows that are made: those that refuse them would
refuse the clone's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pgdyno.clone.capture_file import Table
from pgdyno.clone.keys import Keys
from pgdyno.clone.schema import ROWS, check_sql, name_of, rows_sql
from pgdyno.clone.values import is_made
from pgdyno.spec.sql_text import quoted

if TYPE_CHECKING:
    import psycopg

ROWS_MAX = 100
"""Of each table."""
_BYTES = 1 << 24
_LIMITS = ("set statement_timeout = '5s'", "reset statement_timeout")
"""A trigger may wait for what is not here."""


class Trial:
    """The rows of tables that were created without references."""

    def __init__(self, connection: psycopg.Connection[Any], tables: Sequence[Table]) -> None:
        self._connection = connection
        self._tables = [*tables]
        self._few = Keys(replace(each, rows=min(each.rows, ROWS_MAX)) for each in tables)

    def with_accepted(self) -> list[Table]:
        """Return the tables, in the order given, with the checks and triggers that accept the rows,
        which are there then. No row is left."""
        if not any(each.checks or each.triggers for each in self._tables):
            return self._tables
        self._does(_LIMITS[0])
        for table in self._tables:
            self._fills(table)
        kept = []
        for table in self._tables:
            checks = tuple(each for each in table.checks if self._does(check_sql(table, each)))
            triggers = tuple(each for each in table.triggers if self._fires(table, each))
            kept.append(replace(table, checks=checks, triggers=triggers))
        self._does(f"truncate {', '.join(map(name_of, self._tables))}")
        self._does(_LIMITS[1])
        return kept

    def _fires(self, table: Table, trigger: str) -> bool:
        """Create a trigger, and have it fire; return whether it stays."""
        import psycopg

        try:
            with self._connection.transaction():
                self._connection.execute(trigger.encode())
                with self._connection.transaction(force_rollback=True):
                    for update in _updates(table):
                        self._connection.execute(update.encode())
                    self._connection.execute(f"delete from {name_of(table)}".encode())
                    self._copy(table)
                    self._connection.execute("set constraints all immediate")
        except psycopg.Error:
            return False
        return True

    def _fills(self, table: Table) -> bool:
        import psycopg

        try:
            self._copy(table)
        except psycopg.Error:
            return False
        return True

    def _copy(self, table: Table) -> None:
        from pgdyno._engine import MadeRows

        for text in rows_sql(self._few.tables[table.full_name], self._few):
            made = MadeRows(text, table.name, [], 0)
            with self._connection.cursor().copy(text.partition(ROWS)[0].encode()) as copy:
                while piece := made.piece(_BYTES):
                    copy.write(piece)

    def _does(self, sql: str) -> bool:
        import psycopg

        try:
            self._connection.execute(sql.encode())
        except psycopg.Error:
            return False
        return True


def _updates(table: Table) -> Iterator[str]:
    """Yield statements that update all rows: with the values that they have, and with those of
    another row, except keys."""
    columns = [each for each in table.columns if is_made(each) and not each.generated]
    partitioned = () if table.partitions is None else table.partitions.columns
    names = [quoted(each.name) for each in columns]
    others = [
        quoted(each.name)
        for each in columns
        if not table.is_in_key(each) and each.name not in partitioned
    ]
    if names:
        same = ", ".join(f"{each} = {each}" for each in names)
        yield f"update {name_of(table)} set {same}"
    if others:
        listed = ", ".join(others)
        row = f"select {listed} from {name_of(table)} limit 1"
        yield f"update {name_of(table)} set ({listed}) = ({row})"
