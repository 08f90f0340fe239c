"""Messages and hints for refusals by libpq, servers and poolers (PgBouncer, pgpool).

A malformed connection string is not quoted where it may contain a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pgdyno.errors import PgdynoError, SetupError, UsageError
from pgdyno.redact import BLANK, URI_HINT, withhold

if TYPE_CHECKING:
    import psycopg

_COMPLAINTS = (  # pattern of libpq's message → code, message, hint
    (
        r'database "[^"]+" does not exist',
        "no-database",
        "the database {database} does not exist",
        "createdb {database}, or name an existing one with -d",
    ),
    (
        r"service file|definition of service",
        "no-service",
        "{reason}",
        "services are in ~/.pg_service.conf, or in the file that PGSERVICEFILE names",
    ),
    (
        r"permission denied for database",
        "no-database-right",
        "{place}: {reason}",
        "as its owner: GRANT CONNECT ON DATABASE … TO the role",
    ),
    (
        r"not currently accepting connections",
        "closed-database",
        "{place}: {reason}",
        "ALTER DATABASE … ALLOW_CONNECTIONS true, or name another one with -d",
    ),
    (
        r"too many connections for",
        "connection-limit",
        "{place}: {reason}",
        "end sessions there, use fewer clients (-c), or raise the limit: ALTER ROLE or DATABASE …"
        " CONNECTION LIMIT",
    ),
    (
        r"too many clients|connection slots are reserved|no more connections allowed",
        "no-connection-left",
        "{place}: {reason}",
        "end sessions there, use fewer clients (-c), or raise the limit: max_connections, or"
        " max_client_conn of PgBouncer",
    ),
    (
        r"is not permitted to log in",
        "no-login",
        "{place}: {reason}",
        "ALTER ROLE … LOGIN, or name another user with -U",
    ),
    (
        r"(?:peer|ident) authentication failed",
        "wrong-user",
        "{place}: {reason}",
        "run pgdyno as that operating system user, or connect with -h localhost and a password",
    ),
    (
        r"database system is (?:starting up|shutting down|in recovery mode|not (?:yet )?accepting)",
        "server-starting",
        "{place}: {reason}",
        "wait until it is up; its log shows the progress",
    ),
    (
        r"backend nodes are down|server login (?:has been )?fail|cannot connect to server"
        r"|query_wait_timeout",
        "no-server-behind-pooler",
        "the pooler at {place} cannot reach its server: {reason}",
        "check that the server is running and accepts the pooler; the pooler's log says more",
    ),
    (
        r"unrecognized configuration parameter|invalid value for parameter"
        r"|invalid command-line argument",
        "startup-parameter",
        "{place}: {reason}",
        "options of the connection string, PGOPTIONS, or ALTER ROLE or DATABASE … SET sets it",
    ),
    (
        r"no such database: ",  # PgBouncer
        "no-pooler-database",
        'the pooler at {place} has no database "{database}"',
        "name another database with -d; workloads that create tables need one named pgdyno"
        " ([databases] in pgbouncer.ini)",
    ),
    (
        r"unsupported startup parameter",  # PgBouncer
        "startup-parameter",
        "{place}: {reason}",
        "remove it, or have the pooler ignore it (ignore_startup_parameters in pgbouncer.ini)",
    ),
    (
        r"received invalid response|expected authentication request|unsupported frontend protocol"
        r"|unexpected response",
        "no-postgres",
        "the server at {place} does not use PostgreSQL's protocol",
        "check the port",
    ),
    (
        r"could not (?:access file|load library)",
        "startup-library",
        "{place}: {reason}",
        "session_preload_libraries and local_preload_libraries must name libraries that are"
        " installed on the server",
    ),
    (
        r"Connection refused|No such file or directory",
        "no-server",
        "no PostgreSQL server answers at {place}",
        "is it running there? Without a server or database name, pgdyno starts its own server",
    ),
    (
        r"password authentication failed|auth(?:entication)? failed|no such user",
        "wrong-password",
        "{place}: {reason}",
        "PGPASSWORD or ~/.pgpass can supply the password",
    ),
    (
        r"no pg_hba.conf entry|pg_hba.conf rejects",
        "not-let-in",
        "{place}: {reason}",
        "pg_hba.conf on the server must allow this user, database and address; if it allows only"
        " encrypted connections, use sslmode=require",
    ),
    (
        r"SSL (?:connection is )?required|requires? (?:SSL|TLS)",
        "no-encryption",
        "{place} accepts only encrypted connections",
        "use sslmode=require, or verify-full with sslrootcert",
    ),
    (
        r"server does not support SSL",
        "no-encryption",
        "{place} has encryption turned off",
        "turn it on there (ssl = on), or use sslmode=prefer on a network that you trust",
    ),
    (
        r"certificate verify failed|certificate revoked|does not match host name",
        "wrong-certificate",
        "{place}: {reason}",
        "sslrootcert must name the authority that issued the server's certificate, and with"
        " sslmode=verify-full the host must be named as in the certificate",
    ),
    (
        r"root certificate file|certificate file|private key file|weak sslmode",
        "tls-files",
        "{reason}",
        "sslrootcert, sslcert and sslkey name the files",
    ),
    (
        r"could not translate host name|failed to resolve host",
        "no-host",
        "the host {host} is not known",
        "check its spelling, or give an address",
    ),
    (
        r"timeout expired|timed out",
        "no-server",
        "{place} does not answer",
        "check the address, the port and the firewall",
    ),
    (r'role "[^"]*" does not exist', "no-role", "{place}: {reason}", "name a user with -U"),
)
_WRONG_VALUE = (
    r"(?:invalid (?:integer value|port number:|[a-z_]+ value:|\"[a-z_]+\" value:)"
    r"|bad value for connect_timeout:|could not parse network address)"
    r""" ["']([^"']*)["']"""
)
_SECRET_VARIABLES = ("PGPASSWORD", "PGSSLPASSWORD")
_HINTS = {  # SQLSTATE or its class → hint, for pgdyno's own statements
    "25P04": "transaction_timeout of the role, the database or the server is too short for this:"
    " ALTER ROLE … SET transaction_timeout = 0",
    "25006": "a standby accepts no writes; on a primary, default_transaction_read_only is on for"
    " the role, the database or the server",
    "3F000": "search_path names no schema that the role may use: ALTER ROLE … RESET search_path; or"
    " as a superuser: GRANT USAGE, CREATE ON SCHEMA public TO the role",
    "42501": "as a superuser: GRANT USAGE, CREATE ON SCHEMA public TO the role",
    "53100": "free some space there, or choose a smaller scale with -s",
    "53200": "the server's machine is out of memory: reduce work_mem or shared_buffers",
    "53300": "end sessions there, use fewer clients (-c), or raise max_connections",
    "55P03": "another session holds a conflicting lock: end it, or wait",
    "57014": "statement_timeout of the role, the database or the server is too short for this:"
    " ALTER ROLE … SET statement_timeout = 0",
    "08P01": "this is no PostgreSQL server, or it is damaged, or something between: see its log",
    "57P": "the server was stopped or crashed: its log says why",
    "08": "the server was stopped or crashed, or the network failed: its log says more",
}
_HARMLESS = {"=", "user", "host", "port", "dbname", "password", "sslmode", "options"}
_QUOTED = r'"([^"]*)"'
_LIKENESS = 0.75
"""Similarity (``difflib``'s ratio) from which a word counts as a misspelt parameter."""
_NAMING = ("host", "dbname", "user", "service")


def connect_error(said: str, params: Mapping[str, object]) -> PgdynoError:
    """Return the error for libpq's message ``said``, in one line and with a hint."""
    names = _names(params)
    problem = _explained(said, params)
    problem.message = withhold(problem.message, names)
    if problem.hint and withhold(problem.hint, names) != problem.hint:
        problem.hint = URI_HINT
    return problem


def _names(params: Mapping[str, object]) -> list[str]:
    """Return the names that are withheld where they may contain a password."""
    return [str(value) for name in _NAMING if (value := params.get(name))]


def _place(said: str, params: Mapping[str, object]) -> str:
    """Return the address that libpq's message names, else the host that was asked for."""
    where = re.search(r'connection to server (?:at|on socket) "([^"]+)"(?:.*?, port (\d+))?', said)
    if where:
        return ":".join(part for part in where.groups() if part)
    return str(params.get("host") or "the server")


def _explained(said: str, params: Mapping[str, object]) -> PgdynoError:
    if problem := wrong_value(said):
        return problem
    database = re.search(r'database "([^"]+)" does not exist|no such database: (.+)', said)
    fields = {
        "place": _place(said, params),
        "reason": _reason(said),
        "host": params.get("host") or "the server",
        "database": (database[1] or database[2]) if database else "",
    }
    for pattern, code, message, hint in _COMPLAINTS:
        if re.search(pattern, said, re.IGNORECASE):
            return SetupError(message.format_map(fields), code=code, hint=hint.format_map(fields))
    return SetupError("{place}: {reason}".format_map(fields), code="connection-failed")


def wrong_value(said: str) -> PgdynoError | None:
    """Return the error for a parameter value that libpq rejects; ``None`` for other messages."""
    from psycopg.pq import Conninfo

    complaint = _reason(said)
    found = re.match(_WRONG_VALUE, complaint)
    if found is None:
        return None
    variables = (
        option.envvar.decode() for option in Conninfo.get_defaults() if option.envvar is not None
    )
    named = [
        name
        for name in variables
        if name not in _SECRET_VARIABLES and os.environ.get(name) == found[1]
    ]
    place = named[0] if named else "connection"
    source = f"{named[0]} in the environment" if named else "the connection string or service file"
    if found[1] in map(os.environ.get, _SECRET_VARIABLES):
        complaint = complaint.replace(found[1], BLANK)
    return UsageError(
        f"{place}: {complaint}",
        code="conninfo",
        hint=f"{source} sets it: remove it, or give it a value that libpq accepts",
    )


def password_missing(said: str, params: Mapping[str, object]) -> PgdynoError:
    """Return the error for a server that requires a password that was not given."""
    place = withhold(_place(said, params), _names(params))
    return SetupError(
        f"{place}: the server requires a password, and none is given",
        code="password-missing",
        hint="PGPASSWORD or ~/.pgpass can supply it; on a terminal, -W prompts for it",
    )


def malformed(complaint: str, text: str) -> UsageError:
    """Return the error for the connection string ``text`` that ``complaint`` is about.

    A hint that repeats a word of the text may be withheld.
    """
    scheme = re.match(r"[a-z][a-z0-9+.-]*(?=://)", text, re.IGNORECASE)
    hint = "write postgresql://user@host:5432/database or 'host=… port=… dbname=…'"
    if text.lower().startswith("jdbc:"):
        complaint = "a JDBC URL is no connection string of libpq"
        if "://" in text:
            hint = "leave out the jdbc: in front, and name parameters behind the ? as libpq does"
    elif scheme and scheme[0] not in ("postgresql", "postgres"):
        complaint = f"a PostgreSQL URI does not begin with {scheme[0]}://"
    else:
        quotable = _quotable_in_uri if scheme else _quotable_in_keywords
        complaint = re.sub(
            _QUOTED, lambda found: found[0] if quotable(found[1], text) else '"…"', complaint
        )
        if scheme and re.search(r"[@/%\s]", text.partition("://")[2].rpartition("@")[0]):
            hint = "before the last @, write %40 for @, %2F for /, %25 for % and %20 for a blank"
    return UsageError(f"connection: {complaint}", code="conninfo", hint=hint)


def misread(text: str) -> str | None:
    """Return the complaint about a URI that libpq reads as another one than was meant: to libpq the
    password ends at the first @, and the host at the next slash."""
    scheme, _, rest = text.partition("://")
    _, _, after = rest.partition("?")[0].partition("@")
    host, _, path = after.partition("/")
    meant = "@" in host[1:] or "/" in path.partition("@")[2]
    if scheme in ("postgresql", "postgres") and meant:
        return "libpq takes what follows the first @ for the address, and there is another one"
    return None


def _quotable_in_uri(part: str, uri: str) -> bool:
    """True if ``part`` of ``uri`` cannot belong to a password.

    Without ``@``, the user forgot either the password or the host, so any word may be the password.
    """
    if part in _HARMLESS:
        return True
    credentials, _, rest = uri.partition("://")[2].rpartition("@")
    if ":" in credentials:
        return part in rest and part not in credentials and "," not in rest
    return not credentials and not re.search(r":(?!\d{1,5}(?:[/,?]|$))", rest)


def _quotable_in_keywords(part: str, text: str) -> bool:
    """True if ``part`` of ``text`` is the name of a parameter, also misspelt, or a port."""
    from psycopg.pq import Conninfo

    if part in _HARMLESS:
        return True
    if "pass" in text.lower():
        return False
    known = [option.keyword.decode() for option in Conninfo.get_defaults()]
    return f"port={part}" in text or bool(get_close_matches(part, known, 1, _LIKENESS))


def connection_failed(where: str, error: psycopg.Error) -> SetupError:
    """Return the error for a first question to the server at ``where`` that has no answer."""
    return SetupError(f"{where}: {primary(error)}", code="connection-failed", hint=hint_for(error))


def hint_for(error: psycopg.Error) -> str | None:
    """Return a hint by the error's SQLSTATE, else the server's own hint."""
    state = error.sqlstate or "08"
    for known, hint in _HINTS.items():
        if state.startswith(known):
            return hint
    return error.diag.message_hint


def primary(error: psycopg.Error) -> str:
    """Return the message of the server, or of libpq, in one line."""
    return one_line(error.diag.message_primary or str(error))


def one_line(text: str) -> str:
    """Return the first line of a message, without its final period."""
    lines = [line.strip() for line in text.strip().splitlines()]
    return lines[0].removesuffix(".") if lines else "no reason given"


def _reason(said: str) -> str:
    """Return the reason without the address with which libpq begins its message."""
    tried = r"(?:connection (?:failed|is bad): )?(?:connection to server .*? failed: )?"
    server = rf"^{tried}(?:FATAL: +)?"
    return one_line(re.sub(server, "", said.strip()))
