"""Lock on the workloads' tables of a database: shared by runs that use them, exclusive for making.

It is an advisory lock of a session that stays open during the run, so the server releases it
however the run ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pgdyno.errors import SetupError
from pgdyno.server import ConnInfo, connect

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

_KEYS = "(1885828217, 1)"
"""The letters "pgdy" as a number, and the number of this lock."""
_LOCK_TIMEOUT = "3s"
"""Long enough for the session of a run that has just ended to be closed."""
_TIMEOUTS_OFF = (
    "set statement_timeout = 0; set idle_session_timeout = 0;"
    " set idle_in_transaction_session_timeout = 0; set lock_timeout = '{}'"
)


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
