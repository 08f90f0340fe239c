"""Control connections that survive whatever bytes a server sends.

Texts: catalogs hold names from databases of other encodings, and a database in SQL_ASCII holds any
bytes at all. What does not decode is shown as ``\\xe9``. In SQL_ASCII every byte is taken for a
character (LATIN1), so that a name that was read can be sent back as it was.

Silence: an answer of which a part was lost on its way keeps libpq waiting for ever. After a while
in which nothing comes, another session asks whether the server still works for this one.

Garbage: what is not the protocol, from a broken relay or a server that is none, ends in
psycopg.OperationalError, whatever the library raises on it.

Imports psycopg, so it is imported where a connection is made.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from pgdyno.server.queries import query

# psycopg logs what it cannot roll back on a connection that broke; the error itself is told.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
_Answer = TypeVar("_Answer")
_QUIET_S = 4.0
_IDLE_LOOKS = 2
_CONNECT_S = 3
_TEXT_OIDS = (25, 19, 1043, 1042, 18, 705)
"""text, name, varchar, bpchar, "char", unknown: pg_type.dat of PostgreSQL."""


class _Tolerant(Loader):
    """A text, with what does not decode escaped."""

    def load(self, data: Buffer) -> str:
        """The text."""
        encoding = self.connection.info.encoding if self.connection else "utf-8"
        return bytes(data).decode(encoding, "backslashreplace")


class Control(psycopg.Connection[Any]):
    """A connection for anything but the load."""

    def wait(self, gen: Generator[Any, Any, _Answer], *given: Any, **named: Any) -> _Answer:
        """As in psycopg; an answer that cannot be understood, or that was sent and never came, is
        psycopg.OperationalError."""
        try:
            return super().wait(self._watched(gen), *given, **named)
        except psycopg.Error:
            raise
        except Exception as problem:
            self.close()
            message = f"the server's answer is not valid: {problem}"
            raise psycopg.OperationalError(message) from None

    def _watched(self, gen: Generator[Any, Any, _Answer]) -> Generator[Any, Any, _Answer]:
        """``gen``, which is asked now and then while nothing comes."""
        quiet_since_s, idle_looks = time.monotonic(), 0
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now_s = time.monotonic()
                if ready:
                    quiet_since_s, idle_looks = now_s, 0
                elif now_s - quiet_since_s > _QUIET_S * (idle_looks + 1):
                    idle_looks = idle_looks + 1 if self._is_idle() else 0
                    quiet_since_s = quiet_since_s if idle_looks else now_s
                    if idle_looks >= _IDLE_LOOKS:
                        self.close()
                        raise psycopg.OperationalError(
                            "the server has answered, but the answer did not arrive completely"
                        )
                wanted = gen.send(ready)
        except StopIteration as end:
            answer: _Answer = end.value
            return answer

    def _is_idle(self) -> bool:
        """True if the server waits for this session to say something, by another one."""
        values: dict[str, Any] = {**self.info.get_parameters(), "password": self.info.password}
        values |= {"connect_timeout": _CONNECT_S, "dbname": self.info.dbname}
        try:
            with _Brief.connect(autocommit=True, **values) as other:
                state = other.execute(query("session_state"), [self.info.backend_pid]).fetchone()
        except Exception:
            return False
        return state is not None and bool(state[0])


class _Brief(Control):
    """A session that does not wait for long itself."""

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


def tolerate(connection: psycopg.Connection[Any]) -> None:
    """Have the connection read texts in whatever bytes the server has them."""
    for oid in _TEXT_OIDS:
        connection.adapters.register_loader(oid, _Tolerant)
    if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
        connection.execute("set client_encoding = 'latin1'")
