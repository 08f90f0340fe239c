"""SQL statements that set and reset settings, quoted as each setting requires."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
