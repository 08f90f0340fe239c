"""Tables that another session has locked when a run begins: not waited for without end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.workload._queries import query

if TYPE_CHECKING:
    import psycopg

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
