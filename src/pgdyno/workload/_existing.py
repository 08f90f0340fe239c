"""pgbench's tables that pgdyno did not make: used as they are, and what is to be said of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.server.connecting.marks import UNFINISHED
from pgdyno.workload._found import PGBENCH_COLUMNS, FoundTable
from pgdyno.workload._pgbench import ACCOUNTS_PER_BRANCH, TELLERS_PER_BRANCH
from pgdyno.workload._queries import query

if TYPE_CHECKING:
    import psycopg

_AFRESH = "-i drops pgbench's tables there and makes all four afresh, as pgbench -i does"
_KEYED = ("pgbench_accounts", "pgbench_branches", "pgbench_tellers")


def scale_there(conn: psycopg.Connection, found: Mapping[str, FoundTable]) -> int:
    """The scale of the tables, as pgbench takes it. Raises SetupError when they cannot be used."""
    database = conn.info.dbname
    if any(table.comment == UNFINISHED for table in found.values()):
        raise SetupError(
            f"pgbench's tables in the database {database} are half made: the pgdyno that made them"
            " was stopped",
            code="tables-incomplete",
            hint=_AFRESH,
        )
    if missing := sorted(set(PGBENCH_COLUMNS) - set(found)):
        raise SetupError(
            f"the database {database} has {', '.join(sorted(found))}, and lacks"
            f" {', '.join(missing)}",
            code="tables-incomplete",
            hint=_AFRESH,
        )
    row = conn.execute(query("pgbench_scale")).fetchone()
    if row is None or row[0] == 0:
        raise SetupError(
            f"pgbench_branches in the database {database} is empty, so that the tables have no"
            " scale",
            code="tables-incomplete",
            hint=_AFRESH,
        )
    return int(row[0])


def what_is_odd(
    conn: psycopg.Connection, found: Mapping[str, FoundTable], scale: int, asked: int | None
) -> Iterator[str]:
    """What a user should know of the tables, whose scale is ``scale`` and not maybe ``asked``."""
    database = conn.info.dbname
    if asked is not None and asked != scale:
        yield (
            f"the tables in the database {database} have scale {scale}, which counts;"
            f" -s {asked} is for making them"
        )
    for table in found.values():
        if table.instead is not None:
            yield f"{table.schema}.{table.name} is {table.instead}, and is used as it is"
    unkeyed = [name for name in _KEYED if found[name].kind in ("r", "p") and not found[name].keyed]
    if unkeyed:
        yield f"without a primary key: {', '.join(unkeyed)}; statements read the whole table"
    elif all(found[name].instead is None for name in _KEYED):
        yield from _rows_missing(conn, scale)


def _rows_missing(conn: psycopg.Connection, scale: int) -> Iterator[str]:
    row = conn.execute(query("pgbench_highest")).fetchone()
    assert row is not None
    expected = (scale * ACCOUNTS_PER_BRANCH, scale * TELLERS_PER_BRANCH)
    for what, there, due in zip(
        ("pgbench_accounts", "pgbench_tellers"), row, expected, strict=True
    ):
        if there != due:
            yield (f"{what} ends at {there:,}, where scale {scale} has {due:,}: rows are missing")
