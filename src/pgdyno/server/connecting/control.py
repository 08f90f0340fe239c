"""Control connections that tolerate any bytes that a server sends.

Text: catalogs contain names from databases with other encodings, and a SQL_ASCII database contains
arbitrary bytes. Undecodable bytes are shown as ``\\xe9``. In SQL_ASCII every byte is read as a
LATIN1 character, so that a name can be sent back unchanged.

Silence: if part of an answer is lost on the network, libpq waits forever. After some seconds
without data, a second session checks whether the server is still working for this one.

Floods: libpq keeps an answer in memory until it is complete. One that takes too much memory, too
many notices, or that does not end, is given up (``_Flood``).

Invalid messages: bytes that are not the protocol, for example from a broken proxy, raise
InvalidAnswerError, whichever exception the library raises. So do rows of another form than the
query has, which make the code that reads them fail.

Names: the owner of a database may set its search_path, and put functions and operators of his own
before those of the system or, where they fit an expression better, beside them. They would run with
the rights of the role that connects, a superuser for example. So every session of pgdyno's own is
opened by ``open_control``, whose first statement makes names without a schema those of pg_catalog,
and SQL of pgdyno names the schema of everything else. Policies of row security are not executed
either: a table that has them for this role is an error. Only ``open_plain`` leaves both as they
are, for poolers, where a setting would reach other clients, and for statements of the user's.

This module imports psycopg, so it is imported only where a connection is made.
"""

from __future__ import annotations

import logging
import os
import resource
import socket
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from pgdyno.server.sql_files import query

# psycopg logs failed rollbacks on broken connections; the error itself is reported.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
_Answer = TypeVar("_Answer")
_QUIET_S = 4.0
ANSWER_BYTES_MAX = 64 << 20
"""Memory that an answer may take; the longest that pgdyno asks for, texts of statements or tables
of a large database, take a quarter of it."""
_READS_BETWEEN_LOOKS = 4
_SLOW_S = 1.0
_NOTICES_MAX = 100_000
_PATIENCES_MAX = 2
"""Time of a whole answer, in multiples of ``patience_s``."""
_RECEIVE_BYTES = 64 << 10
"""Buffer of the socket: libpq also reads data that arrive while it reads, before they are seen."""
_MISREAD = (AssertionError, IndexError, KeyError, TypeError, ValueError)
"""Errors of code that reads rows, when they have another form than the query."""
_IDLE_CHECKS = 2
_STATM = Path("/proc/self/statm")
_CONNECT_S = 3
_PIN = b"set search_path = pg_catalog, pg_temp; set row_security = off"
_PIN_LOCAL = (
    b"set local search_path = pg_catalog, pg_temp; set local row_security = off;"
    b" set local idle_in_transaction_session_timeout = 0"
)
_PIN_JIT = b"set local jit = off"
"""Compiling takes longer than any query of catalogs, and those are compiled that need a method
which is off, such as enable_sort, or all with jit_above_cost = 0."""
PINNED = frozenset(("search_path", "row_security"))
"""Settings of which a session of pgdyno's has a value of its own."""
_USER_PATH = "select pg_catalog.current_schemas(false), pg_catalog.current_setting('search_path')"
_TEXT_OIDS = (25, 19, 1043, 1042, 18, 705)
"""text, name, varchar, bpchar, "char", unknown: pg_type.dat of PostgreSQL."""


class _TolerantLoader(Loader):
    """Loader of text values; escapes bytes that do not decode."""

    def load(self, data: Buffer) -> str:
        """Return the decoded text."""
        encoding = self.connection.info.encoding if self.connection else "utf-8"
        return bytes(data).decode(encoding, "backslashreplace")


class Control(psycopg.Connection[Any]):
    """A connection for everything except the load."""

    patience_s: float | None = None
    """Time without data after which it gives up, where statement_timeout ends each statement
    earlier; None: it waits as long as the server is at work, or may be."""
    notices = 0
    """Number of notices received."""
    _found: tuple[list[str], str] | None = None

    def __exit__(self, kind: Any, problem: BaseException | None, traceback: Any) -> None:
        """Close the connection; raise InvalidAnswerError if an answer could not be read."""
        super().__exit__(kind, problem, traceback)
        if isinstance(problem, _MISREAD):
            said = f"{type(problem).__name__}: {problem}"
            raise InvalidAnswerError(f"the answer has an unexpected form ({said})") from problem

    def count_notice(self, _: psycopg.errors.Diagnostic) -> None:
        """Count a notice."""
        self.notices += 1

    @property
    def user_schemas(self) -> tuple[str, ...]:
        """The schemas in which statements of the user's find names without a schema, in order; new
        tables are made in the first. Raises psycopg.Error."""
        return tuple(self._of_user[0])

    @property
    def user_path(self) -> str:
        """The search_path of statements of the user's. Raises psycopg.Error."""
        return self._of_user[1]

    @property
    def _of_user(self) -> tuple[list[str], str]:
        """Ask in a second session, which has the search_path of role and database."""
        if self._found is None:
            with open_plain(self._values()) as other:
                self._found = other.execute(_USER_PATH).fetchone()
            assert self._found is not None
        return self._found

    def _values(self) -> dict[str, Any]:
        """Return libpq's parameters for another session like this one."""
        values: dict[str, Any] = {**self.info.get_parameters(), "password": self.info.password}
        same = {"dbname": self.info.dbname, "target_session_attrs": "any"}
        return values | same | {"connect_timeout": _CONNECT_S}

    def wait(self, gen: Generator[Any, Any, _Answer], *given: Any, **named: Any) -> _Answer:
        """Wait as psycopg does; raise psycopg.OperationalError for an invalid or lost answer."""
        try:
            return super().wait(self._watched(gen), *given, **named)
        except psycopg.Error:
            raise
        except Exception as problem:
            self.close()
            raise InvalidAnswerError(f"the server's answer is not valid: {problem}") from None

    def _watched(self, gen: Generator[Any, Any, _Answer]) -> Generator[Any, Any, _Answer]:
        """Run ``gen``, and check the session's state while no data arrives."""
        quiet_since_s, idle_checks = time.monotonic(), 0
        flood = _Flood(self)
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now_s = time.monotonic()
                if ready:
                    quiet_since_s, idle_checks = now_s, 0
                    if flood.overflows():
                        self.close()
                        raise InvalidAnswerError("the answer does not end")
                elif self.patience_s is not None:
                    self._give_up_after(now_s - quiet_since_s)
                elif now_s - quiet_since_s > _QUIET_S * (idle_checks + 1):
                    idle_checks = idle_checks + 1 if self._is_idle() else 0
                    quiet_since_s = quiet_since_s if idle_checks else now_s
                    if idle_checks >= _IDLE_CHECKS:
                        self.close()
                        raise psycopg.OperationalError(
                            "the server has answered, but the answer did not arrive completely"
                        )
                wanted = gen.send(ready)
        except StopIteration as end:
            answer: _Answer = end.value
            return answer

    def _give_up_after(self, quiet_s: float) -> None:
        """Raise psycopg.OperationalError if there were no data for longer than ``patience_s``."""
        if self.patience_s is not None and quiet_s > self.patience_s:
            self.close()
            raise psycopg.OperationalError(
                f"no answer for {self.patience_s:g} s: the server hangs, or the network"
            )

    def _is_idle(self) -> bool:
        """True if the server waits for input from this session, according to a second session."""
        try:
            with (
                _ImpatientControl.connect(autocommit=True, **self._values()) as other,
                names_of_catalog(other),
            ):
                state = other.execute(
                    query("server", "session_state"), [self.info.backend_pid]
                ).fetchone()
        except Exception:
            return False
        return state is not None and bool(state[0])


class InvalidAnswerError(psycopg.OperationalError):
    """The error for an answer that no PostgreSQL server gives."""

    sqlstate = "08P01"  # protocol_violation


class _Flood:
    """Looks at an answer while it arrives: whether it takes too much memory, or time."""

    def __init__(self, connection: Control) -> None:
        patience_s = connection.patience_s
        self._connection = connection
        self._notices = connection.notices
        self._ends_s: float | None = None
        if patience_s is not None:
            self._ends_s = time.monotonic() + _PATIENCES_MAX * patience_s
        self._memory_bytes = 0
        self._looked_s = 0.0
        self._reads = 0

    def overflows(self) -> bool:
        """Count a read; return whether the answer is too long."""
        self._reads += 1
        if self._reads % _READS_BETWEEN_LOOKS != 1:
            return False
        now_s = time.monotonic()
        if self._ends_s is not None and now_s > self._ends_s:
            return True
        if self._connection.notices - self._notices > _NOTICES_MAX:
            return True
        taken_bytes = _resident_bytes()
        if now_s - self._looked_s > _SLOW_S:
            # The first look; or a slow answer, while other threads may have taken memory.
            self._memory_bytes = taken_bytes
        self._looked_s = now_s
        return taken_bytes - self._memory_bytes > ANSWER_BYTES_MAX


def _resident_bytes() -> int:
    """Return the memory of this process; 0 where the system does not tell."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


class _ImpatientControl(Control):
    """A connection that gives up after a few seconds without data."""

    def _watched(self, gen: Generator[Any, Any, _Answer]) -> Generator[Any, Any, _Answer]:
        give_up_s = time.monotonic() + _CONNECT_S
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > give_up_s:
                    raise psycopg.OperationalError("no answer in time")
                wanted = gen.send(ready)
        except StopIteration as end:
            answer: _Answer = end.value
            return answer


def open_control(values: Mapping[str, Any], **more: Any) -> Control:
    """Open a session of pgdyno's own in autocommit mode, by libpq's parameters ``values``; ``more``
    are arguments of psycopg's. Names without a schema are those of pg_catalog. Raises
    psycopg.Error."""
    connection = open_plain(values, **more)
    try:
        connection.execute(_PIN)
    except BaseException:
        connection.close()
        raise
    return connection


def open_plain(values: Mapping[str, Any], **more: Any) -> Control:
    """Open a session as ``open_control`` does, with names, and all else, as the role has them."""
    connection = Control.connect(autocommit=True, **values, **more)
    connection.add_notice_handler(connection.count_notice)
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
    _accept_any_encoding(connection)
    return connection


@contextmanager
def names_of_catalog(conn: psycopg.Connection[Any], *, keeps_jit: bool = False) -> Iterator[None]:
    """Within the block, a transaction, a plain session has the names of ``open_control``, and
    compiles no queries unless it ``keeps_jit``; nothing stays set, so that a pooler has
    nothing to pass on."""
    with conn.transaction():
        conn.execute(_PIN_LOCAL)
        if not keeps_jit:
            conn.execute(_PIN_JIT)
        yield


def _accept_any_encoding(connection: psycopg.Connection[Any]) -> None:
    """Make the connection read text values whatever their encoding."""
    for oid in _TEXT_OIDS:
        connection.adapters.register_loader(oid, _TolerantLoader)
    if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
        connection.execute("set client_encoding = 'latin1'")
