"""The table of the ``mixed`` workload: five strings and an id, four indexes, empty at the start."""

from __future__ import annotations

from pgdyno.errors import SetupError
from pgdyno.server import ConnInfo, connect
from pgdyno.workload.queries import query, setup_errors

_COLUMNS = ["id", "c1", "c2", "c3", "c4", "c5"]


def prepare_mixed(conninfo: ConnInfo) -> None:
    """Make the table when it is not there; one that is there goes on growing."""
    with connect(conninfo) as conn, setup_errors("test_table"):
        columns = [row[0] for row in conn.execute(query("mixed_shape"))]
        if not columns:
            with conn.transaction():
                conn.execute(query("mixed_tables"))
        elif columns != _COLUMNS:
            raise SetupError(
                f"the table test_table in the database {conninfo.database} is not pgdyno's",
                code="foreign-table",
                hint="rename or drop it",
            )


def highest_id(conninfo: ConnInfo) -> int:
    """The highest id in the table, 0 when it is empty."""
    with connect(conninfo) as conn, setup_errors("test_table"):
        row = conn.execute(query("mixed_max_id")).fetchone()
    assert row is not None
    return int(row[0])
