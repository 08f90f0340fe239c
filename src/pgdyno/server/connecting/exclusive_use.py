"""One pgdyno at a time on a server: two that load it measure each other.

Whoever loads a server that is there holds an advisory lock on sessions of its own until it ends;
kill -9 and a broken connection end it too. Such a lock belongs to a database, so it is taken in
two: the one under load, and ``postgres``, which nearly every role may enter (``pgdyno`` where this
one may not). Two runs meet unless they load different databases and share neither of these.

The sessions go to the server itself, past a pooler, which would lend them to others.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pgdyno.errors import PgdynoError, SetupError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import OWN_NAME, ConnInfo
from pgdyno.server.queries import query

if TYPE_CHECKING:
    import psycopg

KEY = int.from_bytes(b"pgdyno", "big")
SESSIONS = 2
"""The most connections that it takes."""
_COMMON = ("postgres", OWN_NAME)
_LOOK_EVERY_S = 0.5
_NAME_BYTES_MAX = 63
_UNLIMITED = "-c idle_session_timeout=0 -c statement_timeout=0"
"""At the start of a session it overrules what the role or the database is given."""
_KEEPALIVE = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3"}


@contextmanager
def exclusive_use(
    conninfo: ConnInfo, *, wait_ms: int, note: Callable[[str], None]
) -> Iterator[None]:
    """While inside, no other pgdyno loads the server of ``conninfo``.

    Another one is waited for, which ``note`` is told; raises SetupError if it is still there after
    ``wait_ms``, with who it is.
    """
    give_up_s = time.monotonic() + wait_ms / 1000
    with ExitStack() as held:
        # Everybody goes in the same order, so that no two wait for each other.
        for place in _places(conninfo, held):
            _take(place, give_up_s, wait_ms, note)
        yield


def _places(conninfo: ConnInfo, held: ExitStack) -> Iterator[psycopg.Connection]:
    """Sessions in the databases where the lock is taken."""
    for database in _COMMON:
        if database == conninfo.database:
            break
        try:
            yield held.enter_context(_session(replace(conninfo, database=database)))
            break
        except PgdynoError:
            continue  # It is not there, or not for this role.
    yield held.enter_context(_session(conninfo))


def _session(conninfo: ConnInfo) -> psycopg.Connection:
    name = f"pgdyno lock of process {os.getpid()} on {socket.gethostname()}"
    shown = "".join(letter if letter.isprintable() else "?" for letter in name)
    name = shown.encode("ascii", "replace")[:_NAME_BYTES_MAX].decode()
    given = f"{conninfo.options.get('options', '')} {_UNLIMITED}".strip()
    options = {**_KEEPALIVE, **conninfo.options, "options": given, "application_name": name}
    return connect(replace(conninfo, options=options))


def _take(
    session: psycopg.Connection, give_up_s: float, wait_ms: int, note: Callable[[str], None]
) -> None:
    told = False
    while not _taken(session):
        if time.monotonic() >= give_up_s:
            raise _refused(session, wait_ms)
        if not told:
            told = True
            note(f"waiting up to {wait_ms / 1000:g} s for {_holder(session)} to leave the server")
        time.sleep(_LOOK_EVERY_S)


def _taken(session: psycopg.Connection) -> bool:
    import psycopg

    try:
        row = session.execute(query("take_lock"), {"key": KEY}).fetchone()
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
    row = session.execute(query("lock_holder"), {"key": KEY}).fetchone()
    if row is None:
        return "another pgdyno"
    backend, name, role, address, since = row
    who = name.removeprefix("pgdyno lock of ") or "a session that this role may not see"
    place = f" from {address}" if address else ""
    return f"{who}, as {role}{place} since {since} (backend {backend})"
