"""The server named on the command line, as one connection string, with its password.

A server that only PG* variables name is not used, because many profiles set them for other programs
and a server must not be loaded by accident: a note says which option selects it. A password is
asked for once, on the terminal, without echo, and then kept in memory.
"""

from __future__ import annotations

import getpass
import os
import shlex
import signal
from typing import TYPE_CHECKING

from pgdyno.cli.positional import Positional, parse_positional
from pgdyno.cli.server_options import ConnectOptions
from pgdyno.errors import Interrupted, SetupError, UsageError

if TYPE_CHECKING:
    from pgdyno.spec import Spec

_TERMINAL = "/dev/tty"
_SERVER_VARIABLES = ("PGSERVICE", "PGDATABASE", "PGHOST", "PGHOSTADDR", "PGPORT")


def conninfo_of(positional: Positional, connect: ConnectOptions) -> str | None:
    """Return the connection string of the positional arguments and -h -p -U -d.

    ``None`` if no server is named. Raises UsageError for contradictions.
    """
    parts = {
        "host": connect.host,
        "port": None if connect.port is None else str(connect.port),
        "user": connect.username,
        "dbname": _database(positional, connect.dbname),
    }
    for option, value in zip(("-h", "-p", "-U", "-d"), parts.values(), strict=True):
        if value == "":
            raise UsageError(f"{option} is empty", code="empty-option", hint="leave it out")
    present = {name: value for name, value in parts.items() if value is not None}
    if positional.conninfo is None and not present:
        return None
    return _merge_conninfo(positional.conninfo, present)


def conninfo_without_load(what: tuple[str, ...], connect: ConnectOptions, command: str) -> str:
    """Return the connection string for a command that makes no load, with its password; the
    default server if none is named. Raises UsageError for a workload or a spec."""
    positional = positional_without_load(what, command)
    return conninfo_for(conninfo_of(positional, connect) or "", connect.prompt)


def positional_without_load(what: tuple[str, ...], command: str) -> Positional:
    """Return the positional arguments of a command that makes no load. Raises UsageError for a
    workload or a spec."""
    positional = parse_positional(what)
    if wrong := positional.builtin or positional.spec_path:
        raise UsageError(
            f'"{wrong}": pgdyno {command} makes no load, so it takes no workload and no spec',
            code="unknown-argument",
            hint=f"name a database of that name with -d {wrong}",
        )
    return positional


def _database(positional: Positional, option: str | None) -> str | None:
    """Return the database of -d or of a bare word. Raises UsageError if both are given."""
    if positional.database is not None and option is not None:
        raise UsageError(
            f"two databases are given: {positional.database} and, with -d, {option}",
            code="contradiction",
        )
    return option if positional.database is None else positional.database


def _merge_conninfo(conninfo: str | None, parts: dict[str, str]) -> str:
    """Return one connection string; -d may be a connection string too."""
    from psycopg.conninfo import make_conninfo

    from pgdyno.server.connecting.complaints import malformed
    from pgdyno.server.connecting.connect import parse_conninfo

    named = parse_conninfo(parts.pop("dbname", None))
    try:
        return make_conninfo("", **(parse_conninfo(conninfo) | parts | named))
    except UnicodeError:
        raise malformed("it is not UTF-8", "") from None


def with_password(spec: Spec, prompt: str | None) -> Spec:
    """Return ``spec`` with its server's password, prompting for it if necessary."""
    if spec.server.kind != "existing":
        return spec
    conninfo = conninfo_for(spec.server.conninfo or "", prompt)
    server = spec.server.model_copy(update={"conninfo": conninfo})
    return spec.model_copy(update={"server": server})


def conninfo_for(conninfo: str, prompt: str | None) -> str:
    """Return ``conninfo`` with a password from the terminal, if necessary.

    ``prompt`` is ``always``, ``never`` or ``None``: prompt only if the server requires a password
    and none is configured. Raises UsageError if a prompt is required and there is no terminal.
    """
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    if prompt == "never":
        return conninfo
    if prompt is None and not (_has_terminal() and _is_missing(conninfo)):
        return conninfo
    user = conninfo_to_dict(conninfo).get("user") or os.environ.get("PGUSER")
    password = _ask(f"Password for user {user}: " if user else "Password: ")
    return make_conninfo(conninfo, password=password)


def _ask(prompt: str) -> str:
    if not _has_terminal():
        raise UsageError(
            "-W requires a terminal to prompt for a password",
            code="no-terminal",
            hint="set PGPASSWORD or use ~/.pgpass",
        )
    try:
        return getpass.getpass(prompt)
    except EOFError:
        raise UsageError("no password was given", code="no-password") from None
    except KeyboardInterrupt:
        raise Interrupted.by(signal.SIGINT) from None


def _has_terminal() -> bool:
    try:
        os.close(os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _is_missing(conninfo: str) -> bool:
    """True if the server requires a password and libpq has none."""
    from pgdyno.server import resolve_conninfo

    try:
        resolve_conninfo(conninfo)
    except SetupError as problem:
        if problem.code == "password-missing":
            return True
        raise
    return False


def unused_server_note() -> str | None:
    """Return a note about the server named by the environment; ``None`` if there is none."""
    named = [name for name in _SERVER_VARIABLES if os.environ.get(name)]
    if not named:
        return None
    verb = "names" if len(named) == 1 else "name"
    return (
        f"{' and '.join(named)} {verb} a server, which is not used: this run starts its own;"
        f" to load the named server, add {_option_for_server()}"
    )


def _option_for_server() -> str:
    """Return the option that selects the server of the environment."""
    value = {name: shlex.quote(os.environ.get(name, "")) for name in _SERVER_VARIABLES}
    if os.environ.get("PGSERVICE"):
        return f"-d service={value['PGSERVICE']}"
    if os.environ.get("PGDATABASE"):
        return f"-d {value['PGDATABASE']}"
    host = os.environ.get("PGHOST") or os.environ.get("PGHOSTADDR")
    return f"-h {shlex.quote(host)}" if host else f"-p {value['PGPORT']}"
