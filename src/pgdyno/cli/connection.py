"""The server named on the command line, as one connection string."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgdyno.cli.positional import Positional
from pgdyno.errors import UsageError


def conninfo_of(positional: Positional, given: Mapping[str, Any]) -> str | None:
    """Return the connection string of the positional arguments and -h -p -U -d.

    ``None`` if no server is named. Raises UsageError for contradictions.
    """
    parts = {
        "host": given["host"],
        "port": given["port"],
        "user": given["username"],
        "dbname": _database(positional, given["dbname"]),
    }
    for option, value in zip(("-h", "-p", "-U", "-d"), parts.values(), strict=True):
        if value == "":
            raise UsageError(f"{option} is empty", code="empty-option", hint="leave it out")
    present = {name: value for name, value in parts.items() if value is not None}
    if positional.conninfo is None and not present:
        return None
    return _merge_conninfo(positional.conninfo, present)


def _database(positional: Positional, option: str | None) -> str | None:
    """Return the database of -d or of a bare word. Raises UsageError if both are given."""
    if positional.database is not None and option is not None:
        raise UsageError(
            f"two databases are given: {positional.database} and, with -d, {option}",
            code="contradiction",
        )
    return option if positional.database is None else positional.database


def _merge_conninfo(conninfo: str | None, parts: dict[str, Any]) -> str:
    """Return one connection string; -d may be a connection string too."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    from pgdyno.server.connecting.complaints import malformed, one_line
    from pgdyno.server.connecting.connect import wrong_port

    database = parts.get("dbname")
    try:
        if database is not None and ("://" in database or "=" in database):
            named = conninfo_to_dict(parts.pop("dbname"))
            # Here, where the string is known as it was typed: a "port" may be a password.
            if complaint := wrong_port(str(named.get("port", ""))):
                raise malformed(complaint, database)
            parts |= named
        return make_conninfo(conninfo or "", **parts)
    except UnicodeError:
        raise malformed("it is not UTF-8", "") from None
    except ProgrammingError as problem:
        raise malformed(one_line(str(problem)), conninfo or database or "") from None
