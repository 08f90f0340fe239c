"""Find and remove the objects that pgdyno has made on a server, in every database.

An object is removed if it has both a name that pgdyno uses and its mark. The database ``pgdyno`` is
removed if pgdyno made it and it contains nothing else. Roles are not changed. Drills leave nothing
on existing servers, as they start their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.errors import PgdynoError, RunError, SetupError
from pgdyno.numbers import listed
from pgdyno.server import OWN_DATABASE, ConnInfo, connect, restore_leftovers
from pgdyno.server.connecting.marks import GOVERNOR_TABLE, GOVERNOR_VIEW, is_of_write_probe, is_ours
from pgdyno.server.sql_files import query
from pgdyno.workload._found import MIXED_COLUMNS, PGBENCH_COLUMNS
from pgdyno.workload._made import Named, drop, made_here
from pgdyno.workload._own import OWN
from pgdyno.workload.table_locks import TableLock

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_NAMES = {*PGBENCH_COLUMNS, *MIXED_COLUMNS, "test_table_id", GOVERNOR_TABLE, GOVERNOR_VIEW}
_NAMES |= {name for own in OWN.values() for name in (*own.columns, *own.sequences, *own.routines)}
_FOREIGN_MAX = 3
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")


class Removal(Struct, frozen=True):
    """Objects to remove from a database, or the database itself."""

    database: str
    statements: tuple[sql.Composed, ...]
    what: str
    """Description for the user."""
    whole: bool = False
    """True for the database itself, which is dropped from another one."""


@dataclass
class CleanupPlan:
    """The objects to remove on a server, and those that are kept."""

    removals: list[Removal] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Objects that are kept or could not be checked, with the reason."""


def plan_cleanup(conninfo: ConnInfo) -> CleanupPlan:
    """Search every database that the role can connect to.

    Raises SetupError if the server cannot be reached.
    """
    plan = CleanupPlan()
    with connect(conninfo) as conn:
        databases = conn.execute(query("workload", "databases")).fetchall()
    for name, comment, droppable in databases:
        try:
            with connect(replace(conninfo, database=name)) as conn:
                _plan_database(conn, plan, made_by_us=is_ours(comment), droppable=droppable)
        except PgdynoError as problem:
            plan.kept.append(f"the database {name} could not be checked: {problem.message}")
    return plan


def clean_up(
    conninfo: ConnInfo, leftovers: Sequence[str], plan: CleanupPlan, *, note: Callable[[str], None]
) -> None:
    """Restore the settings ``leftovers`` and carry out the plan; ``note`` gets a sentence for each.

    Does as much as possible, then raises RunError with everything that failed.
    """
    problems = []
    if leftovers:
        try:
            for sentence in restore_leftovers(conninfo):
                note(sentence)
        except PgdynoError as problem:
            problems.append(problem)
    for removal in plan.removals:
        try:
            remove(conninfo, removal)
            note(f"removed: {removal.what}")
        except PgdynoError as problem:
            problem.message = f"{removal.what}: {problem.message}"
            problems.append(problem)
    if problems:
        raise RunError(
            f"not everything was removed: {'; '.join(problem.message for problem in problems)}",
            code="not-removed",
            hint=next((problem.hint for problem in problems if problem.hint), None),
        )


def remove(conninfo: ConnInfo, removal: Removal) -> None:
    """Carry out a removal; ``conninfo`` must name another database than one to be dropped. Raises
    SetupError if the server refuses, or a run uses the tables."""
    import psycopg

    try:
        if removal.whole:
            with connect(conninfo) as conn:
                conn.execute(removal.statements[0])
            return
        with TableLock(replace(conninfo, database=removal.database)) as lock:
            lock.lock_exclusive()
            with lock.conn.transaction():
                for statement in removal.statements:
                    lock.conn.execute(statement)
    except psycopg.Error as error:
        message = (error.diag.message_primary or str(error)).strip()
        raise SetupError(message, code="not-removed", hint=error.diag.message_detail) from None


def outside_own_database(conninfo: ConnInfo) -> ConnInfo:
    """Return a connection to another database than ``pgdyno``, if the role can connect to one."""
    outside = replace(conninfo, database="postgres")
    if conninfo.database != OWN_DATABASE:
        return conninfo
    try:
        connect(outside).close()
    except PgdynoError:
        return conninfo
    return outside


def _plan_database(
    conn: psycopg.Connection, plan: CleanupPlan, *, made_by_us: bool, droppable: bool
) -> None:
    database = conn.info.dbname
    ours, renamed = _made_here(conn)
    for name in renamed:
        plan.kept.append(
            f"{name} in the database {database} was made by pgdyno, but has been renamed"
        )
    if made_by_us:
        foreign = [*_foreign_here(conn, {*ours})]
        if not foreign and droppable:
            plan.removals.append(_whole(database))
            return
        plan.kept.append(_reason_kept(database, foreign))
    if ours:
        plan.removals.append(_parts(database, ours))


def _made_here(conn: psycopg.Connection) -> tuple[dict[Named, str], list[str]]:
    """Return pgdyno's relations and routines, with their kinds, and those that were renamed."""
    ours, renamed = {}, []
    for made in made_here(conn):
        name = made.named.name
        if name in _NAMES or is_of_write_probe(name):
            ours[made.named] = made.kind
        else:
            renamed.append(_shown(made.named.schema, name))
    return ours, renamed


def _foreign_here(conn: psycopg.Connection, ours: set[Named]) -> Iterator[str]:
    for kind, schema, name, arguments in conn.execute(query("workload", "foreign_here")):
        if Named(schema, name, arguments) not in ours:
            yield f"the {kind} {_shown(schema, name) if schema not in ('', name) else name}"


def _reason_kept(database: str, foreign: list[str]) -> str:
    if not foreign:
        return f"the database {database} can only be dropped by its owner, another role"
    shown = listed(foreign, _FOREIGN_MAX)
    return f"the database {database} contains objects that pgdyno did not make: {shown}"


def _whole(database: str) -> Removal:
    from psycopg import sql

    statement = sql.SQL("drop database {}").format(sql.Identifier(database))
    return Removal(database, (statement,), f"the database {database}", whole=True)


def _parts(database: str, ours: dict[Named, str]) -> Removal:
    """Drop views, routines, the tables in one statement, as they may reference each other, and
    sequences."""
    by_kind = {
        kind: [each for each, its_kind in ours.items() if its_kind == kind]
        for kind in ("view", "routine", "table", "sequence")
    }
    statements = tuple(drop(kind, objects) for kind, objects in by_kind.items() if objects)
    shown = [_shown(each.schema, each.name) for objects in by_kind.values() for each in objects]
    return Removal(database, statements, f"in the database {database}: {', '.join(shown)}")


def _shown(schema: str, name: str) -> str:
    """Return a name with its schema, quoted if SQL requires it."""
    from psycopg import sql

    parts = (schema, name)
    return ".".join(
        part if _PLAIN_NAME.fullmatch(part) else sql.Identifier(part).as_string(None)
        for part in parts
    )
