"""The SQL of a capture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pgdyno.server.extensions import within
from pgdyno.server.sql_files import query_at

if TYPE_CHECKING:
    import psycopg

    from pgdyno.json_types import Row


def rows_of(
    connection: psycopg.Connection[Any],
    name: str,
    values: Mapping[str, object] | None = None,
    schema: str = "",
) -> list[Row]:
    """Return the rows of a query of this room; ``schema`` is that of an extension. Raises
    psycopg.Error."""
    from psycopg.rows import dict_row

    cursor = connection.cursor(row_factory=dict_row)
    text = within(schema, query_at(connection, "capture", name).decode())
    return cursor.execute(text.encode(), values).fetchall()
