"""Makes sure that a workload finds its tables, and touches nothing else.

Tables are made only in the database ``pgdyno``, which belongs to this program on every server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.server import ConnInfo, connect
from pgdyno.workload.missing import check_tables_exist
from pgdyno.workload.mixed import prepare_mixed
from pgdyno.workload.model import Tables, Workload
from pgdyno.workload.persistence import make_unlogged
from pgdyno.workload.pgbench import prepare_pgbench
from pgdyno.workload.setup import run_setup

Progress = Callable[[str, int, int], None]
"""Called with a label, what is done and what there is to do."""

_OWN_DATABASE = "pgdyno"


def prepare(
    conninfo: ConnInfo,
    workloads: Iterable[Workload],
    scale: int,
    progress: Progress,
    *,
    setup: str | None = None,
    unlogged: bool = False,
) -> None:
    """Make the workloads' tables where they are missing or of another scale; use them otherwise.

    ``setup`` is a file of SQL to execute afterwards. With ``unlogged`` all tables of the database
    are then made unlogged. Raises UsageError when the database is not
    pgdyno's own, SetupError when something is in the way: rights, a foreign table of the same name,
    a statement of the setup that fails, a table that a script needs and nobody made.
    """
    distinct = list({id(workload): workload for workload in workloads}.values())
    for kind in Tables:
        users = [workload for workload in distinct if workload.tables is kind]
        if users and kind is not Tables.NONE:
            _make(conninfo, users[0], scale, progress)
    if setup is not None:
        progress(Path(setup).name, 0, 1)
        run_setup(conninfo, setup)
        progress(Path(setup).name, 1, 1)
    for workload in distinct:
        check_tables_exist(conninfo, workload)
    if unlogged:
        progress("tables without WAL", 0, 1)
        with connect(conninfo) as connection:
            make_unlogged(connection)
        progress("tables without WAL", 1, 1)


def _make(conninfo: ConnInfo, workload: Workload, scale: int, progress: Progress) -> None:
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
