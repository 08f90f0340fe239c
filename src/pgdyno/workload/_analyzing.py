"""Statistics of tables before a load.

Without statistics, an empty table is planned as one of ten pages. With them it is known to be
empty, and sessions keep plans that read all of it, those of foreign keys too, while it fills.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pgdyno.server.sql_files import query

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control


def analyze_filled(conn: Control, among: Collection[tuple[str, str]] | None = None) -> None:
    """Vacuum and analyze the tables that are not empty: all, or those of some schemas and names."""
    from psycopg import sql

    names = None if among is None else [name for _, name in among]
    filled = conn.execute(query("workload", "filled_tables"), {"names": names}).fetchall()
    if wanted := [each for each in filled if among is None or each in among]:
        tables = sql.SQL(", ").join(sql.Identifier(*each) for each in wanted)
        conn.execute(sql.SQL("vacuum analyze {}").format(tables))
