"""Connections to a server, with clear errors when they fail.

libpq decides which server is meant: keywords, URIs, PG* variables, service and password files are
resolved by psycopg once, and all other code uses the resolved values.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pgdyno.errors import SetupError
from pgdyno.server.connecting._hosts import attempts, goes_on, servers_of, spelled_out
from pgdyno.server.connecting.complaints import (
    connect_error,
    connection_failed,
    hint_for,
    malformed,
    misread,
    one_line,
    password_missing,
    primary,
    wrong_value,
)
from pgdyno.server.connecting.conninfo import OWN_NAME, ConnInfo, Host, path_option
from pgdyno.server.connecting.marks import PLAIN, mark
from pgdyno.spec.sql_text import quoted

if TYPE_CHECKING:
    import psycopg

    from pgdyno.server.connecting.control import Control

_Params = dict[str, str | int | None]
"""libpq's parameters by keyword."""

_TIMEOUT_S = 10
FIRST_PATIENCE_S = 8.0
"""Time without an answer to a first question, of a moment, after which a server is given up."""
_PORT = 5432
_RESOLVED = ("host", "hostaddr", "port", "user", "dbname", "service", "passfile", "password")
_UNSUPPORTED = (  # parameter, values (None: any), hint
    ("gssencmode", ("require",), "use TLS instead: sslmode=require"),
    ("requirepeer", None, "leave it out"),
    ("sslcrldir", None, "put the lists into one file and name it with sslcrl"),
    ("sslcertmode", ("require",), "leave it out: a certificate is sent when the server asks"),
    ("ssl_max_protocol_version", ("TLSv1", "TLSv1.1"), "TLSv1.2 and TLSv1.3 are supported"),
)
_ELSEWHERE_TOO = ("no-server", "no-host", "tls-files")
"""Codes of errors that are the same for every database of the server."""


def connect(conninfo: ConnInfo, *, patience_s: float | None = None) -> Control:
    """Return a control connection in autocommit mode, in which names without a schema are those of
    pg_catalog (see ``control``); SetupError if it cannot be made.

    ``patience_s`` is the time without data after which it gives up (see ``control.Control``).
    """
    from pgdyno.server.connecting.control import open_control

    connection = _connect(conninfo.kwargs(), open_control)
    connection.patience_s = patience_s
    return connection


def connect_plain(conninfo: ConnInfo, *, patience_s: float | None = None) -> Control:
    """Return a connection that finds names as the role does, and sets nothing: to what may be a
    pooler, or for statements of the user's alone. SetupError if it cannot be made."""
    connection = _connect(conninfo.kwargs())
    connection.patience_s = patience_s
    return connection


def catalog_first(conninfo: ConnInfo) -> ConnInfo:
    """Return connection values for a load of pgdyno's own statements, which find the system's
    functions and operators before others of the same types, where the search_path of role or
    database says otherwise. Not for poolers, which do not pass it on."""
    with connect(conninfo) as conn:
        schemas = conn.user_schemas
    if "pg_catalog" not in schemas[1:]:
        return conninfo
    path = path_option(("pg_catalog", *(each for each in schemas if each != "pg_catalog")))
    options = f"{conninfo.options.get('options', '')} {path}".strip()
    return replace(conninfo, options={**conninfo.options, "options": options})


def resolve_conninfo(
    text: str | None = None,
    *,
    host: str | None = None,
    port: int | str | None = None,
    user: str | None = None,
    database: str | None = None,
) -> ConnInfo:
    """Resolve a conninfo string or URI, flags, environment and files by libpq; connects once.

    Flags override ``text``. Without a database name, pgdyno's own database is used or, until that
    exists, ``postgres``. Raises UsageError for a malformed string, SetupError when the server does
    not answer or refuses, or for a parameter that the load engine does not support.
    """
    flags = {"host": host, "port": port, "user": user, "dbname": database}
    params = parse_conninfo(text) | {
        name: value for name, value in flags.items() if value is not None
    }
    _refuse_unsupported(params)
    default = None if params.get("dbname") else _default_database(params)
    if default is not None:
        params["dbname"] = default
    params = spelled_out(params)
    # The load engine has no GSSAPI.
    without = {"gssencmode": "disable"} if params.get("gssencmode") != "require" else {}
    way = _connect_own if params.get("dbname") == OWN_NAME else _connect
    conn = way({**params, **without})
    with conn:
        _refuse_old(conn.info.server_version)
        return replace(_resolved(conn, params), database_named=default is None)


def own_database(conninfo: ConnInfo, unbegun: ExitStack) -> ConnInfo:
    """Return the same server with the database ``pgdyno``, which is created if missing.

    ``unbegun`` then drops it when it unwinds. Raises SetupError if the role may not create it.
    """
    import psycopg
    from psycopg import sql

    if conninfo.database == OWN_NAME:
        return conninfo
    with connect(conninfo) as conn:
        if not _has_own(conn):
            try:
                conn.execute(sql.SQL("create database {}").format(sql.Identifier(OWN_NAME)))
                unbegun.callback(_drop_own, conninfo)
                mark(conn, "database", [(OWN_NAME,)], PLAIN)
            except psycopg.errors.DuplicateDatabase:
                pass
            except psycopg.Error as error:
                grant = f"as a superuser: CREATE DATABASE {OWN_NAME} OWNER {quoted(conninfo.user)}"
                raise SetupError(
                    f"the database {OWN_NAME} cannot be created: {primary(error)}",
                    code="no-own-database",
                    hint=grant if error.sqlstate == "42501" else hint_for(error) or grant,
                ) from None
    return replace(conninfo, database=OWN_NAME)


def _drop_own(conninfo: ConnInfo) -> None:
    """Drop the database ``pgdyno``, unless it is in use or the server is not available."""
    import psycopg

    with suppress(SetupError, psycopg.Error), connect(conninfo) as conn:
        conn.execute(f"drop database if exists {OWN_NAME}".encode())


def _connect_own(params: _Params) -> Control:
    """Connect to pgdyno's own database, or to ``postgres`` if that does not exist.

    Its existence is checked in ``postgres``: a pooler that failed to connect to a missing database
    refuses it for some time, also after it has been created.
    """
    import psycopg

    try:
        with _connect({**params, "dbname": "postgres"}) as conn:
            conn.patience_s = FIRST_PATIENCE_S
            there = _has_own(conn)
    except psycopg.Error as error:
        raise connection_failed(f"{conn.info.host}:{conn.info.port}", error) from None
    except SetupError as problem:
        if problem.code in _ELSEWHERE_TOO:
            raise
        # The role may not connect to it.
        there = True
    return _connect({**params, "dbname": OWN_NAME if there else "postgres"})


def _has_own(conn: psycopg.Connection) -> bool:
    from pgdyno.server.connecting.control import names_of_catalog

    with names_of_catalog(conn):
        asked = conn.execute("select from pg_database where datname = %s", [OWN_NAME])
        return asked.fetchone() is not None


def _connect(
    params: _Params, opened: Callable[[Mapping[str, Any]], Control] | None = None
) -> Control:
    """Connect, by ``control.open_plain`` if ``opened`` is not given; SetupError if that fails."""
    import psycopg

    from pgdyno.server.connecting.control import open_plain

    values: dict[str, Any] = {"application_name": "pgdyno control", **params}
    if not os.environ.get("PGCONNECT_TIMEOUT"):
        values.setdefault("connect_timeout", _TIMEOUT_S)
    refused: psycopg.OperationalError | None = None
    try:
        for attempt in attempts(values):
            try:
                return (opened or open_plain)(attempt)
            except psycopg.OperationalError as error:
                refused = error
                if not goes_on(str(error)):
                    break
    except psycopg.ProgrammingError as error:
        raise wrong_value(str(error)) or malformed(one_line(str(error)), "") from None
    except psycopg.Error as error:  # A time limit of the role may end the first statement.
        raise connect_error(str(error), params) from None
    except UnicodeError as error:  # An empty or too long label; psycopg resolves names by IDNA.
        raise connect_error(f"failed to resolve host: {error}", params) from None
    assert refused is not None, "there is at least one attempt"
    if getattr(refused.pgconn, "needs_password", False):
        raise password_missing(str(refused), params) from None
    raise connect_error(str(refused), params) from None


def parse_conninfo(text: str | None) -> _Params:
    """Return the parameters of a conninfo string or URI; a bare word is a database, as in psql.

    Raises UsageError, which quotes no part of ``text`` that may be a password.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    if not text:
        return {}
    try:
        text.encode()
        if "=" not in text and "://" not in text and not text.lower().startswith("jdbc:"):
            return {"dbname": text}
        params: _Params = {**conninfo_to_dict(text)}
        complaint = misread(text) or _wrong_port(str(params.get("port", "")))
    except psycopg.ProgrammingError as error:
        complaint = one_line(str(error))
    except UnicodeError:  # In the text itself, or in what its %XX stand for.
        complaint = "it is not UTF-8"
    if complaint:
        raise malformed(complaint, text)
    return params


def _wrong_port(ports: str) -> str | None:
    """Return an error for a list of ports, or ``None``; libpq's would name the host instead."""
    for port in filter(None, ports.split(",")):
        if not port.isdecimal() or not 0 < int(port) < 65536:
            return f'"{port}" is not a port'
    return None


def _default_database(params: _Params) -> str | None:
    """Return pgdyno's own, unless the environment or a service file may name another."""
    if any(os.environ.get(name) for name in ("PGDATABASE", "PGSERVICE")) or "service" in params:
        return None
    return OWN_NAME


def _refuse_unsupported(effective: Mapping[str, object]) -> None:
    """Raise SetupError for parameters that the load engine or psycopg does not support."""
    if str(effective.get("host") or "").startswith("@"):
        raise SetupError(
            f"host={effective['host']}: a socket without a file is not supported",
            code="connection-unsupported",
            hint="unix_socket_directories of the server can have a directory as well",
        )
    for name, values, hint in _UNSUPPORTED:
        value = effective.get(name)
        if value and (values is None or value in values):
            raise SetupError(
                f"{name}={value}: the load engine does not support this",
                code="connection-unsupported",
                hint=hint,
            )


def _refuse_old(version_num: int) -> None:
    if version_num < 140000:
        # Before version 10 the first two numbers were the major version.
        minor = f".{version_num // 100 % 100}" if version_num < 100000 else ""
        raise SetupError(
            f"PostgreSQL {version_num // 10000}{minor} is too old",
            code="pg-version",
            hint="pgdyno supports PostgreSQL 14 and newer",
        )


def _resolved(conn: psycopg.Connection, params: _Params) -> ConnInfo:
    info = conn.info
    effective = info.get_parameters()
    _refuse_unsupported(effective)
    # Values that connect() adds are kept as the user wrote them, not as this connection has them.
    options = {
        name: value
        for name, value in effective.items()
        if name not in (*_RESOLVED, "connect_timeout", "application_name", "gssencmode")
        and (name, value) != ("sslcertmode", "allow")  # libpq's default, which it fills in
    }
    unsaid = (*_RESOLVED, "application_name")  # pgdyno's sessions are recognised by their names.
    options |= {name: str(value) for name, value in params.items() if name not in unsaid}
    hosts = tuple(
        Host(name, each.get("hostaddr") or None, int(each.get("port") or _PORT))
        for each in servers_of(_lists(params, effective))
        if (name := each.get("host") or each.get("hostaddr"))
    )
    taken = next((h for h in hosts if (h.host, h.port) == (info.host, info.port)), None)
    return ConnInfo(
        host=info.host,
        hostaddr=taken.hostaddr if taken else None,
        hosts=hosts if len(hosts) > 1 else (),
        port=info.port,
        user=_as_given(conn.pgconn.user),
        password=_as_given(conn.pgconn.password) or None,
        database=_as_given(conn.pgconn.db),
        options=options,
        version=info.server_version,
        server_encoding=info.parameter_status("server_encoding"),
        encrypted=conn.pgconn.ssl_in_use,
    )


def _as_given(value: bytes | None) -> str:
    """Decode a value as given to libpq: psycopg passes UTF-8 in every session encoding."""
    return (value or b"").decode("utf-8", "replace")


def _lists(params: _Params, effective: Mapping[str, str]) -> dict[str, str]:
    """Return libpq's lists of hosts, addresses and ports as they were given: the connection knows
    only the one server that it was made to."""
    given = {name: str(params.get(name) or "") for name in ("host", "hostaddr", "port")}
    if not any("," in given[name] for name in ("host", "hostaddr")):
        return {name: effective.get(name, "") for name in given}
    return {**given, "port": given["port"] or effective.get("port", "")}
