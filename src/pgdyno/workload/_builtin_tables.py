"""Tables of the built-in workloads ``business``, ``ingest`` and ``mixed``, and the script of
``ingest``.

Those of ``business`` are an order schema, filled by the load; that of ``mixed`` has five strings
and an id, four indexes, and is empty at the start. Each transaction of ``ingest`` inserts
``TRANSACTION_ROWS`` rows, in commits of ``batch`` rows, so that transactions per second of two ways
are those of the same work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.server import ConnInfo, connect
from pgdyno.server.connecting.marks import PLAIN, mark
from pgdyno.spec.workload import TRANSACTION_ROWS, batch_of
from pgdyno.workload._found import (
    BUSINESS_COLUMNS,
    INGEST_COLUMNS,
    MIXED_COLUMNS,
    FoundTable,
    find_tables,
    schema_for_new,
    schema_of,
)
from pgdyno.workload._own_tables import OwnTables
from pgdyno.workload._queries import query_in, regclass, setup_errors
from pgdyno.workload.table_locks import limit_lock_waits, locks_named
from pgdyno.workload.table_space import business_space, ingest_space

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control
    from pgdyno.spec.workload import WorkloadSpec

_INGEST_COLUMNS = "source, code, loaded, name, document"
_INGEST_VALUES = (
    "random(1, 20), random(1, 1000000000), timestamp(random(1600000000, 1900000000)),"
    " random_text(8, 24), random_text(100, 200)"
)
_INGEST_INSERT = f"insert into ingest_rows ({_INGEST_COLUMNS}) values \\rows"
_TABLE, _MIXED_SEQUENCE = "test_table", "test_table_id"


def _make_business(conn: Control, schema: str, wanted: WorkloadSpec) -> None:
    from psycopg import sql

    conn.execute(query_in(schema, "business_tables"))
    conn.execute(query_in(schema, "business_rows", scale=sql.SQL(str(wanted.scale))))


def _business_scale(conn: Control, found: Mapping[str, FoundTable], _: WorkloadSpec) -> int:
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


BUSINESS = OwnTables("business", BUSINESS_COLUMNS, _make_business, _business_scale, business_space)


def ingest_script(wanted: WorkloadSpec) -> str:
    """Return the script for the way and the batch that are wanted."""
    batch = batch_of(wanted.ingest, wanted.batch)
    lines = [
        f"-- {TRANSACTION_ROWS} rows: {wanted.ingest}, {batch} in each commit.",
        *(
            line
            for _ in range(TRANSACTION_ROWS // batch)
            for line in _ingest_commit(wanted.ingest, batch)
        ),
    ]
    return "\n".join(lines) + "\n"


def _ingest_commit(way: str, batch: int) -> Iterator[str]:
    """Yield the lines that bring in one batch, with its commit."""
    single = f"{_INGEST_INSERT} 1 {_INGEST_VALUES}"
    if way == "multirow":
        yield f"{_INGEST_INSERT} {batch} {_INGEST_VALUES}"
    elif way == "copy":
        yield f"copy ingest_rows ({_INGEST_COLUMNS}) from stdin \\rows {batch} {_INGEST_VALUES}"
    elif way == "pipeline":
        yield "\\startpipeline"
        yield from (single for _ in range(batch))
        yield "\\endpipeline"
    elif batch == 1:
        yield single
    else:
        yield "begin;"
        yield from (single for _ in range(batch))
        yield "commit;"


def _make_ingest(conn: Control, schema: str, _: WorkloadSpec) -> None:
    conn.execute(query_in(schema, "ingest_tables"))


def _ingest_scale(_: Control, __: Mapping[str, FoundTable], wanted: WorkloadSpec) -> int:
    """Return the scale that is wanted: the table is the same at each."""
    return wanted.scale


INGEST = OwnTables("ingest", INGEST_COLUMNS, _make_ingest, _ingest_scale, ingest_space)


def prepare_mixed(conninfo: ConnInfo) -> bool:
    """Make the table if it does not exist, and return whether it was made."""
    with connect(conninfo) as conn, setup_errors("test_table"), locks_named(conn):
        limit_lock_waits(conn)
        found = find_tables(conn, MIXED_COLUMNS)
        if not found:
            schema = schema_for_new(conn)
            ids = regclass(schema, _MIXED_SEQUENCE)
            with conn.transaction():
                conn.execute(query_in(schema, "mixed_tables", ids=ids))
                mark(conn, "table", [(schema, _TABLE)], PLAIN)
                mark(conn, "sequence", [(schema, _MIXED_SEQUENCE)], PLAIN)
            return True
    table = found[_TABLE]
    if table.other_kind or table.columns != MIXED_COLUMNS[_TABLE]:
        raise SetupError(
            f"{table.schema}.{_TABLE} in the database {conninfo.database} is"
            f" {table.other_kind or 'a table with other columns than pgdyno makes'}",
            code="foreign-table",
            hint="rename or drop it",
        )
    return False


def highest_id(conninfo: ConnInfo) -> int:
    """Return the highest id in the table, 0 if it is empty."""
    with connect(conninfo) as conn, setup_errors("test_table"), locks_named(conn):
        limit_lock_waits(conn)
        row = conn.execute(query_in(schema_of(conn, _TABLE), "mixed_max_id")).fetchone()
    assert row is not None
    return int(row[0])
