"""Prepare the tables of a workload.

Existing tables are used without change. Missing tables are made in the database pgdyno, in any
other database only by an initialization, as with ``pgbench -i``. Tables are replaced only if they
have pgdyno's mark, and only in the database pgdyno.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.server import OWN_DATABASE, ConnInfo, connect
from pgdyno.server.connecting.marks import mark_of, scale_in
from pgdyno.workload._existing import OWN_HINT, notes_about, scale_of
from pgdyno.workload._found import PGBENCH_COLUMNS, FoundTable, find_pgbench
from pgdyno.workload._missing import check_tables_exist
from pgdyno.workload._mixed import prepare_mixed
from pgdyno.workload._model import Tables, Workload
from pgdyno.workload._persistence import make_unlogged
from pgdyno.workload._pgbench import Making
from pgdyno.workload._queries import setup_errors
from pgdyno.workload._setup import run_setup
from pgdyno.workload._table_lock import TableLock
from pgdyno.workload.table_space import TableSpace, space_for_tables

if TYPE_CHECKING:
    from pgdyno.spec.model import WorkloadSpec

Progress = Callable[[str, int, int], None]
"""Called with a label, the amount done and the total amount."""
CheckTableSpace = Callable[[TableSpace], None]
"""Called before tables are made; raises SetupError if they would not fit."""


@dataclass
class Prepared:
    """The prepared tables."""

    scale: int
    """Scale of pgbench's tables; without them, the value of the scripts' variable."""
    tables: str | None = None
    """``made`` for this run, ``kept`` from an earlier one, or ``theirs``; ``None``: not known."""
    notes: list[str] = field(default_factory=list)
    """Notes for the user about the tables."""


def prepare(
    conninfo: ConnInfo,
    workloads: Iterable[Workload],
    wanted: WorkloadSpec,
    progress: Progress,
    *,
    hold: ExitStack | None = None,
    check_table_space: CheckTableSpace = lambda _: None,
) -> Prepared:
    """Make the workloads' tables if required, otherwise use the existing ones.

    ``hold`` keeps the lock on the tables until it is closed; by default it is released at the end.
    Raises SetupError for missing privileges, a foreign table of the same name, tables in use, a
    failing statement of the setup, or a missing table that a script needs.
    """
    distinct = list({id(workload): workload for workload in workloads}.values())
    kinds = {workload.tables for workload in distinct}
    # Scripts on other tables get the default, as in pgbench.
    known = wanted.scale_given or Tables.PGBENCH in kinds or wanted.initialize
    prepared = Prepared(wanted.scale if known else 1)
    with ExitStack() as own:
        stack = own if hold is None else hold
        if Tables.PGBENCH in kinds or (wanted.initialize and Tables.MIXED not in kinds):
            _Pgbench(conninfo, wanted, progress, prepared, check_table_space).prepare(
                distinct, stack
            )
        if Tables.MIXED in kinds:
            prepared.tables = "made" if prepare_mixed(conninfo) else "kept"
        if wanted.setup is not None:
            progress(Path(wanted.setup).name, 0, 1)
            run_setup(conninfo, wanted.setup, wanted.setup_text)
            progress(Path(wanted.setup).name, 1, 1)
    for workload in distinct:
        check_tables_exist(conninfo, workload)
    if wanted.unlogged:
        progress("unlogged tables", 0, 1)
        with connect(conninfo) as connection:
            make_unlogged(connection)
        progress("unlogged tables", 1, 1)
    return prepared


@dataclass
class _Pgbench:
    """Preparation of pgbench's tables in a database."""

    conninfo: ConnInfo
    wanted: WorkloadSpec
    progress: Progress
    prepared: Prepared
    check_table_space: CheckTableSpace

    def prepare(self, workloads: Iterable[Workload], stack: ExitStack) -> None:
        lock = stack.enter_context(TableLock(self.conninfo))
        with setup_errors("pgbench's tables"):
            lock.lock_shared()
            found = find_pgbench(lock.conn)
            if self._must_make(found):
                self._make(lock)
            elif found:
                self._use(lock, found, workloads)

    def _must_make(self, found: Mapping[str, FoundTable]) -> bool:
        if self.wanted.initialize:
            return True
        if self.conninfo.database != OWN_DATABASE:
            return False
        return not found or (_all_ours(found) and not self._matches_options(found))

    def _matches_options(self, found: Mapping[str, FoundTable]) -> bool:
        """True if pgdyno's tables are complete and have the requested options; if no scale
        is given, larger ones are accepted."""
        mark = mark_of(self._scale_kept(found), self.wanted.init)
        return set(found) == set(PGBENCH_COLUMNS) and all(
            table.comment == mark for table in found.values()
        )

    def _scale_kept(self, found: Mapping[str, FoundTable]) -> int:
        if self.wanted.scale_given:
            return self.wanted.scale
        return max(self.wanted.scale, *(scale_in(table.comment) for table in found.values()))

    def _make(self, lock: TableLock) -> None:
        lock.lock_exclusive()
        found = find_pgbench(lock.conn)
        # Another run may have made them while this one waited.
        if self._must_make(found):
            if self.wanted.initialize:
                self._check_droppable(found)
            self.check_table_space(
                space_for_tables(lock.conn, self.wanted.scale, self.wanted.init, found.values())
            )
            making = Making(lock.conn, self.wanted.scale, self.wanted.init, self.progress)
            making.make(vacuum=self.wanted.vacuum != "none")
        self.prepared.tables = "made"
        lock.downgrade()

    def _check_droppable(self, found: Mapping[str, FoundTable]) -> None:
        """Refuse to drop relations that have a name of pgbench's tables but are not."""
        for table in found.values():
            if not table.is_pgbench:
                raise SetupError(
                    f"{table.schema}.{table.name} in the database {self.conninfo.database} is"
                    f" {table.other_kind or 'not a table of pgbench'}, and -i would drop it",
                    code="foreign-table",
                    hint=OWN_HINT,
                )

    def _use(
        self,
        lock: TableLock,
        found: Mapping[str, FoundTable],
        workloads: Iterable[Workload],
    ) -> None:
        conn = lock.conn
        ours = _all_ours(found) and self.conninfo.database == OWN_DATABASE
        if not (ours or self.conninfo.database_named):
            raise SetupError(
                f"the database {OWN_DATABASE}, which the load would use, has pgbench's tables that"
                " pgdyno did not make",
                code="foreign-table",
                hint=f"use them with -d {OWN_DATABASE}, or name another database",
            )
        self.prepared.tables = "kept" if ours else "theirs"
        users = [each for each in workloads if each.tables is Tables.PGBENCH]
        builtin = any(not script.own for each in users for script in each.scripts)
        if ours:
            self.prepared.scale = self._scale_kept(found)
            self._vacuum_before_load(lock)
        elif builtin or (not self.wanted.scale_given and set(found) == set(PGBENCH_COLUMNS)):
            scale = scale_of(conn, found)
            asked = self.wanted.scale if self.wanted.scale_given else None
            self.prepared.scale = scale
            self.prepared.notes += notes_about(conn, found, scale, asked)
            if words := self.wanted.init.in_words():
                self.prepared.notes.append(
                    f"the existing tables in the database {self.conninfo.database} are used without"
                    f" change; ignored without -i: {words}"
                )
        if self.wanted.vacuum == "all":
            names = ", ".join(name for name, table in found.items() if table.other_kind is None)
            conn.execute(f"vacuum analyze {names}".encode())

    def _vacuum_before_load(self, lock: TableLock) -> None:
        """Empty the history and vacuum the two small tables, as pgbench does before a run."""
        read_only = lock.conn.execute("show transaction_read_only").fetchone() == ("on",)
        if self.wanted.vacuum == "none" or read_only:
            return
        with lock.try_exclusive() as alone:
            if alone:
                lock.conn.execute("vacuum pgbench_branches, pgbench_tellers")
                lock.conn.execute("truncate pgbench_history")
            else:
                self.prepared.notes.append(
                    f"another pgdyno uses the same tables, in the database {self.conninfo.database}"
                )


def _all_ours(found: Mapping[str, FoundTable]) -> bool:
    return all(table.ours for table in found.values())
