"""Reading the ages of a server: databases, relations, multixacts, and what keeps them old.

A quick look is one query of pg_database. A slow one also reads what changes slowly, and is made
every ``SLOW_S`` or when the decision changes. No look assigns a transaction ID.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.errors import PgdynoError, SetupError
from pgdyno.govern._client import now_s
from pgdyno.json_types import Row
from pgdyno.results.govern import DatabaseAge, MemberSpace, RelationAge
from pgdyno.server import ConnInfo, connect
from pgdyno.server.sql_files import query_at
from pgdyno.spec.age import members_room
from pgdyno.spec.sql_text import quoted

if TYPE_CHECKING:
    import psycopg

SLOW_S = 10.0
PATIENCE_S = 8.0
"""Longer than any answer that statement_timeout allows."""
_SETTINGS = {
    "statement_timeout": "5s",
    "lock_timeout": "1s",
    "idle_in_transaction_session_timeout": "10s",
    "idle_session_timeout": "0",
    "synchronous_commit": "off",
    "client_connection_check_interval": "1s",
}
"""Before those of role and database."""
_TRANSACTION_TIMEOUT_SINCE = 170000
_RELATIONS = 10
_SHOWN = 10

_MEMBERS_PER_FILE = 32 * 1636
"""Pages of 8 kB in a file, and members on each (multixact.c)."""


class AgeLimits(Struct, frozen=True):
    """The server, and the ages at which it acts by itself."""

    system_identifier: str
    freeze_max_age: int
    multixact_freeze_max_age: int
    failsafe_age: int
    multixact_failsafe_age: int
    autovacuum: bool
    block_size: int
    in_recovery: bool
    sees_sessions: bool


class HorizonHolder(Struct, frozen=True):
    """Something that keeps old rows."""

    kind: Any
    name: str
    age: int
    detail: str
    database: str | None = None
    """The only one in which it keeps them; None: it does in all."""
    rows_age: int | None = None
    """Age of what it keeps in tables that are no catalogs; None: nothing."""

    def keeps(self, database: str, schema: str, age: int) -> bool:
        """Return whether a vacuum of a table of this age would leave it as old as it is."""
        keeps_age = self.age if schema == "pg_catalog" else self.rows_age
        return self.database in (None, database) and (keeps_age or 0) >= age


class Slow(Struct, frozen=True):
    """The addition of a slow look."""

    limits: AgeLimits
    holders: tuple[HorizonHolder, ...] = ()
    relations: tuple[RelationAge, ...] = ()
    members: MemberSpace | None = None
    not_known: tuple[str, ...] = ()


class AgeReading(Struct, frozen=True):
    """A look. ``at_s`` is the time before it was asked, by ``now_s``."""

    at_s: float
    next_xid: int
    next_mxid: int
    databases: tuple[DatabaseAge, ...]
    """The oldest first."""
    slow: Slow
    slow_age_s: float = 0.0
    """Time by which ``slow`` is older."""


def session_of(conninfo: ConnInfo, **other: str) -> ConnInfo:
    """Return connection values for the governor's sessions; ``other`` are settings that differ."""
    settings = {**_SETTINGS, **other}
    if (conninfo.version or 0) >= _TRANSACTION_TIMEOUT_SINCE:
        settings.setdefault("transaction_timeout", "0")
    listed = " ".join(f"-c {name}={value}" for name, value in settings.items())
    options = f"{conninfo.options.get('options', '')} {listed}".strip()
    named = {"application_name": "pgdyno govern", "options": options}
    return replace(conninfo, options={**conninfo.options, **named})


class Reader:
    """Looks at one server, through one session, and a second one in the worst database."""

    def __init__(self, conninfo: ConnInfo, conn: psycopg.Connection) -> None:
        """Use ``reading``."""
        self._conninfo = conninfo
        self._conn = conn
        self._elsewhere: psycopg.Connection | None = None
        self._slow: Slow | None = None
        self._slow_at_s = 0.0

    @property
    def conn(self) -> psycopg.Connection:
        """The session in the database that was named."""
        return self._conn

    def look(self, *, slow: bool = False, worst_too: bool = False) -> AgeReading:
        """Read the ages; ``worst_too`` also reads the relations of the worst database. Raises
        psycopg.Error, and SetupError for a server that has become a standby."""
        at_s = now_s()
        rows = self._rows("ages")
        if rows[0]["in_recovery"]:
            raise is_standby(self._conninfo)
        databases = tuple(
            DatabaseAge(
                database=r["database"],
                connectable=r["connectable"],
                xid_age=r["xid_age"],
                mxid_age=r["mxid_age"],
            )
            for r in rows
        )
        if slow or self._slow is None or at_s - self._slow_at_s >= SLOW_S:
            worst = next((r["database"] for r in rows if r["connectable"]), None)
            self._slow = self._look_slowly(worst if worst_too else None)
            self._slow_at_s = at_s
        ids = (rows[0]["next_xid"], rows[0]["next_mxid"])
        return AgeReading(at_s, *ids, databases[:_SHOWN], self._slow, at_s - self._slow_at_s)

    def _look_slowly(self, worst: str | None) -> Slow:
        limits = AgeLimits(**self._rows("limits")[0])
        not_known = []
        if not limits.sees_sessions:
            not_known.append(
                "old transactions of other roles, and feedback of standbys: GRANT pg_monitor TO"
                f" {self._conninfo.user}"
            )
        members, why = self._members(limits)
        if why:
            not_known.append(why)
        relations = relations_of(self._conn)
        if worst is not None and worst != self._conninfo.database:
            try:
                relations = (*relations, *relations_of(self._session_in(worst)))
            except PgdynoError as problem:
                not_known.append(f"relations of the database {worst}: {problem.message}")
        holders = holders_of(self._conn)
        oldest = sorted(relations, key=lambda each: -max(each.xid_age, each.mxid_age))
        return Slow(limits, holders, tuple(oldest[:_SHOWN]), members, tuple(not_known))

    def _members(self, limits: AgeLimits) -> tuple[MemberSpace | None, str]:
        """Return the space that members of multixacts use; or None and why it is not known."""
        import psycopg

        room = members_room(self._conn.info.server_version)
        if room is None or limits.block_size != 8192:
            return None, ""
        try:
            files = self._rows("members")[0]["files"]
        except psycopg.errors.InsufficientPrivilege:
            return None, (
                "the space for members of multixacts: GRANT EXECUTE ON FUNCTION"
                f" pg_catalog.pg_ls_dir(text) TO {quoted(self._conninfo.user)}"
            )
        used = max(0, files - 1) * _MEMBERS_PER_FILE  # The file in hand may be empty.
        return MemberSpace(used=used, share=used / room), ""

    def _session_in(self, database: str) -> psycopg.Connection:
        if self._elsewhere is None or self._elsewhere.info.dbname != database:
            self.close()
            self._elsewhere = _connected(replace(self._conninfo, database=database))
        return self._elsewhere

    def close(self) -> None:
        """Close the session in the worst database."""
        if self._elsewhere is not None:
            self._elsewhere.close()
            self._elsewhere = None

    def _rows(self, name: str) -> list[Row]:
        return _rows(self._conn, name)


@contextmanager
def reading(conninfo: ConnInfo) -> Iterator[Reader]:
    """Connect to look at a server. Raises SetupError if that fails."""
    with _connected(conninfo) as conn:
        reader = Reader(conninfo, conn)
        try:
            yield reader
        finally:
            reader.close()


def relations_of(conn: psycopg.Connection, count: int = _RELATIONS) -> tuple[RelationAge, ...]:
    """Return the oldest relations of the database of ``conn``."""
    return tuple(
        RelationAge(
            database=conn.info.dbname,
            relation=f"{row['schema']}.{row['name']}",
            toast=row["toast"],
            temporary=row["temporary"],
            xid_age=row["xid_age"],
            mxid_age=row["mxid_age"],
            size_bytes=row["bytes"],
            may_vacuum=row["may_vacuum"],
        )
        for row in relation_rows(conn, count)
    )


def holders_of(conn: psycopg.Connection) -> tuple[HorizonHolder, ...]:
    """Return the holders of the xmin horizon, the oldest first."""
    return tuple(HorizonHolder(**row) for row in _rows(conn, "pins") if row["age"] is not None)


def age_of_table(conn: psycopg.Connection, oid: int) -> int:
    """Return the greatest of a table's ages; 0 if it is gone."""
    rows = _rows(conn, "table_age", {"oid": oid})
    return int(rows[0]["age"]) if rows else 0


def relation_rows(conn: psycopg.Connection, count: int) -> list[Row]:
    """Return the oldest relations as rows, with their names as parts."""
    return _rows(conn, "relations", {"count": count})


def is_standby(conninfo: ConnInfo) -> SetupError:
    """Return the error for a server on which nothing is loaded."""
    return SetupError(
        f"{conninfo.uri_without_password} is a standby: its loaders, and its vacuums, are on the"
        " primary",
        code="govern-standby",
        hint="name the primary; target_session_attrs=primary finds it in a list of hosts",
    )


def _connected(conninfo: ConnInfo) -> psycopg.Connection:
    return connect(session_of(conninfo), patience_s=PATIENCE_S)


def _rows(conn: psycopg.Connection, name: str, values: Row | None = None) -> list[Row]:
    from psycopg.rows import dict_row

    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query_at(conn, "govern", name), values).fetchall()
