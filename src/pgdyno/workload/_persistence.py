"""Change tables to unlogged, and back to logged.

A logged table cannot reference an unlogged one, so the referencing table of a foreign key is made
unlogged first and logged last.
"""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.errors import SetupError
from pgdyno.server.sql_files import query
from pgdyno.workload._queries import setup_errors

if TYPE_CHECKING:
    import psycopg


class _Table(Struct, frozen=True):
    oid: int
    schema: str
    name: str
    logged: bool
    refers_to: tuple[int, ...]


def make_unlogged(connection: psycopg.Connection) -> list[int]:
    """Make every ordinary table of the database unlogged; return the OIDs of the changed ones.

    The connection must be in autocommit mode. Raises SetupError if the server refuses.
    """
    logged = [table for table in _tables(connection) if table.logged]
    for table in _referring_first(logged):
        _set(connection, table, "unlogged")
    return [table.oid for table in logged]


def make_logged(connection: psycopg.Connection, tables: Iterable[int] | None = None) -> None:
    """Make tables logged again: those with the given OIDs, or all unlogged ones."""
    wanted = None if tables is None else {*tables}
    unlogged = [
        table
        for table in _tables(connection)
        if not table.logged and (wanted is None or table.oid in wanted)
    ]
    for table in reversed(_referring_first(unlogged)):
        _set(connection, table, "logged")


def _tables(connection: psycopg.Connection) -> list[_Table]:
    rows = connection.execute(query("workload", "ordinary_tables")).fetchall()
    return [
        _Table(oid, schema, name, logged, tuple(refers_to))
        for oid, schema, name, logged, refers_to in rows
    ]


def _referring_first(tables: list[_Table]) -> list[_Table]:
    by_oid = {table.oid: table for table in tables}
    sorter: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(by_oid, ()))
    for table in tables:
        for referred in table.refers_to:
            if referred in by_oid:
                sorter.add(referred, table.oid)
    try:
        return [by_oid[oid] for oid in sorter.static_order()]
    except CycleError as cycle:
        names = sorted({f"{by_oid[oid].schema}.{by_oid[oid].name}" for oid in cycle.args[1]})
        raise SetupError(
            f"{' and '.join(names)} reference each other, and PostgreSQL cannot make such tables"
            " unlogged",
            code="tables",
            hint="drop one of the foreign keys in the setup",
        ) from None


def _set(connection: psycopg.Connection, table: _Table, to: str) -> None:
    from psycopg import sql

    name = sql.Identifier(table.schema, table.name)
    statement = sql.SQL("alter table {} set {}").format(name, sql.SQL(to))
    with setup_errors(f"{table.schema}.{table.name} as {to}"):
        connection.execute(statement)
