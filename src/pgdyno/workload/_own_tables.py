"""Preparing the tables of pgdyno's own workloads, which the load fills: made, found, or made again.

Like pgbench's tables they are made in the database pgdyno, in any other by an initialization only,
and made again only where they have pgdyno's mark. Progress, limits and result are those of
preparing tables of any kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct, field

from pgdyno.errors import SetupError, UsageError
from pgdyno.server import OWN_DATABASE, ConnInfo
from pgdyno.server.connecting.marks import mark, mark_of, scale_in
from pgdyno.spec.workload import InitSpec
from pgdyno.workload._analyzing import analyze_filled
from pgdyno.workload._found import FoundTable, find_tables, schema_for_new
from pgdyno.workload._made import drop, made_here
from pgdyno.workload._pgbench import OWN_HINT
from pgdyno.workload._queries import setup_errors
from pgdyno.workload.table_locks import locks_named
from pgdyno.workload.table_space import TableSpace

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control
    from pgdyno.spec.workload import WorkloadSpec
    from pgdyno.workload.table_locks import TableLock


Progress = Callable[[str, int, int], None]
"""Called with a label, the amount done and the total amount."""
CheckTableSpace = Callable[[TableSpace], None]
"""Called before tables are made; raises SetupError if they would not fit."""


class Prepared(Struct):
    """The prepared tables."""

    scale: int
    """Scale of pgbench's tables; without them, the value of the scripts' variable."""
    tables: str | None = None
    """``made`` for this run, ``kept`` from an earlier one, or ``theirs``; ``None``: not known."""
    notes: list[str] = field(default_factory=list)
    """Notes for the user about the tables."""


def require_scale(saved: int, wanted: int) -> None:
    """Raise UsageError if the tables of a saved state have another scale than the one wanted."""
    if saved != wanted:
        raise UsageError(
            f"the snapshot has tables of scale {saved:,}, and scale {wanted:,} was requested",
            code="snapshot-scale",
            hint="leave the scale out, or save another snapshot",
        )


class Consistency(Struct, frozen=True):
    """A check of the tables of a workload."""

    counts: Mapping[str, int]
    """Name → number of what they have."""
    broken: Mapping[str, int]
    """Rule in words → number of rows for which it does not hold."""


class OwnTables(Struct, frozen=True):
    """The tables of one workload."""

    name: str
    columns: Mapping[str, Sequence[str]]
    """Table → its columns."""
    make: Callable[[Control, str, WorkloadSpec], None]
    """Creates them in a schema with their first rows, in a transaction, after they were dropped."""
    scale: Callable[[Control, Mapping[str, FoundTable], WorkloadSpec], int]
    """Returns the scale of those that are there. Raises SetupError."""
    space: Callable[[int], TableSpace]
    init: Callable[[WorkloadSpec], InitSpec] = lambda _: InitSpec()
    """Returns the options that they are made with."""
    sequences: Sequence[str] = ()
    routines: Sequence[str] = ()
    check: Callable[[Control], Consistency] | None = None
    """Checks that the tables agree with each other; None: there is no check."""

    @property
    def names(self) -> re.Pattern[str]:
        """The pattern of their names, and of their routines', in a script."""
        return names_of(*self.columns, *self.routines)

    @property
    def what(self) -> str:
        """The tables in words."""
        return f"the tables of {self.name}"


@cache
def names_of(*tables: str) -> re.Pattern[str]:
    """Return the pattern of the names of some tables in a script without comments: not those of
    another schema."""
    names = "|".join(map(re.escape, tables))
    return re.compile(rf"""(?<![\w.:'"])(?:public\.)?"?(?:{names})\b""", re.IGNORECASE)


def prepare_own(
    own: OwnTables,
    conninfo: ConnInfo,
    wanted: WorkloadSpec,
    progress: Progress,
    prepared: Prepared,
    *,
    lock: TableLock,
    check_table_space: CheckTableSpace,
    saved: bool = False,
) -> None:
    """Make the tables if required, otherwise use the existing ones; ``lock`` is kept shared.
    With ``saved``, they are those of a saved state, and have its scale.

    Raises SetupError for tables of these names with other columns, and for missing privileges.
    """
    with setup_errors(own.what), locks_named(lock.conn):
        lock.lock_shared()
        found = find_tables(lock.conn, own.columns)
        _refuse_foreign(own, found, conninfo.database)
        if saved and wanted.scale_given and found:
            require_scale(max(scale_in(table.comment) for table in found.values()), wanted.scale)
        if not _must_make(own, conninfo, wanted, found, saved=saved):
            if len(found) == len(own.columns):
                _use(own, lock.conn, wanted, prepared, found)
            return
        lock.lock_exclusive()
        found = find_tables(lock.conn, own.columns)
        if _must_make(
            own, conninfo, wanted, found, saved=saved
        ):  # Another run may have made them meanwhile.
            check_table_space(own.space(wanted.scale))
            progress(own.what, 0, 2)
            schema = make_own(own, lock.conn, wanted, found.values())
            progress(own.what, 1, 2)
            if wanted.vacuum != "none":
                analyze_filled(lock.conn, [(schema, name) for name in own.columns])
            progress(own.what, 2, 2)
        prepared.tables = "made"
        lock.downgrade()


def make_own(
    own: OwnTables, conn: Control, wanted: WorkloadSpec, dropped: Collection[FoundTable] = ()
) -> str:
    """Make the tables in place of those that are ``dropped``, and return their schema. It is done
    in one transaction, so that existing ones are kept if it fails."""
    from psycopg import sql

    text, schema = mark_of(wanted.scale, own.init(wanted)), schema_for_new(conn)
    tables = [each.identifier for each in dropped]
    sequences = [
        sql.Identifier(each, name)
        for each in sorted({schema, *(table.schema for table in dropped)})
        for name in own.sequences
    ]
    with conn.transaction():
        made = (each.named for each in made_here(conn)) if own.routines else ()
        if routines := [each for each in made if each.name in own.routines]:
            conn.execute(drop("routine", routines))
        for kind, names in (("table", tables), ("sequence", sequences)):
            if names:
                listed = sql.SQL(", ").join(names)
                conn.execute(sql.SQL("drop {} if exists {}").format(sql.SQL(kind), listed))
        own.make(conn, schema, wanted)
        mark(conn, "table", [(schema, name) for name in own.columns], text)
        mark(conn, "sequence", [(schema, name) for name in own.sequences], text)
        mark(conn, "routine", [(schema, name) for name in own.routines], text)
    return schema


def _must_make(
    own: OwnTables,
    conninfo: ConnInfo,
    wanted: WorkloadSpec,
    found: Mapping[str, FoundTable],
    *,
    saved: bool,
) -> bool:
    if wanted.initialize:
        return True
    if conninfo.database != OWN_DATABASE:
        return False
    if not found:
        return True
    if not all(table.ours for table in found.values()):
        return False
    scales = {scale_in(table.comment) for table in found.values()}
    if len(found) != len(own.columns) or len(scales) != 1:
        return True
    if saved:
        return False
    asked = wanted.scale if wanted.scale_given else next(iter(scales))
    text = mark_of(asked, own.init(wanted))
    return any(table.comment != text for table in found.values())


def _refuse_foreign(own: OwnTables, found: Mapping[str, FoundTable], database: str) -> None:
    for name, table in found.items():
        if table.other_kind is not None or list(table.columns) != own.columns[name]:
            kind = table.other_kind or "a table with other columns than pgdyno's"
            raise SetupError(
                f"{table.schema}.{name} in the database {database} is {kind}",
                code="foreign-table",
                hint=OWN_HINT,
            )


def _use(
    own: OwnTables,
    conn: Control,
    wanted: WorkloadSpec,
    prepared: Prepared,
    found: Mapping[str, FoundTable],
) -> None:
    """Use the tables as they are."""
    scale = own.scale(conn, found, wanted)
    prepared.tables = "kept" if all(table.ours for table in found.values()) else "theirs"
    prepared.scale = scale
    if wanted.scale_given and wanted.scale != scale:
        prepared.notes.append(
            f"{own.what} in the database {conn.info.dbname} have scale {scale}, which"
            f" is used; -s {wanted.scale} is ignored"
        )
