"""The SQL of this room, for every version of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdyno.server.sql_files import query_for

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control


def sql_of(conn: Control, name: str) -> bytes:
    """Return the query of this name for the server's version."""
    query = query_for("plans", name, conn.info.server_version // 10000)
    assert query is not None, "the SQL of this room is for every version"
    return query.text.encode()
