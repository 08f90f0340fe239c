"""The schema of a capture on an empty server of pgdyno's, without what that refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack
from types import TracebackType
from typing import Self, TypeVar

from msgspec.structs import replace

from pgdyno.capture._trial import ROWS_MAX, Trial
from pgdyno.clone.capture_file import Function, Table, View
from pgdyno.clone.keys import Keys
from pgdyno.clone.schema import (
    UNCHECKED,
    index_sql,
    key_sql,
    partition_names,
    partitions_sql,
    reference_sql,
    schemas_and_types,
    table_sql,
    view_sql,
)
from pgdyno.numbers import counted
from pgdyno.server import Cluster, connect_plain, find_installation
from pgdyno.server.local.owner import make_owner
from pgdyno.spec.sql_text import stored

_SETTINGS = {"fsync": "off"}
_COMPUTED = ("column that the server computes is", "columns that the server computes are")
_Named = TypeVar("_Named", bound=Function | View)
_PARTS: tuple[tuple[Callable[[Table], Sized], str, str], ...] = (
    (lambda table: table.keys, "key is", "keys are"),
    (lambda table: table.indexes, "index is", "indexes are"),
    (lambda table: table.references, "reference is", "references are"),
    (lambda table: table.checks, "CHECK constraint is", "CHECK constraints are"),
    (lambda table: table.triggers, "trigger is", "triggers are"),
    (lambda table: [each for each in table.columns if each.generated], *_COMPUTED),
)
"""Parts of a table that a server may refuse, one and several in words."""


class EmptySchema:
    """Tables without rows, their keys and indexes, functions and views. A context manager."""

    def __init__(
        self,
        tables: tuple[Table, ...],
        functions: tuple[Function, ...] = (),
        views: tuple[View, ...] = (),
    ) -> None:
        self._given = tables
        self._given_functions, self._given_views = functions, views
        self._stack = ExitStack()
        self.gaps: list[str] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            cluster = stack.enter_context(Cluster.create(find_installation(), _SETTINGS))
            self.connection = stack.enter_context(connect_plain(make_owner(cluster.conninfo)))
            self.tables = self._made()
            self.by_name = {each.full_name: each for each in self.tables} | {
                stored(name): each for each in self.tables for name in partition_names(each)
            }
            """Tables by their names, and by those of their partitions."""
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _made(self) -> tuple[Table, ...]:
        for sql in schemas_and_types(self._given, [*self._given_functions, *self._given_views]):
            self._accepts(sql)
        keys = Keys(self._given)
        tables = [each for table in self._given for each in self._table(table)]
        for sql in (each for table in tables for each in partitions_sql(table, keys)):
            self._accepts(sql)
        self._accepts(UNCHECKED)
        self.functions = self._in_rounds(self._given_functions, lambda each: each.sql)
        self.views = self._in_rounds(self._given_views, view_sql)
        keyed = Trial(self.connection, [*map(self._with_keys, tables)]).with_accepted()
        by_name = {each.full_name: each for each in keyed}
        kept = [self._with_references(each, by_name) for each in keyed]
        self._tell(len(self._given) - len(tables), "table is", "tables are")
        self._tell(len(self._given_functions) - len(self.functions), "function is", "functions are")
        self._tell(len(self._given_views) - len(self.views), "view is", "views are")
        given = {each.full_name: each for each in self._given}
        for parts_of, one, several in _PARTS:
            lost = sum(len(parts_of(given[each.full_name])) - len(parts_of(each)) for each in kept)
            self._tell(lost, one, several)
        return tuple(kept)

    def _table(self, table: Table) -> Iterator[Table]:
        """Create a table; yield it, or without expressions of columns, if it was accepted so."""
        plain = tuple(replace(each, generated="", virtual=False) for each in table.columns)
        starts = {each.name: ROWS_MAX + 1 for each in table.columns}
        for each in (table, replace(table, columns=plain)):
            if self._accepts(table_sql(each, starts)):
                yield each
                return

    def _in_rounds(
        self, given: Sequence[_Named], sql_of: Callable[[_Named], str]
    ) -> tuple[_Named, ...]:
        """Create functions or views, those that need others after these; return those that were
        accepted."""
        kept: list[_Named] = []
        left = [*given]
        while more := [each for each in left if self._accepts(sql_of(each))]:
            kept += more
            left = [each for each in left if each not in more]
        return tuple(kept)

    def _with_keys(self, table: Table) -> Table:
        """Create keys and indexes; return the table with those that were accepted."""
        keys = tuple(each for each in table.keys if self._accepts(key_sql(table, each)))
        indexes = tuple(each for each in table.indexes if self._accepts(index_sql(table, each)))
        has_primary = table.has_primary and keys[:1] == table.keys[:1]
        return replace(table, keys=keys, indexes=indexes, has_primary=has_primary)

    def _with_references(self, table: Table, tables: Mapping[str, Table]) -> Table:
        """Create foreign keys; return the table with those that were accepted."""
        kept = (
            each
            for each in table.references
            if each.table in tables
            and self._accepts(reference_sql(table, each, tables[each.table]))
        )
        return replace(table, references=tuple(kept))

    def _tell(self, number: int, one: str, several: str) -> None:
        if number:
            self.gaps.append(f"{counted(number, one, several)} left out: a new server refuses them")

    def _accepts(self, sql: str) -> bool:
        import psycopg

        try:
            self.connection.execute(sql.encode())
        except psycopg.Error:
            return False
        return True
