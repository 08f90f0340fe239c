"""A probe's connection and its SQL: many queries in one round trip, and no error when the server is
away.

It is opened at the first query, reopened with back-off after a loss, and drops a query that this
server or role can never answer. Its session is read-only, with short timeouts for statements and
locks. The SQL is in ``sql/``, one file per view and range of server versions; columns have the
names of the run file's table ``metric_view``, if there is one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from pgdyno.json_types import Row
from pgdyno.probe._other_load import SHOWN
from pgdyno.probe.gaps import MissingProbes
from pgdyno.record.fileformat import columns
from pgdyno.server.sql_files import Query, queries_of

if TYPE_CHECKING:
    import psycopg


APPLICATION_NAME = "pgdyno probe"
SESSION_SETTINGS = {
    "statement_timeout": "2s",
    "lock_timeout": "50ms",
    "idle_in_transaction_session_timeout": "10s",
    "default_transaction_read_only": "on",
    "jit": "off",
}
CONNECT_VALUES = {
    "application_name": APPLICATION_NAME,
    "client_encoding": "utf8",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
STUCK_S = 5.0
"""Longer than any answer that statement_timeout allows."""
BACK_OFF_S = (0.1, 0.2, 0.5, 1.0, 2.0)
FAILURES_MAX = 5
"""Consecutive failures of a single query after which it is dropped."""
CANCELLED_MAX = 3
"""Batches that timed out after which each query is sent separately, to find the slow one."""


class Connectable(Protocol):
    """Resolved connection values, as the probes need them."""

    def kwargs(self) -> Row:
        """Return keyword arguments for psycopg.connect."""


class Link:
    """A connection for probes, for one thread at a time."""

    def __init__(self, conninfo: Connectable, missing: MissingProbes) -> None:
        self._conninfo = conninfo
        self._missing = missing
        self._connection: psycopg.Connection[Row] | None = None
        self._queries: dict[str, Query] = {}
        self._failures: dict[str, int] = {}
        self._cancelled = 0
        self._busy_since_s: float | None = None
        self._attempts = 0
        self._not_before_s = 0.0
        self.why_away = ""
        """The reason why the last fetch had no answer."""
        self.transactions = 0
        """Number of transactions that the server has counted for it, at most."""
        self.connections = 0
        """Number of connections made: a change means that the server may have restarted."""

    @property
    def backend_pid(self) -> int | None:
        """Process ID of the session's backend on the server."""
        return self._connection.info.backend_pid if self._connection else None

    def available(self, name: str) -> bool:
        """True if the query of this name can be answered, as far as known."""
        return name not in self._missing

    def close(self) -> None:
        """End the session; the next fetch opens a new one, at once."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._attempts, self._not_before_s = 0, 0.0

    def rest(self, pause_s: float) -> None:
        """End the session; a new one opens after a pause."""
        self.close()
        self._not_before_s = time.monotonic() + pause_s

    def fetch(self, names: Iterable[str]) -> dict[str, list[Row]] | None:
        """Return rows of these queries, in one round trip; None while the server is away.

        Queries that cannot be answered are omitted. An invalid answer, for which the library may
        raise any exception, counts as no answer.
        """
        import psycopg

        self._busy_since_s = time.monotonic()
        try:
            connection = self._connect()
            if connection is None:
                return None
            wanted = [self._queries[name] for name in names if self.available(name)]
            self.transactions += 1
            try:
                return _pipelined(connection, wanted)
            except psycopg.errors.QueryCanceled:
                self._cancelled += 1
                if self._cancelled % CANCELLED_MAX:
                    return {}
            except psycopg.Error:
                if connection.closed:
                    raise
            return self._one_by_one(connection, wanted)
        except Exception as error:
            self._lose(error)
            return None
        finally:
            self._busy_since_s = None

    def show(self, transactions: int) -> None:
        """Show other pgdynos how many transactions these probes have made; nothing while the server
        is away."""
        import psycopg

        with contextlib.suppress(psycopg.errors.QueryCanceled):
            self.use(lambda connection: connection.execute(SHOWN.format(transactions).encode()))

    def use(self, work: Callable[[psycopg.Connection[Row]], object]) -> None:
        """Do some work on the connection; nothing while the server is away.

        Its errors are raised, except those that lose the connection.
        """
        self._busy_since_s = time.monotonic()
        connection = None
        try:
            connection = self._connect()
            if connection is not None:
                self.transactions += 1
                work(connection)
        except Exception as error:
            if connection is not None and not connection.closed:
                raise
            self._lose(error)
        finally:
            self._busy_since_s = None

    def disconnect_if_stuck(self) -> None:
        """End a fetch that has had no answer for too long, from another thread.

        Otherwise a server that is stopped or unreachable would block the caller forever.
        """
        since_s, connection = self._busy_since_s, self._connection
        if since_s is None or connection is None or time.monotonic() - since_s < STUCK_S:
            return
        with (
            contextlib.suppress(Exception),  # it may be closed between any two steps
            socket.socket(fileno=os.dup(connection.fileno())) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)

    def _connect(self) -> psycopg.Connection[Row] | None:
        """Return the connection, made again if needed; None if it is too early to try again."""
        if self._connection is not None:
            return self._connection
        if time.monotonic() < self._not_before_s:
            return None
        self._connection = connect(self._conninfo)
        self.connections += 1
        self._attempts = 0
        self._learn_version(self._connection.info.server_version // 10_000)
        return self._connection

    def _learn_version(self, major: int) -> None:
        self._queries = queries_for(major)
        for name in {query.name for query in all_queries()} - self._queries.keys():
            first = first_version(name)
            self._missing.add(name, f"needs PostgreSQL {first} or later; this server is {major}")

    def _lose(self, error: Exception) -> None:
        self.why_away = str(error) or type(error).__name__
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.close()
            self._connection = None
        wait_s = BACK_OFF_S[min(self._attempts, len(BACK_OFF_S) - 1)]
        self._attempts += 1
        self._not_before_s = time.monotonic() + wait_s

    def _one_by_one(
        self, connection: psycopg.Connection[Row], wanted: Iterable[Query]
    ) -> dict[str, list[Row]]:
        """Send each query separately, to find those that make the batch fail."""
        import psycopg

        answers = {}
        for query in wanted:
            self.transactions += 1
            try:
                answers[query.name] = connection.execute(query.text.encode()).fetchall()
                self._failures.pop(query.name, None)
            except psycopg.Error as error:
                if connection.closed:
                    raise
                self._note_failure(query, error)
        return answers

    def _note_failure(self, query: Query, error: psycopg.Error) -> None:
        """Drop a query that can never be answered, or has too many consecutive failures."""
        import psycopg

        if isinstance(error, psycopg.errors.LockNotAvailable):
            return
        self._failures[query.name] = self._failures.get(query.name, 0) + 1
        never = isinstance(error, (psycopg.ProgrammingError, psycopg.NotSupportedError))
        if never or self._failures[query.name] >= FAILURES_MAX:
            self._missing.add(query.name, error.diag.message_primary or str(error))


def connect(conninfo: Connectable) -> psycopg.Connection[Row]:
    """Open a session for probes: autocommit, read-only, short timeouts, rows as dictionaries."""
    from psycopg.rows import dict_row

    from pgdyno.server.connecting.control import open_control

    connection = open_control(conninfo.kwargs() | CONNECT_VALUES, row_factory=dict_row)
    settings = "; ".join(f"set {name} = '{value}'" for name, value in SESSION_SETTINGS.items())
    connection.execute(settings.encode())
    return connection


def _pipelined(
    connection: psycopg.Connection[Row], wanted: Sequence[Query]
) -> dict[str, list[Row]]:
    """Return the queries' rows; they are sent together, and prepared after the first time."""
    with connection.pipeline() if len(wanted) > 1 else contextlib.nullcontext():
        cursors = [
            (query.name, connection.execute(query.text.encode(), prepare=True)) for query in wanted
        ]
    return {name: _checked(name, cursor.fetchall()) for name, cursor in cursors}


def _checked(name: str, rows: list[Row]) -> list[Row]:
    """Return the rows. Raises ValueError where a number is not a number."""
    types = columns().get(f"metric_{name}", {})
    for row in rows:
        for column, value in row.items():
            number = types.get(column) in ("integer", "real")
            if number and isinstance(value, str | bytes):
                raise ValueError(f"the server's answer is invalid: {column} is not a number")
    return rows


def all_queries() -> tuple[Query, ...]:
    """Return every SQL file but those of extensions, by name and version. Raises ValueError for
    another file name."""
    # Those of an extension's views are asked by ``statements``, which knows their schema.
    return tuple(each for each in queries_of("probe") if not each.name.startswith("statement_"))


def queries_for(major: int) -> dict[str, Query]:
    """Return the queries for a server of this major version, by name."""
    return {query.name: query for query in all_queries() if query.covers(major)}


def first_version(name: str) -> int:
    """Return the first major version that can answer the query of this name."""
    return min(query.first for query in all_queries() if query.name == name)
