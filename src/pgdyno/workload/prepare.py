"""Makes sure that a workload finds its tables, and touches nothing else.

Tables are made only in the database ``pgdyno``, which belongs to this program on every server.
"""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.errors import UsageError
from pgdyno.server import ConnInfo
from pgdyno.workload.missing import check_tables_exist
from pgdyno.workload.mixed import prepare_mixed
from pgdyno.workload.model import Tables, Workload
from pgdyno.workload.pgbench import prepare_pgbench

Progress = Callable[[str, int, int], None]
"""Called with a label, what is done and what there is to do."""

_OWN_DATABASE = "pgdyno"


def prepare(conninfo: ConnInfo, workload: Workload, scale: int, progress: Progress) -> None:
    """Make the workload's tables where they are missing or of another scale; use them otherwise.

    Raises UsageError when the database is not pgdyno's own, SetupError when something is in the
    way: rights, a foreign table of the same name, a table that a script needs and nobody made.
    """
    if workload.tables is not Tables.NONE:
        if conninfo.database != _OWN_DATABASE:
            raise UsageError(
                f"{workload.name} needs tables of its own, and pgdyno makes none in the database"
                f" {conninfo.database}",
                code="not-own-database",
                hint=f"use the database {_OWN_DATABASE}: createdb {_OWN_DATABASE}",
            )
        if workload.tables is Tables.PGBENCH:
            prepare_pgbench(conninfo, scale, progress)
        else:
            prepare_mixed(conninfo)
    check_tables_exist(conninfo, workload)
