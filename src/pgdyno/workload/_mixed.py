"""The table of the ``mixed`` workload: five strings and an id, four indexes, empty at the start."""

from __future__ import annotations

from pgdyno.errors import SetupError
from pgdyno.server import ConnInfo, connect
from pgdyno.server.connecting.marks import PLAIN, mark
from pgdyno.workload._found import MIXED_COLUMNS, find_tables
from pgdyno.workload._locked_tables import limit_lock_waits, locks_named
from pgdyno.workload._queries import query, setup_errors


def prepare_mixed(conninfo: ConnInfo) -> bool:
    """Make the table if it does not exist, and return whether it was made."""
    with connect(conninfo) as conn, setup_errors("test_table"), locks_named(conn):
        limit_lock_waits(conn)
        found = find_tables(conn, list(MIXED_COLUMNS))
        if not found:
            with conn.transaction():
                conn.execute(query("mixed_tables"))
                mark(conn, "table", ["test_table"], PLAIN)
                mark(conn, "sequence", ["test_table_id"], PLAIN)
            return True
    if found["test_table"].columns != MIXED_COLUMNS["test_table"]:
        raise SetupError(
            f"the table test_table in the database {conninfo.database} has other columns than"
            " pgdyno's",
            code="foreign-table",
            hint="rename or drop it",
        )
    return False


def highest_id(conninfo: ConnInfo) -> int:
    """Return the highest id in the table, 0 if it is empty."""
    with connect(conninfo) as conn, setup_errors("test_table"), locks_named(conn):
        limit_lock_waits(conn)
        row = conn.execute(query("mixed_max_id")).fetchone()
    assert row is not None
    return int(row[0])
