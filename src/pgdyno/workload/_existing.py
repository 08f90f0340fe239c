"""pgbench's tables that pgdyno did not make: their scale, and notes about them."""

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

_REMAKE_HINT = "-i drops and makes all four of pgbench's tables there, as pgbench -i does"
OWN_HINT = "rename or drop it yourself, or name another database"
"""The hint for a table that is not one of pgbench and would not be dropped."""
_KEYED = ("pgbench_accounts", "pgbench_branches", "pgbench_tellers")


def scale_of(conn: psycopg.Connection, found: Mapping[str, FoundTable], asked: int | None) -> int:
    """Return the scale of the tables, determined as pgbench does; ``asked`` where the branches are
    no table.

    Raises SetupError if they cannot be used.
    """
    database = conn.info.dbname
    if any(table.comment == UNFINISHED for table in found.values()):
        raise SetupError(
            f"pgbench's tables in the database {database} are incomplete: pgdyno was stopped while"
            " it made them",
            code="tables-incomplete",
            hint=_REMAKE_HINT,
        )
    if missing := sorted(set(PGBENCH_COLUMNS) - set(found)):
        raise SetupError(
            f"the database {database} has {', '.join(sorted(found))}, but not {', '.join(missing)}",
            code="tables-incomplete",
            hint=_REMAKE_HINT if all(table.is_pgbench for table in found.values()) else OWN_HINT,
        )
    branches = found["pgbench_branches"]
    if branches.other_kind is not None:
        if asked is not None:
            return asked
        raise SetupError(
            f"{branches.schema}.{branches.name} in the database {database} is"
            f" {branches.other_kind}, so the scale is not known",
            code="tables-incomplete",
            hint="name the scale with -s; pgdyno does not read it itself, as functions of its owner"
            " would run",
        )
    row = _counted(conn, found, "pgbench_scale")
    if row[0] == 0:
        raise SetupError(
            f"pgbench_branches in the database {database} is empty, so the scale is not known",
            code="tables-incomplete",
            hint=_REMAKE_HINT,
        )
    return row[0]


def notes_about(
    conn: psycopg.Connection, found: Mapping[str, FoundTable], scale: int, asked: int | None
) -> Iterator[str]:
    """Yield notes for the user about the tables; ``scale`` is theirs, ``asked`` was requested."""
    database = conn.info.dbname
    if asked is not None and asked != scale:
        yield (
            f"the tables in the database {database} have scale {scale}, which is used;"
            f" -s {asked} is ignored"
        )
    for table in found.values():
        if table.other_kind is not None:
            yield f"{table.schema}.{table.name} is {table.other_kind}, and is used as it is"
    unkeyed = [name for name in _KEYED if found[name].kind in ("r", "p") and not found[name].keyed]
    if unkeyed:
        yield f"no primary key: {', '.join(unkeyed)}; statements read the whole table"
    elif all(found[name].other_kind is None for name in _KEYED):
        yield from _rows_missing(conn, found, scale)


def _counted(
    conn: psycopg.Connection, found: Mapping[str, FoundTable], name: str
) -> tuple[int, ...]:
    """Return the row of ``sql/NAME.sql`` on the tables."""
    from psycopg import sql

    names = {name: table.identifier for name, table in found.items()}
    row = conn.execute(sql.SQL(query(name).decode()).format(**names)).fetchone()
    assert row is not None
    return row


def _rows_missing(
    conn: psycopg.Connection, found: Mapping[str, FoundTable], scale: int
) -> Iterator[str]:
    row = _counted(conn, found, "pgbench_highest")
    expected = (scale * ACCOUNTS_PER_BRANCH, scale * TELLERS_PER_BRANCH)
    for what, there, due in zip(
        ("pgbench_accounts", "pgbench_tellers"), row, expected, strict=True
    ):
        if there != due:
            yield f"{what} ends at {there:,}, not {due:,} as at scale {scale}: rows are missing"
