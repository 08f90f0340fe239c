"""Decisions in SQL, for loaders without HTTP: the view ``pgdyno_governor`` over a table of one row.

The view says "pause" unless the session that the row names holds the governor's lock in this
database right now (others may take the lock once a governor was killed), and the row is younger
than ``valid_s`` by the database's own clock; one from the future, after the clock has
jumped back, is not younger. The table is unlogged: the row costs no WAL, and after a crash of the
server there is none. It is written when the decision changes, and often enough to remain valid:
each time takes one transaction ID.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.govern._reading import PATIENCE_S, session_of
from pgdyno.json_types import Row
from pgdyno.results.govern import GovernDecision
from pgdyno.server import connect
from pgdyno.server.connecting.complaints import primary
from pgdyno.server.connecting.exclusive_use import GOVERNOR_KEY
from pgdyno.server.connecting.marks import GOVERNOR_TABLE, GOVERNOR_VIEW, PLAIN, is_ours, mark
from pgdyno.server.sql_files import query_at

if TYPE_CHECKING:
    import psycopg

    from pgdyno.server import ConnInfo

_WRITES_PER_VALIDITY = 3


class _AnothersTableError(SetupError):
    """The error for a table of another role's in the place of the governor's."""


class SqlDecision:
    """The view and its table in ``schema``."""

    def __init__(self, schema: str, valid_s: float) -> None:
        """Nothing is made yet."""
        self._schema = schema
        self._valid_s = valid_s
        self._written: tuple[str, float] | None = None
        self._written_at_s = 0.0
        self._holder = (0, 0)

    def make(self, conn: psycopg.Connection, lock: psycopg.Connection) -> None:
        """Make table and view, or take over those of a governor that was killed; ``lock`` is the
        session that holds the lock in this database. Raises SetupError if the role may not, or
        relations of these names are not pgdyno's."""
        row = lock.execute(query_at(conn, "govern", "own_session")).fetchone()
        assert row is not None
        self._holder = (row[0], row[1])
        self._make(conn)

    def _make(self, conn: psycopg.Connection) -> None:
        import psycopg

        self._written = None
        try:
            with conn.transaction():
                self._drop(conn)
                conn.execute(self._query(conn, "decision_table"))
                conn.execute(self._query(conn, "decision_view"))
                for kind, name in (("table", GOVERNOR_TABLE), ("view", GOVERNOR_VIEW)):
                    mark(conn, kind, [(self._schema, name)], PLAIN)
        except psycopg.Error as problem:
            raise SetupError(
                f"--sql {self._schema}: {primary(problem)}",
                code="govern-view",
                hint=f"the role needs CREATE on the schema {self._schema} of"
                f" {conn.info.dbname}; --sql names another one",
            ) from None

    def write(self, conn: psycopg.Connection, decision: GovernDecision) -> None:
        """Write the row if it says something else, or would soon be too old. Raises psycopg.Error
        and, without the table, which somebody dropped, makes it again."""
        import psycopg

        says, now_s = (decision.decision, decision.share), time.monotonic()
        due_s = self._valid_s / _WRITES_PER_VALIDITY
        if says == self._written and now_s - self._written_at_s < due_s:
            return
        values = {
            "decision": decision.decision,
            "share": decision.share,
            "delay": decision.delay_per_s,
            "why": decision.why,
            "age": decision.age_s or 0.0,
            "valid": self._valid_s,
            "pid": self._holder[0],
            "since": self._holder[1],
        }
        try:
            self._write_row(conn, values)
        except (psycopg.errors.UndefinedTable, _AnothersTableError):
            self._make(conn)
            self._write_row(conn, values)
        self._written, self._written_at_s = says, now_s

    def _write_row(self, conn: psycopg.Connection, values: Row) -> None:
        """Write the row; SetupError if the table is not this role's: the owner of the schema may
        have put one in its place whose triggers would run with the rights of this role."""
        with conn.transaction():
            conn.execute(self._sql(conn, "lock table {table} in row exclusive mode", {}))
            found = self._marked(conn, GOVERNOR_TABLE)
            if found is None or not found[1]:
                raise _AnothersTableError(
                    f"{self._schema}.{GOVERNOR_TABLE} is owned by another role",
                    code="govern-view-taken",
                    hint="another schema is named with --sql",
                )
            conn.execute(self._query(conn, "decision_row", values))

    def _marked(self, conn: psycopg.Connection, name: str) -> tuple[str | None, bool] | None:
        """Return the comment on a relation and whether it is a table of this role; None if there
        is none."""
        marked = query_at(conn, "govern", "decision_mark")
        row = conn.execute(marked, [name, self._schema]).fetchone()
        return None if row is None else (row[0], row[1])

    def remove(self, conn: psycopg.Connection) -> None:
        """Drop view and table."""
        with conn.transaction():
            self._drop(conn)

    def _drop(self, conn: psycopg.Connection) -> None:
        for kind, name in (("view", GOVERNOR_VIEW), ("table", GOVERNOR_TABLE)):
            found = self._marked(conn, name)
            if found is None:
                continue
            if not is_ours(found[0]):
                raise SetupError(
                    f"--sql {self._schema}: {self._schema}.{name} exists, and pgdyno did not make"
                    " it",
                    code="govern-view-taken",
                    hint="name another schema",
                )
            conn.execute(self._sql(conn, f"drop {kind} {{{kind}}}", {}))

    def _sql(self, conn: psycopg.Connection, text: str, values: Row) -> bytes:
        """Return SQL with names and values filled in. It takes no parameters beside them: psycopg
        would look for their marks in the names too, which may contain %."""
        from psycopg import sql

        parts: dict[str, sql.Composable] = {
            "table": sql.Identifier(self._schema, GOVERNOR_TABLE),
            "view": sql.Identifier(self._schema, GOVERNOR_VIEW),
            "key": sql.Literal(GOVERNOR_KEY),
        }
        parts |= {name: sql.Literal(value) for name, value in values.items()}
        return sql.SQL(text).format(**parts).as_bytes(conn)

    def _query(self, conn: psycopg.Connection, name: str, values: Row | None = None) -> bytes:
        return self._sql(conn, query_at(conn, "govern", name).decode(), values or {})


def removed_on(conninfo: ConnInfo, decisions: SqlDecision) -> None:
    """Drop view and table in a session of its own, if the server is there."""
    import psycopg

    try:
        with connect(session_of(conninfo), patience_s=PATIENCE_S) as conn:
            decisions.remove(conn)
    except (SetupError, psycopg.Error):
        return  # `pgdyno cleanup` removes it; until then the view says "pause".
