"""Choice of the database for a load: the one that the user names, or the database pgdyno.

Scripts of the user, and existing tables, run in the named database. Missing tables are made in the
database pgdyno, unless an initialization of the named one is requested.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pgdyno.server import OWN_DATABASE, ConnInfo, connect
from pgdyno.workload._found import (
    MIXED_COLUMNS,
    PGBENCH_COLUMNS,
    find_pgbench,
    find_tables,
    hidden,
)
from pgdyno.workload._model import Tables, Workload
from pgdyno.workload._own import OWN
from pgdyno.workload._queries import setup_errors

if TYPE_CHECKING:
    from pgdyno.spec.workload import WorkloadSpec


def own_database_needed(
    conninfo: ConnInfo, workloads: Collection[Workload], wanted: WorkloadSpec
) -> bool:
    """True if the load runs in the database pgdyno instead of that of ``conninfo``.

    Raises SetupError if the tables exist outside of the search path: the user expects these to be
    used and not new ones.
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
    """True if the database has tables of each kind, complete or not."""
    with connect(conninfo) as conn, setup_errors("the workload's tables"):
        if Tables.PGBENCH in kinds and not find_pgbench(conn):
            if problem := hidden(conn, PGBENCH_COLUMNS):
                raise problem
            return False
        for kind, own in OWN.items():
            if kind in kinds and not find_tables(conn, own.columns):
                if problem := hidden(conn, own.columns):
                    raise problem
                return False
        if Tables.MIXED in kinds:
            mixed = find_tables(conn, MIXED_COLUMNS).get("test_table")
            return mixed is not None and mixed.columns == MIXED_COLUMNS["test_table"]
    return True
