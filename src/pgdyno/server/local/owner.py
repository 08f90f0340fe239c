"""The role on a server of pgdyno's that owns the database of a load, and has no other rights.

It executes what others wrote: a superuser could read and write files, and start programs, with the
rights of the account that runs the server. The schema public stays the superuser's: its owner could
put objects of his own in the place of those that pgdyno makes and uses there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.sql_files import query

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

OWNER = "pgdyno_owner"
_OF_ROLE = "alter role {} in database {} "
_ROLE = "select from pg_roles where rolname = %s"


def make_owner(server: ConnInfo) -> ConnInfo:
    """Make the role on a server that ``server`` connects to as superuser, unless it has it; return
    connection values of the role."""
    with connect(server) as connection:
        if not _is_there(connection):
            connection.execute(query("server", "make_owner"))
    return replace(server, user=OWNER)


def owner_of(server: ConnInfo) -> ConnInfo | None:
    """Return connection values of the role; None if the server does not have it."""
    with connect(server) as connection:
        is_there = _is_there(connection)
    return replace(server, user=OWNER) if is_there else None


def _is_there(connection: Control) -> bool:
    return connection.execute(_ROLE, [OWNER]).fetchone() is not None


@contextmanager
def owner_has(server: ConnInfo, settings: Mapping[str, str]) -> Iterator[None]:
    """Give sessions of the role that begin in the block, on a server that ``server`` connects to as
    superuser, settings that only a superuser may set. They keep them. Raises psycopg.Error where
    the server refuses one."""
    from psycopg import sql

    of_role = sql.SQL(_OF_ROLE).format(sql.Identifier(OWNER), sql.Identifier(server.database))
    with connect(server) as connection:
        try:
            for name, value in settings.items():
                setting = sql.SQL("set {} = {}").format(sql.Identifier(name), sql.Literal(value))
                connection.execute(of_role + setting)
            yield
        finally:
            for name in settings:
                connection.execute(of_role + sql.SQL("reset {}").format(sql.Identifier(name)))


def owner_by_tcp(server: ConnInfo, tcp: ConnInfo) -> ConnInfo:
    """Return connection values of the role for TCP, where it needs a password: it gets that of
    ``tcp``, with which the superuser connects."""
    from psycopg import sql

    with connect(server) as connection:
        statement = sql.SQL("alter role {} password {}")
        connection.execute(statement.format(sql.Identifier(OWNER), sql.Literal(tcp.password)))
    return replace(tcp, user=OWNER)
