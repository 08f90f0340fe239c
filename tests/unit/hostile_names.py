"""Names that a role on a server could choose against whoever reads or types what pgdyno prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgdyno.spec.sql_text import folded

NAMES = (
    "x'; ALTER ROLE mal SUPERUSER; --",
    'x"; DROP TABLE orders; --',
    "x\\'; SELECT 1; --",
    "x\nerror: forged\r\n\x1b[2J\u202e",
    "tab\tübung 😀 \U000e0041",
    "/*",
    "$$; --",
    "U&\\0041",
    "Plain",
)
CHOSEN = {"slot", "role", "database", "application", "publication"}
"""Columns of looks with a name as a role chose it."""
QUOTED = {"relation", "index_name", "kept", "longer"}
"""Columns of looks with a name of a schema and one of a relation, quoted by the server."""
NOT_CHOSEN = {
    "boot_val", "columns", "context", "device", "error", "file", "filesystem", "holds", "options",
    "pause_state", "query", "scheduler", "setting", "source", "state", "sync_state", "thp_defrag",
    "thp_enabled", "type", "unit", "wal_status", "way", "name",
}  # fmt: skip
"""Columns with other text."""
_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)|(?P<escaped>e'(?:[^'\\]|\\.|'')*')|(?P<plain>'(?:[^']|'')*')
    |(?P<name>(?:u&)?"(?:[^"]|"")*"|[a-z_][\w$]*)|(?P<other>[\d.]+|.)""",
    re.I | re.S | re.X,
)
_ESCAPE = re.compile(r"\\(?:u([\dA-F]{4})|U([\dA-F]{8})|(.))", re.S)


def tokens(sql: str) -> list[tuple[str, str]]:
    """The tokens of SQL with their kinds: "text", "name" or "other"; a lone quote is other."""
    return list(_tokens(sql))


def _tokens(sql: str) -> Iterator[tuple[str, str]]:
    for found in _TOKEN.finditer(sql):
        token = found[0]
        match found.lastgroup:
            case "escaped":
                yield "text", _ESCAPE.sub(_unescaped, token[2:-1].replace("''", "'"))
            case "plain":
                assert "\\" not in token, "it means two things, by standard_conforming_strings"
                yield "text", token[1:-1].replace("''", "'")
            case "name":
                yield "name", folded(token)
            case "other":
                yield "other", token


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else {"n": "\n", "t": "\t"}.get(found[3], found[3])


def as_the_server_quotes(*names: str) -> str:
    """Names as PostgreSQL's ``format('%I.%I')`` has them."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def with_names(given: Any, name: str) -> Any:
    """What looks recorded, with ``name`` in all columns that have a name chosen by a role."""
    if isinstance(given, Mapping):
        return {key: _with_name(key, value, name) for key, value in given.items()}
    if isinstance(given, Sequence) and not isinstance(given, str):
        return [with_names(each, name) for each in given]
    return given


def _with_name(key: str, value: Any, name: str) -> Any:
    if not isinstance(value, str):
        return with_names(value, name)
    if key in CHOSEN:
        return value and name
    return as_the_server_quotes(name, name) if key in QUOTED else value


def unknown_columns(given: Any) -> Iterator[str]:
    """Columns with text of which this module does not know whether a role chooses it."""
    if isinstance(given, Mapping):
        for key, value in given.items():
            if not isinstance(value, str):
                yield from unknown_columns(value)
            elif key not in CHOSEN | QUOTED | NOT_CHOSEN:
                yield key
    elif isinstance(given, Sequence) and not isinstance(given, str):
        for each in given:
            yield from unknown_columns(each)
