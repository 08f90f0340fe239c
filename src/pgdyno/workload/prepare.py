"""Prepare the tables of a workload.

Existing tables are used without change. Missing tables are made in the database pgdyno, in any
other database only by an initialization, as with ``pgbench -i``. Tables are replaced only if they
have pgdyno's mark, and only in the database pgdyno.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.errors import SetupError, UsageError
from pgdyno.server import OWN_DATABASE, ConnInfo, connect
from pgdyno.server.connecting.marks import mark_of, scale_in
from pgdyno.workload._builtin_tables import prepare_mixed
from pgdyno.workload._found import PGBENCH_COLUMNS, FoundTable, find_pgbench
from pgdyno.workload._model import INITIAL_VARIABLES, Tables, Workload
from pgdyno.workload._own import OWN
from pgdyno.workload._own_tables import (
    CheckTableSpace,
    Prepared,
    Progress,
    prepare_own,
    require_scale,
)
from pgdyno.workload._persistence import make_unlogged
from pgdyno.workload._pgbench import OWN_HINT, Making, notes_about, scale_of
from pgdyno.workload._queries import setup_errors
from pgdyno.workload._statement_check import check_statements
from pgdyno.workload.table_locks import TableLock, limit_lock_waits, locks_named, owned
from pgdyno.workload.table_space import space_for_tables

if TYPE_CHECKING:
    from pgdyno.spec.workload import WorkloadSpec


def prepare(
    conninfo: ConnInfo,
    workloads: Iterable[Workload],
    wanted: WorkloadSpec,
    progress: Progress,
    *,
    hold: ExitStack | None = None,
    ours: bool = False,
    saved: bool = False,
    check_table_space: CheckTableSpace = lambda _: None,
    protocol: str = "simple",
) -> Prepared:
    """Make the workloads' tables if required, otherwise use the existing ones.

    ``hold`` keeps the lock on the tables until it is closed; by default it is released at the end.
    A server of ``ours`` was started by pgdyno: rows of the setup are vacuumed and analyzed.
    With ``saved``, the server began with a saved state, whose tables are used as they were saved:
    they are not vacuumed, emptied or made again, and UsageError refuses another scale.
    Raises SetupError for missing privileges, a foreign table of the same name, tables in use, a
    failing statement of the setup, or a missing table that a script needs, and UsageError for a
    statement that the server refuses, as the load sends it by ``protocol``.
    """
    distinct = list({id(workload): workload for workload in workloads}.values())
    kinds = {workload.tables for workload in distinct}
    # Scripts on other tables get the default, as in pgbench.
    own_kinds = {kind: own for kind, own in OWN.items() if kind in kinds}
    known = wanted.scale_given or Tables.PGBENCH in kinds or own_kinds or wanted.initialize
    prepared = Prepared(wanted.scale if known else 1)
    with ExitStack() as own:
        stack = own if hold is None else hold
        by_default = wanted.initialize and not own_kinds and Tables.MIXED not in kinds
        if Tables.PGBENCH in kinds or own_kinds or by_default:
            lock = stack.enter_context(TableLock(conninfo))
            if Tables.PGBENCH in kinds or by_default:
                _Pgbench(conninfo, wanted, progress, prepared, check_table_space, saved).prepare(
                    distinct, lock
                )
            for each in own_kinds.values():
                prepare_own(
                    each,
                    conninfo,
                    wanted,
                    progress,
                    prepared,
                    lock=lock,
                    check_table_space=check_table_space,
                    saved=saved,
                )
        if Tables.MIXED in kinds:
            prepared.tables = "made" if prepare_mixed(conninfo) else "kept"
        if wanted.setup is not None:
            from pgdyno.workload.setup import run_setup, space_of_made

            if space := space_of_made(wanted):
                check_table_space(space)
            progress(Path(wanted.setup).name, 0, 1)
            run_setup(conninfo, wanted, ours=ours)
            progress(Path(wanted.setup).name, 1, 1)
    scripts = [script for workload in distinct for script in workload.scripts]
    defined = [*INITIAL_VARIABLES, *wanted.variables]
    stops = wanted.refused == "stop"
    if note := check_statements(conninfo, scripts, protocol, defined, stops=stops):
        prepared.notes.append(note)
    if wanted.unlogged:
        progress("unlogged tables", 0, 1)
        with connect(conninfo) as connection, locks_named(connection):
            limit_lock_waits(connection)
            make_unlogged(connection)
        progress("unlogged tables", 1, 1)
    return prepared


class _Pgbench(Struct):
    """Preparation of pgbench's tables in a database."""

    conninfo: ConnInfo
    wanted: WorkloadSpec
    progress: Progress
    prepared: Prepared
    check_table_space: CheckTableSpace
    saved: bool

    def prepare(self, workloads: Iterable[Workload], lock: TableLock) -> None:
        with setup_errors("pgbench's tables"), locks_named(lock.conn):
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
        if self.saved and set(found) == set(PGBENCH_COLUMNS) and _all_ours(found):
            self._refuse_other(found)
            return False
        return not found or (_all_ours(found) and not self._matches_options(found))

    def _matches_options(self, found: Mapping[str, FoundTable]) -> bool:
        """True if pgdyno's tables are complete and have the requested options; if no scale
        is given, larger ones are accepted."""
        mark = mark_of(self._scale_kept(found), self.wanted.init)
        return set(found) == set(PGBENCH_COLUMNS) and all(
            table.comment == mark for table in found.values()
        )

    def _refuse_other(self, found: Mapping[str, FoundTable]) -> None:
        """Refuse tables that differ from those of the saved state."""
        if self.wanted.scale_given:
            require_scale(_scale_of(found), self.wanted.scale)
        if (words := self.wanted.init.in_words()) and not self._matches_options(found):
            raise UsageError(
                f"the tables of the snapshot were made in another way than {words}",
                code="snapshot-tables",
                hint="leave these options out, or save a snapshot with them",
            )

    def _scale_kept(self, found: Mapping[str, FoundTable]) -> int:
        if self.saved:
            return _scale_of(found)
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
        from psycopg import sql

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
            if not self.saved:
                self._vacuum_before_load(lock, found)
        elif builtin or (not self.wanted.scale_given and set(found) == set(PGBENCH_COLUMNS)):
            asked = self.wanted.scale if self.wanted.scale_given else None
            scale = scale_of(conn, found, asked)
            self.prepared.scale = scale
            self.prepared.notes += notes_about(conn, found, scale, asked)
            if words := self.wanted.init.in_words():
                self.prepared.notes.append(
                    f"the existing tables in the database {self.conninfo.database} are used without"
                    f" change; ignored without -i: {words}"
                )
        if self.wanted.vacuum == "all":
            tables = [table.identifier for table in found.values() if table.other_kind is None]
            conn.execute(sql.SQL("vacuum analyze {}").format(sql.SQL(", ").join(tables)))

    def _vacuum_before_load(self, lock: TableLock, found: Mapping[str, FoundTable]) -> None:
        """Empty the history and vacuum the two small tables, as pgbench does before a run."""
        from psycopg import sql

        read_only = lock.conn.execute("show transaction_read_only").fetchone() == ("on",)
        if self.wanted.vacuum == "none" or read_only:
            return
        with lock.try_exclusive() as alone:
            if alone:
                small = [found[name].identifier for name in ("pgbench_branches", "pgbench_tellers")]
                history = found["pgbench_history"].identifier
                lock.conn.execute(sql.SQL("vacuum {}, {}").format(*small))
                try:
                    with owned(lock.conn, [history]):
                        lock.conn.execute(sql.SQL("truncate {}").format(history))
                except SetupError as problem:
                    self.prepared.notes.append(f"not emptied before the load: {problem.message}")
            else:
                self.prepared.notes.append(
                    f"another pgdyno uses the same tables, in the database {self.conninfo.database}"
                )


def _scale_of(found: Mapping[str, FoundTable]) -> int:
    return max(scale_in(table.comment) for table in found.values())


def _all_ours(found: Mapping[str, FoundTable]) -> bool:
    return all(table.ours for table in found.values())
