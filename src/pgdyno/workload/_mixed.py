"""The table of the ``mixed`` workload: five strings and an id, four indexes, empty at the start."""

from __future__ import annotations

from pgdyno.errors import SetupError
from pgdyno.server import ConnInfo, connect
from pgdyno.server.connecting.marks import PLAIN, mark
from pgdyno.workload._found import MIXED_COLUMNS, find_tables, schema_for_new, schema_of
from pgdyno.workload._locked_tables import limit_lock_waits, locks_named
from pgdyno.workload._queries import query_in, regclass, setup_errors

_TABLE, _SEQUENCE = "test_table", "test_table_id"


def prepare_mixed(conninfo: ConnInfo) -> bool:
    """Make the table if it does not exist, and return whether it was made."""
    with connect(conninfo) as conn, setup_errors("test_table"), locks_named(conn):
        limit_lock_waits(conn)
        found = find_tables(conn, MIXED_COLUMNS)
        if not found:
            schema = schema_for_new(conn)
            ids = regclass(schema, _SEQUENCE)
            with conn.transaction():
                conn.execute(query_in(schema, "mixed_tables", ids=ids))
                mark(conn, "table", [(schema, _TABLE)], PLAIN)
                mark(conn, "sequence", [(schema, _SEQUENCE)], PLAIN)
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
