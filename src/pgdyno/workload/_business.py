"""The tables of the ``business`` workload: an order schema, filled by the load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.workload._found import BUSINESS_COLUMNS, FoundTable
from pgdyno.workload._own_tables import OwnTables
from pgdyno.workload._queries import query
from pgdyno.workload.table_space import business_space

if TYPE_CHECKING:
    import psycopg

    from pgdyno.spec.model import WorkloadSpec


def _make(conn: psycopg.Connection, wanted: WorkloadSpec) -> None:
    from psycopg import sql

    rows = sql.SQL(query("business_rows").decode()).format(scale=sql.SQL(str(wanted.scale)))
    conn.execute(query("business_tables"))
    conn.execute(rows)


def _scale(conn: psycopg.Connection, _: Mapping[str, FoundTable], __: WorkloadSpec) -> int:
    """Return the scale: that of the products."""
    row = conn.execute(query("business_scale")).fetchone()
    scale = int(row[0]) if row else 0
    if scale == 0:
        raise SetupError(
            f"business_products in the database {conn.info.dbname} has fewer than 10,000 rows, so"
            " the scale is not known",
            code="tables-incomplete",
            hint="-i makes the tables of business there again",
        )
    return scale


BUSINESS = OwnTables("business", BUSINESS_COLUMNS, _make, _scale, business_space)
