"""In which database a load works: the one that the user names, or pgdyno's own.

Own scripts, and tables that are there, are used where the user says. Tables that are missing are
made in a database of our own, unless the user asks for an initialisation of the named one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pgdyno.server import OWN_DATABASE, ConnInfo, connect
from pgdyno.workload._found import MIXED_COLUMNS, PGBENCH_COLUMNS, find_pgbench, find_tables, hidden
from pgdyno.workload._model import Tables, Workload
from pgdyno.workload._queries import setup_errors

if TYPE_CHECKING:
    from pgdyno.spec.model import WorkloadSpec


def own_database_needed(
    conninfo: ConnInfo, workloads: Collection[Workload], wanted: WorkloadSpec
) -> bool:
    """Whether the load goes to pgdyno's own database and not to ``conninfo``'s.

    Raises SetupError when the tables are there and the search path hides them: others in their
    place would not be what the user meant.
    """
    kinds = {workload.tables for workload in workloads} - {Tables.NONE}
    if conninfo.database == OWN_DATABASE:
        return False
    if not conninfo.database_named:
        return bool(kinds) or wanted.setup is not None or wanted.initialize
    if wanted.initialize:
        return False
    if wanted.setup is not None:
        return True
    if any(workload.own for workload in workloads):
        return False
    return not _all_there(conninfo, kinds)


def _all_there(conninfo: ConnInfo, kinds: Collection[Tables]) -> bool:
    """Whether the database has tables of each kind, complete or not."""
    with connect(conninfo) as conn, setup_errors("the workload's tables"):
        if Tables.PGBENCH in kinds and not find_pgbench(conn):
            if problem := hidden(conn, list(PGBENCH_COLUMNS)):
                raise problem
            return False
        if Tables.MIXED in kinds:
            mixed = find_tables(conn, list(MIXED_COLUMNS)).get("test_table")
            return mixed is not None and mixed.columns == MIXED_COLUMNS["test_table"]
    return True
