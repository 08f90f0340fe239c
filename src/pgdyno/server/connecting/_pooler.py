"""Detection of a pooler, and a direct connection to the server behind it for all except the load.

A pooler in transaction mode (PgBouncer, PgCat, Odyssey and others) does not provide sessions.
Parameters that pgdyno's own sessions set, such as ``default_transaction_read_only``, would remain
on connections that clients get next. So set-up, probes and settings connect to the server directly,
and only the clients connect through the pooler.

A pooler is detected by its cancel key: its process ID differs from that of the backend that
answers. pgpool-II forwards the backend's own key and is not detected; it works in session mode, so
parameters end with their session.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.errors import PgdynoError, SetupError, UsageError
from pgdyno.server.connecting.complaints import connection_failed
from pgdyno.server.connecting.connect import (
    FIRST_PATIENCE_S,
    connect_plain,
    resolve_conninfo,
)
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.connecting.facts import postmaster_here
from pgdyno.server.sql_files import query

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

_TIMEOUT_S = 3
_LOOPBACK = ("127.0.0.1", "::1")
_HINT = (
    "name the server itself with --control: a pooler would pass the parameters that sessions of"
    " set-up and probes set on to the clients"
)


class _Answer(Struct, frozen=True):
    """The server that answered on one connection."""

    pooled: bool
    identity: str
    database: str
    addresses: tuple[tuple[str, int], ...]
    """Hosts and ports at which the server itself may be reachable from here."""


def server_behind(conninfo: ConnInfo, control: str | None) -> ConnInfo:
    """Return how to connect to the server directly where ``conninfo`` may go through a pooler.

    ``control`` is the user's conninfo string or URI for it (missing keywords are taken from
    ``conninfo``); without it, a server behind a pooler is queried for its addresses. Raises
    SetupError when no connection can be made, or only to another server.
    """
    answer = _query(conninfo)
    if control is not None:
        direct = _resolve_control(control, conninfo)
        if _query(direct).identity != answer.identity:
            raise SetupError(
                f"--control connects to a different server ({direct.uri_without_password}) than the"
                f" clients' connection string ({conninfo.uri_without_password})",
                code="control-elsewhere",
            )
        return direct
    if not answer.pooled:
        return conninfo
    return _find_direct(conninfo, answer)


def _resolve_control(control: str, conninfo: ConnInfo) -> ConnInfo:
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    who = {"user": conninfo.user, "password": conninfo.password, "dbname": conninfo.database}
    try:
        named = {name: value for name, value in conninfo_to_dict(control).items() if value}
    except ProgrammingError as problem:
        raise UsageError(f"--control: {str(problem).strip()}", code="conninfo") from None
    if named.get("user", conninfo.user) != conninfo.user:
        del who["password"]
    try:
        direct = resolve_conninfo(make_conninfo("", **(who | named)))
    except SetupError as problem:
        problem.message = f"--control: {problem.message}"
        raise
    if _query(direct).pooled:
        raise SetupError(
            f"--control connects to a pooler too ({direct.uri_without_password})",
            code="control-pooled",
            hint="--control must name the server itself",
        )
    return direct


def _find_direct(conninfo: ConnInfo, pooled: _Answer) -> ConnInfo:
    """Return the first address that connects to the same server without a pooler."""
    for host, port in pooled.addresses:
        options = {**conninfo.options, "connect_timeout": str(_TIMEOUT_S)}
        direct = replace(
            conninfo,
            host=host,
            hostaddr=None,
            port=port,
            hosts=(),
            database=pooled.database,
            options=options,
        )
        try:
            answer = _query(direct)
        except PgdynoError:
            continue
        if answer.identity == pooled.identity and not answer.pooled:
            return replace(direct, options=conninfo.options)
    tried = ", ".join(f"{host}:{port}" for host, port in pooled.addresses) or "nothing"
    raise SetupError(
        f"{conninfo.host}:{conninfo.port} is a pooler, and the server behind it cannot be reached"
        f" directly (tried {tried})",
        code="pooler",
        hint=_HINT,
    )


def _query(conninfo: ConnInfo) -> _Answer:
    import psycopg
    from psycopg.rows import dict_row

    from pgdyno.server.connecting.control import names_of_catalog

    try:
        with (
            connect_plain(conninfo, patience_s=FIRST_PATIENCE_S) as conn,
            names_of_catalog(conn),
            conn.cursor(row_factory=dict_row) as cursor,
        ):
            row = cursor.execute(query("server", "answering_server")).fetchone()
            assert row is not None
            return _Answer(
                pooled=row["backend_pid"] != conn.info.backend_pid,
                identity=row["identity"],
                database=row["database"],
                addresses=tuple(_addresses(conninfo, row)),
            )
    except psycopg.Error as error:
        raise connection_failed(f"{conninfo.host}:{conninfo.port}", error) from None


def _addresses(conninfo: ConnInfo, row: dict[str, object]) -> Iterator[tuple[str, int]]:
    """Yield possible addresses: the sockets if the server is on this machine, then its address."""
    port = int(str(row["port"]))
    if postmaster_here(int(str(row["backend_pid"])), conninfo.user, str(row["database"])):
        for directory in str(row["socket_directories"] or "").split(","):
            if directory.strip():
                yield directory.strip(), port
        yield "localhost", port
    elif (address := row["address"]) is not None and address not in _LOOPBACK:
        yield str(address), port
    if not conninfo.is_socket:
        # The server and its pooler may be on the same remote machine.
        yield conninfo.host, port


def keeps_prepared(conninfo: ConnInfo) -> bool:
    """Return False if a pooler passes a session with its prepared statements on to other clients.

    One connection prepares a statement, and another looks for its name: where both get the same
    session, and nobody keeps the names apart, it is there. A session that somebody else takes
    meanwhile hides that, so that True is no promise.
    """
    name = f"pgdyno_{secrets.token_hex(6)}"
    with connect_plain(conninfo) as one, connect_plain(conninfo) as other:
        one.pgconn.prepare(name.encode(), b"select 1")
        kept = not _drop_prepared(other, name)
        if kept:
            _drop_prepared(one, name)
        return kept


def _drop_prepared(conn: Control, name: str) -> bool:
    """Drop a prepared statement of the session that a pooler lends for a transaction; return
    whether it has it."""
    from pgdyno.server.connecting.control import names_of_catalog

    with names_of_catalog(conn):
        row = conn.execute(query("server", "is_prepared"), [name], prepare=False).fetchone()
        found = row is not None and bool(row[0])
        if found:
            conn.execute(f"deallocate {name}".encode())
        return found
