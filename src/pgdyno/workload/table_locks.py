"""Locks on tables during set-up: pgdyno's own on the tables of a database, and those of others.

The own one is shared by runs that use the tables, and exclusive for making them. It is an advisory
lock of a session that stays open during the run, so the server releases it however the run ends.
Locks of other sessions on a table are not waited for without end, and what set-up fills is locked,
and this role's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pgdyno.errors import SetupError
from pgdyno.server import ConnInfo, connect
from pgdyno.server.sql_files import query

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

    from pgdyno.server.connecting.control import Control


_KEYS = "(1885828217, 1)"
"""The letters "pgdy" as a number, and the number of this lock."""
_LOCK_TIMEOUT = "3s"
"""Long enough for the session of a run that has just ended to be closed."""
_TIMEOUTS_OFF = (
    "set statement_timeout = 0; set idle_session_timeout = 0;"
    " set idle_in_transaction_session_timeout = 0; set lock_timeout = '{}'"
)
WAIT_S = 5
"""Time that set-up waits for a lock on a table: longer than most statements hold one."""
LOCK_NOT_AVAILABLE = "55P03"
"""SQLSTATE of a lock that lock_timeout did not wait for longer."""


class TableLock:
    """Context manager of the lock, taken by :meth:`lock_shared` and :meth:`lock_exclusive`."""

    def __init__(self, conninfo: ConnInfo) -> None:
        self._database = conninfo.database
        self._conn = connect(conninfo)
        self._conn.execute(_TIMEOUTS_OFF.format(_LOCK_TIMEOUT).encode())

    def __enter__(self) -> TableLock:
        return self

    def __exit__(self, *problem: Any) -> None:
        self._conn.__exit__(*problem)

    @property
    def conn(self) -> Control:
        """The session that holds the lock, with its timeouts disabled."""
        return self._conn

    def lock_shared(self) -> None:
        """Take the shared lock. Raises SetupError if another run makes the tables."""
        self._take("pg_advisory_lock_shared", "making")

    def lock_exclusive(self) -> None:
        """Take the exclusive lock. Raises SetupError if another run uses or makes the tables.

        The shared lock is released first, so that two such runs do not wait for each other.
        """
        self._release("pg_advisory_unlock_shared")
        self._take("pg_advisory_lock", "using")

    @contextmanager
    def try_exclusive(self) -> Iterator[bool]:
        """Hold the exclusive lock within the block if no other run uses the tables now."""
        row = self._conn.execute(f"select pg_try_advisory_lock{_KEYS}".encode()).fetchone()
        alone = bool(row and row[0])
        try:
            yield alone
        finally:
            if alone:
                self._release("pg_advisory_unlock")

    def downgrade(self) -> None:
        """Replace the exclusive lock by the shared one."""
        self.lock_shared()
        self._release("pg_advisory_unlock")

    def _release(self, function: str) -> None:
        self._conn.execute(f"select {function}{_KEYS}".encode())

    def _take(self, function: str, doing: str) -> None:
        import psycopg

        try:
            self._conn.execute(f"select {function}{_KEYS}".encode())
        except psycopg.errors.LockNotAvailable:
            raise SetupError(
                f"another pgdyno is {doing} the tables in the database {self._database}",
                code="tables-in-use",
                hint="wait until it has ended, or use another database with -d NAME",
            ) from None


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
        other = conn.execute(query("workload", "table_of_others"), names).fetchone()
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
    rows = conn.execute(query("workload", "table_lockers")).fetchall()
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
