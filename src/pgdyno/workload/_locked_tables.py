"""Locks on tables during set-up: those of other sessions are not waited for without end, and what
set-up fills is locked, and this role's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.workload._queries import query

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

WAIT_S = 5
"""Time that set-up waits for a lock on a table: longer than most statements hold one."""
LOCK_NOT_AVAILABLE = "55P03"
"""SQLSTATE of a lock that lock_timeout did not wait for longer."""


def limit_lock_waits(conn: psycopg.Connection) -> None:
    """Let statements of the session fail if they wait longer for a lock than ``WAIT_S``."""
    conn.execute(f"set lock_timeout = '{WAIT_S}s'".encode())


@contextmanager
def locks_named(conn: psycopg.Connection) -> Iterator[None]:
    """Turn the error of a statement within the block that waited too long for a lock into a
    SetupError that names the holder."""
    import psycopg

    try:
        yield
    except psycopg.errors.LockNotAvailable:
        raise locked_table(conn) from None


@contextmanager
def owned(conn: psycopg.Connection, tables: Sequence[sql.Identifier]) -> Iterator[None]:
    """Within the block, a transaction, the tables are locked, and owned by the session's role:
    triggers, defaults and checks of a table are functions of its owner's, which would run with the
    rights of the role that fills it. Raises SetupError for a table of another role's."""
    from psycopg import sql

    with conn.transaction():
        listed = sql.SQL(", ").join(tables)
        conn.execute(sql.SQL("lock table {} in access exclusive mode").format(listed))
        names = {"names": [table.as_string(None) for table in tables]}
        other = conn.execute(query("table_of_others"), names).fetchone()
        if other is not None:
            table, owner, role = other
            raise SetupError(
                f"the table {table} in the database {conn.info.dbname} is owned by {owner}, whose"
                f" triggers and defaults would run with the rights of {role}",
                code="foreign-owner",
                hint=f"connect as {owner}, or make the tables again: -i without -I",
            )
        yield


def locked_table(conn: psycopg.Connection, statement: str = "") -> SetupError:
    """Return the error to raise after ``statement`` has waited too long; it names the holder."""
    rows = conn.execute(query("table_lockers")).fetchall()
    words = set(re.findall(r"\w+", statement))
    named = [row for row in rows if row[0].rpartition(".")[2] in words] or rows
    database = conn.info.dbname
    if not named:
        return SetupError(
            f"a table in the database {database} was locked by a session that is gone now",
            code="table-locked",
            hint="try again",
        )
    table, pid, program = named[0]
    return SetupError(
        f"the table {table} in the database {database} is locked by {_holder(pid, program)}",
        code="table-locked",
        hint=_hint(pid),
    )


def _holder(pid: int | None, program: str) -> str:
    if pid is None:
        return "a prepared transaction"
    return f"process {pid} ({program})" if program else f"process {pid}"


def _hint(pid: int | None) -> str:
    if pid is None:
        return "commit it or roll it back: pg_prepared_xacts lists it"
    return f"wait for it to end, or end it with SELECT pg_terminate_backend({pid})"
