"""A lock on the workloads' tables of one database: many runs use them, or one makes them.

It is an advisory lock of PostgreSQL's, held by a session that stays open as long as the run; it
goes with the session, however that ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.server import ConnInfo, connect

if TYPE_CHECKING:
    import psycopg

_KEYS = "(1885828217, 1)"
"""The letters "pgdy" as a number, and the number of this lock."""
_PATIENCE = "3s"
"""A run that has just ended may have its session for a moment yet."""
_TIMEOUTS_OFF = (
    "set statement_timeout = 0; set idle_session_timeout = 0;"
    " set idle_in_transaction_session_timeout = 0; set lock_timeout = '{}'"
)


class TableLock:
    """Used as a context manager; nothing is locked before :meth:`to_use` or :meth:`to_make`."""

    def __init__(self, conninfo: ConnInfo) -> None:
        self._database = conninfo.database
        self._conn = connect(conninfo)
        self._conn.execute(_TIMEOUTS_OFF.format(_PATIENCE).encode())

    def __enter__(self) -> TableLock:
        return self

    def __exit__(self, *_: object) -> None:
        self._conn.close()

    @property
    def conn(self) -> psycopg.Connection:
        """The session that holds the lock, whose timeouts are off."""
        return self._conn

    def to_use(self) -> None:
        """Share the tables with other runs. Raises SetupError while another one makes them."""
        self._take("pg_advisory_lock_shared", "making")

    def to_make(self) -> None:
        """Have the tables alone. Raises SetupError while another run uses or makes them.

        The share is given up before, so that two who want this do not wait for each other.
        """
        self._release("pg_advisory_unlock_shared")
        self._take("pg_advisory_lock", "using")

    @contextmanager
    def if_alone(self) -> Iterator[bool]:
        """Have the tables alone within the block, if nobody else uses them now."""
        row = self._conn.execute(f"select pg_try_advisory_lock{_KEYS}".encode()).fetchone()
        alone = bool(row and row[0])
        try:
            yield alone
        finally:
            if alone:
                self._release("pg_advisory_unlock")

    def made(self) -> None:
        """Others may use them too."""
        self.to_use()
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
                hint="wait until it ends, or use another database: -d NAME",
            ) from None
