"""SQL that gives a setting a value, in the words that each setting wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from psycopg import sql

_LISTS = frozenset(  # Settings whose elements are to be quoted one by one.
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
    """The statement that gives a server a setting, or takes ALTER SYSTEM's value away from it."""
    return _statement("ALTER SYSTEM ", name, value)


def set_session(name: str, value: str | None) -> str:
    """The statement that gives a session a setting, or takes it back."""
    return _statement("", name, value)


def _statement(what: str, name: str, value: str | None) -> str:
    from psycopg import sql

    target = sql.SQL(".").join(sql.Identifier(part) for part in name.split("."))
    if value is None:
        return f"{what}RESET {target.as_string(None)}"
    literals = sql.SQL(", ").join(_literals(name.lower(), value))
    return f"{what}SET {target.as_string(None)} = {literals.as_string(None)}"


def _literals(name: str, value: str) -> Sequence[sql.Composable]:
    from psycopg import sql

    if name not in _LISTS:
        return [sql.Literal(value)]
    elements = [element.strip().strip('"') for element in value.split(",")]
    return [sql.Literal(element) for element in elements]
