"""The server named on the command line, as one connection string."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgdyno.cli.password import conninfo_for
from pgdyno.cli.positional import Positional, parse_positional
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


def conninfo_without_load(given: Mapping[str, Any], command: str) -> str:
    """Return the connection string for a command that makes no load, with its password; the
    default server if none is named. Raises UsageError for a workload or a spec."""
    positional = positional_without_load(given, command)
    return conninfo_for(conninfo_of(positional, given) or "", given["prompt"])


def positional_without_load(given: Mapping[str, Any], command: str) -> Positional:
    """Return the positional arguments of a command that makes no load. Raises UsageError for a
    workload or a spec."""
    positional = parse_positional(given["what"])
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


def _merge_conninfo(conninfo: str | None, parts: dict[str, Any]) -> str:
    """Return one connection string; -d may be a connection string too."""
    from psycopg.conninfo import make_conninfo

    from pgdyno.server.connecting.complaints import malformed
    from pgdyno.server.connecting.connect import parse_conninfo

    named = parse_conninfo(parts.pop("dbname", None))
    try:
        return make_conninfo(**(parse_conninfo(conninfo) | parts | named))
    except UnicodeError:
        raise malformed("it is not UTF-8", "") from None
