"""The tables of the ``business`` workload: an order schema, filled by the load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.workload._found import BUSINESS_COLUMNS, FoundTable
from pgdyno.workload._own_tables import OwnTables
from pgdyno.workload._queries import query_in
from pgdyno.workload.table_space import business_space

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control
    from pgdyno.spec.workload import WorkloadSpec


def _make(conn: Control, schema: str, wanted: WorkloadSpec) -> None:
    from psycopg import sql

    conn.execute(query_in(schema, "business_tables"))
    conn.execute(query_in(schema, "business_rows", scale=sql.SQL(str(wanted.scale))))


def _scale(conn: Control, found: Mapping[str, FoundTable], _: WorkloadSpec) -> int:
    """Return the scale: that of the products."""
    row = conn.execute(query_in(found["business_products"].schema, "business_scale")).fetchone()
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
