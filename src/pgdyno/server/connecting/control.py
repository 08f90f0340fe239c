"""Control connections that tolerate any bytes that a server sends.

Text: catalogs contain names from databases with other encodings, and a SQL_ASCII database contains
arbitrary bytes. Undecodable bytes are shown as ``\\xe9``. In SQL_ASCII every byte is read as a
LATIN1 character, so that a name can be sent back unchanged.

Silence: if part of an answer is lost on the network, libpq waits forever. After some seconds
without data, a second session checks whether the server is still working for this one.

Invalid messages: bytes that are not the protocol, for example from a broken proxy, raise
psycopg.OperationalError, whichever exception the library raises.

This module imports psycopg, so it is imported only where a connection is made.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from pgdyno.server.versioned_sql import query

# psycopg logs failed rollbacks on broken connections; the error itself is reported.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
_Answer = TypeVar("_Answer")
_QUIET_S = 4.0
_IDLE_CHECKS = 2
_CONNECT_S = 3
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

    def wait(self, gen: Generator[Any, Any, _Answer], *given: Any, **named: Any) -> _Answer:
        """Wait as psycopg does; raise psycopg.OperationalError for an invalid or lost answer."""
        try:
            return super().wait(self._watched(gen), *given, **named)
        except psycopg.Error:
            raise
        except Exception as problem:
            self.close()
            message = f"the server's answer is not valid: {problem}"
            raise psycopg.OperationalError(message) from None

    def _watched(self, gen: Generator[Any, Any, _Answer]) -> Generator[Any, Any, _Answer]:
        """Run ``gen``, and check the session's state while no data arrives."""
        quiet_since_s, idle_checks = time.monotonic(), 0
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now_s = time.monotonic()
                if ready:
                    quiet_since_s, idle_checks = now_s, 0
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
        values: dict[str, Any] = {**self.info.get_parameters(), "password": self.info.password}
        values |= {"connect_timeout": _CONNECT_S, "dbname": self.info.dbname}
        try:
            with _ImpatientControl.connect(autocommit=True, **values) as other:
                state = other.execute(query("session_state"), [self.info.backend_pid]).fetchone()
        except Exception:
            return False
        return state is not None and bool(state[0])


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


def accept_any_encoding(connection: psycopg.Connection[Any]) -> None:
    """Make the connection read text values whatever their encoding."""
    for oid in _TEXT_OIDS:
        connection.adapters.register_loader(oid, _TolerantLoader)
    if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
        connection.execute("set client_encoding = 'latin1'")
