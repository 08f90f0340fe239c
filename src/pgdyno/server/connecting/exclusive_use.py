"""Exclusive use of a server: two runs that load it at the same time would measure each other.

A run on an existing server holds an advisory lock in separate sessions until it ends, also by
kill -9 or a broken connection. An advisory lock is local to a database, so it is taken in two: the
database under load, and ``postgres``, to which nearly every role may connect (else ``pgdyno``). Two
runs exclude each other unless they load different databases and share neither of these.

The sessions connect to the server directly: a pooler would assign them to other clients.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pgdyno.errors import PgdynoError, SetupError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import OWN_NAME, ConnInfo
from pgdyno.server.sql_files import query

if TYPE_CHECKING:
    import psycopg

KEY = int.from_bytes(b"pgdyno", "big")
GOVERNOR_KEY = int.from_bytes(b"govern", "big")
SESSIONS = 2
"""The maximum number of connections used."""
_COMMON = ("postgres", OWN_NAME)
_NAMED = "pgdyno lock of "
"""Beginning of the application_name of a session with a lock."""
_POLL_S = 0.5
_NAME_BYTES_MAX = 63
_UNLIMITED = "-c idle_session_timeout=0 -c statement_timeout=0"
"""Session options, which override those of the role and the database."""
_KEEPALIVE = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3"}


@contextmanager
def exclusive_use(
    conninfo: ConnInfo, *, wait_ms: int, note: Callable[[str], None]
) -> Iterator[None]:
    """Exclude other pgdyno runs from the server of ``conninfo`` within the block.

    Waits for another run and passes a message about it to ``note``. Raises SetupError with its
    identity if it has not ended after ``wait_ms``.
    """
    give_up_s = time.monotonic() + wait_ms / 1000
    with ExitStack() as held:
        # All runs lock in the same order, so that no two wait for each other.
        for session in _lock_sessions(conninfo, held):
            _lock(session, give_up_s, wait_ms, note)
        yield


@contextmanager
def sole_governor(conninfo: ConnInfo) -> Iterator[tuple[psycopg.Connection, ...]]:
    """Be the only governor of the server within the block; returns the sessions with the lock.

    The lock is apart from that of runs, which a governor does not disturb. Raises SetupError that
    names the other governor, if there is one.
    """
    with ExitStack() as held:
        sessions = []
        for session in _lock_sessions(conninfo, held):
            if not _try_lock(session, GOVERNOR_KEY):
                raise _governed(session)
            sessions.append(session)
        yield tuple(sessions)


def _governed(session: psycopg.Connection) -> SetupError:
    """Return the error for a governor's lock that is held: by a governor, or by anybody else, as
    every role that may connect can take it."""
    row = session.execute(query("server", "lock_holder"), {"key": GOVERNOR_KEY}).fetchone()
    if row is None or row[1].startswith(_NAMED):
        return SetupError(
            f"another governor is at work on this server: {_in_words(row)}",
            code="governor-running",
            hint="one daemon serves all loaders and processes: let them ask that one",
        )
    backend, name, *_ = row
    return SetupError(
        f"the lock of governors is held in the database {session.info.dbname}, by a session that is"
        f' no governor to judge by its application_name "{name}": {_in_words(row)}',
        code="governor-lock-taken",
        hint="every role that may connect can take it; if that session is none of yours, end it:"
        f" SELECT pg_terminate_backend({backend})",
    )


def _lock_sessions(conninfo: ConnInfo, held: ExitStack) -> Iterator[psycopg.Connection]:
    """Yield a session in each database where the lock is taken."""
    for database in _COMMON:
        if database == conninfo.database:
            break
        try:
            yield held.enter_context(_session(replace(conninfo, database=database)))
            break
        except PgdynoError:
            continue  # It does not exist, or this role may not connect to it.
    yield held.enter_context(_session(conninfo))


def _session(conninfo: ConnInfo) -> psycopg.Connection:
    name = f"{_NAMED}process {os.getpid()} on {socket.gethostname()}"
    shown = "".join(letter if letter.isprintable() else "?" for letter in name)
    name = shown.encode("ascii", "replace")[:_NAME_BYTES_MAX].decode()
    given = f"{conninfo.options.get('options', '')} {_UNLIMITED}".strip()
    options = {**_KEEPALIVE, **conninfo.options, "options": given, "application_name": name}
    return connect(replace(conninfo, options=options))


def _lock(
    session: psycopg.Connection, give_up_s: float, wait_ms: int, note: Callable[[str], None]
) -> None:
    noted = False
    while not _try_lock(session):
        if time.monotonic() >= give_up_s:
            raise _refused(session, wait_ms)
        if not noted:
            noted = True
            note(f"waiting up to {wait_ms / 1000:g} s for {_holder(session)} to leave the server")
        time.sleep(_POLL_S)


def _try_lock(session: psycopg.Connection, key: int = KEY) -> bool:
    import psycopg

    try:
        row = session.execute(query("server", "take_lock"), {"key": key}).fetchone()
    except psycopg.Error as error:
        message = (error.diag.message_primary or str(error)).strip()
        raise SetupError(
            f"the lock against other pgdyno runs cannot be acquired: {message}", code="turn"
        ) from None
    assert row is not None
    return bool(row[-1])


def _refused(session: psycopg.Connection, wait_ms: int) -> SetupError:
    waited = f" (waited {wait_ms / 1000:g} s)" if wait_ms else ""
    return SetupError(
        f"another pgdyno is loading this server{waited}: {_holder(session)}",
        code="server-in-use",
        hint="two at once would measure each other; let it end, or wait longer with --server-wait",
    )


def _holder(session: psycopg.Connection) -> str:
    return _in_words(session.execute(query("server", "lock_holder"), {"key": KEY}).fetchone())


def _in_words(holder: tuple[Any, ...] | None) -> str:
    if holder is None:
        return "another pgdyno"
    backend, name, role, address, since = holder
    who = name.removeprefix(_NAMED) or "a session without a name"
    place = f" from {address}" if address else ""
    begun = f" since {since}" if since else ""
    return f"{who}, as {role or 'a role'}{place}{begun} (backend {backend})"
