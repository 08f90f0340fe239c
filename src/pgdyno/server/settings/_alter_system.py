"""SQL statements that set and reset settings, quoted as each setting requires, and the text of
postgresql.auto.conf, the file that ALTER SYSTEM writes.

The server shows the lines of that file in pg_file_settings, except while it cannot parse another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgdyno.server.settings.setting_values import unescaped

if TYPE_CHECKING:
    from psycopg import sql


_LISTS = frozenset(  # Settings whose elements must be quoted separately.
    (
        "local_preload_libraries",
        "search_path",
        "session_preload_libraries",
        "shared_preload_libraries",
        "temp_tablespaces",
        "unix_socket_directories",
    )
)


def alter_system(name: str, value: str | None) -> str:
    """Return ALTER SYSTEM SET, or RESET for ``None``."""
    return _statement("ALTER SYSTEM ", name, value)


def set_session(name: str, value: str | None) -> str:
    """Return SET, or RESET for ``None``."""
    return _statement("", name, value)


def _statement(prefix: str, name: str, value: str | None) -> str:
    from psycopg import sql

    target = sql.SQL(".").join(sql.Identifier(part) for part in name.split("."))
    if value is None:
        return f"{prefix}RESET {target.as_string(None)}"
    literals = sql.SQL(", ").join(_literals(name.lower(), value))
    return f"{prefix}SET {target.as_string(None)} = {literals.as_string(None)}"


def _literals(name: str, value: str) -> Sequence[sql.Composable]:
    from psycopg import sql

    if name not in _LISTS:
        return [sql.Literal(value)]
    elements = [element.strip().strip('"') for element in value.split(",")]
    return [sql.Literal(element) for element in elements]


# A name may hold all but these ASCII characters: a range up to the last character of Unicode would
# take long to compile.
_LINE = r"""(?ix)\s*
    (?P<name>[^\x00-\x40\x5b-\x5e\x60\x7b-\x7f][^\x00-\x23\x25-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]*
        (?:\.[a-z_][\w$]*)*)
    (?:\s*=\s*|\s+)
    (?:'(?P<quoted>(?:[^'\\]|''|\\.)*)'|(?P<plain>[\w.:/+-]+))
    \s*(?:\#.*)?"""
_EMPTY = r"\s*(?:#.*)?"


def parse_auto_conf(text: str) -> dict[str, str] | None:
    """Return each setting's value by its name in lower case; ``None`` for an invalid line.

    The last line of a name counts, as it does for the server.
    """
    values = {}
    for line in text.split("\n"):
        if re.fullmatch(_EMPTY, line):
            continue
        match = re.fullmatch(_LINE, line)
        if match is None or match["name"].lower().startswith("include"):
            return None
        plain = match["plain"]
        value = unescaped(match["quoted"]) if plain is None else plain
        values[match["name"].lower()] = value
    return values
