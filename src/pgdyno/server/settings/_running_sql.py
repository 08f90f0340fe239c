"""Running SQL of the user's: together in a transaction, or statement by statement where one cannot
be part of one (CREATE INDEX CONCURRENTLY, VACUUM).

The statements run in a session as the user's own ones have it: they find names by the role's
search_path. Nothing else runs in it but what names its schema. No time limit of the role ends an
index build, while a lock that others hold is waited for ``LOCK_WAIT`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdyno.errors import PgdynoError, SetupError, UsageError
from pgdyno.server.connecting.connect import connect_plain
from pgdyno.server.connecting.conninfo import ConnInfo, path_option
from pgdyno.server.settings._persistent_session import without_time_limits
from pgdyno.spec.change import title_of_sql

if TYPE_CHECKING:
    import psycopg

    from pgdyno.server.connecting.control import Control

LOCK_WAIT = "10s"
_PINS = {
    "lock_timeout": LOCK_WAIT,
    "default_transaction_read_only": "off",
    # What the undo record says of a commit is true after a crash too.
    "synchronous_commit": "local",
}
_NOT_TOGETHER = ("25001", "2D000", "55006", "55P04")
"""SQLSTATEs of statements that cannot run in a transaction block, end one, or cannot use what an
earlier statement of it has made."""
_ABSENT = ("42P01", "42704", "42883", "42703", "3F000")
"""SQLSTATEs of tables, other objects, functions, columns and schemas that do not exist."""
_OF_THE_TEXT = ("42", "0A", "3F")
"""Classes of SQLSTATEs of statements that have done nothing: the error comes before any work."""
_LOCKED = "55P03"


class NotTogetherError(Exception):
    """Raised for statements that cannot run in one transaction; nothing of them was done."""


@contextmanager
def session_of_user(
    conninfo: ConnInfo, name: str, schemas: Sequence[str] | None = None
) -> Iterator[Control]:
    """Open a session named ``name`` for the user's SQL. Names are those of ``schemas``, by default
    of the role's search_path. Raises SetupError if it cannot be opened."""
    named = replace(conninfo, options={**conninfo.options, "application_name": name})
    unlimited = without_time_limits(named, **_PINS)
    if schemas is not None:
        options = f"{unlimited.options['options']} {path_option(schemas)}"
        unlimited = replace(unlimited, options={**unlimited.options, "options": options})
    with connect_plain(unlimited) as conn:
        _end_with_client(conn)
        yield conn


def _end_with_client(conn: Control) -> None:
    """Let a statement end soon after this process has been killed, where the server's system can
    tell."""
    import psycopg

    with suppress(psycopg.Error):
        conn.execute(b"set client_connection_check_interval = '1s'")


def schemas_of(conn: Control) -> tuple[str, ...]:
    """Return the schemas in which a session finds names without one."""
    row = conn.execute(b"select pg_catalog.current_schemas(false)").fetchone()
    assert row is not None
    return tuple(row[0])


def run_together(
    conn: Control, statements: Sequence[str], before_commit: Callable[[str], None]
) -> None:
    """Run statements in one transaction, of whose ID ``before_commit`` is told when only the COMMIT
    is left. Raises NotTogetherError, or the error of :func:`refusal`."""
    with conn.transaction():
        for statement in statements:
            run_one(conn, statement, together=True)
        row = conn.execute(b"select pg_catalog.pg_current_xact_id()::pg_catalog.text").fetchone()
        assert row is not None
        before_commit(row[0])


def run_one(conn: Control, statement: str, *, together: bool = False) -> None:
    """Run a statement. Raises as :func:`run_together` does; psycopg.Error if the server is lost."""
    import psycopg

    try:
        conn.execute(statement.encode())
    except psycopg.Error as error:
        if conn.closed or error.sqlstate is None or error.sqlstate.startswith(("08", "57P")):
            raise
        if together and error.sqlstate in _NOT_TOGETHER:
            raise NotTogetherError from None
        raise refusal(statement, error) from None


class RefusedError(SetupError):
    """The error for a statement that the server refuses."""

    sqlstate = ""

    @property
    def is_absence(self) -> bool:
        """True if an object that the statement names does not exist."""
        return self.sqlstate in _ABSENT

    @property
    def is_locked(self) -> bool:
        """True if another session held a lock for too long."""
        return self.sqlstate == _LOCKED

    @property
    def is_of_text(self) -> bool:
        """True if the statement is not valid, or not within a transaction."""
        return self.sqlstate in ("42601", *_NOT_TOGETHER)

    @property
    def did_nothing(self) -> bool:
        """True if the statement was refused before it did anything."""
        return self.sqlstate.startswith(_OF_THE_TEXT)


def refusal(statement: str, error: psycopg.Error) -> RefusedError:
    """Return the error for a statement that the server has refused."""
    said = (error.diag.message_primary or str(error)).strip()
    if error.diag.statement_position:
        said += f", at character {error.diag.statement_position}"
    hint = "; ".join(filter(None, (error.diag.message_detail, error.diag.message_hint)))
    if error.sqlstate == _LOCKED:
        said = f"another session holds a lock that was not released within {LOCK_WAIT}"
        hint = "pg_locks shows who holds it: wait for that session, or end it"
    refused = RefusedError(f"{title_of_sql([statement])}: {said}", code="sql-refused", hint=hint)
    refused.sqlstate = error.sqlstate or ""
    return refused


def check_syntax(conn: Control, statement: str) -> PgdynoError | None:
    """Let the server parse a statement; return the error if it is not one statement of SQL. Names
    are not looked up: statements before it may make them."""
    from psycopg.pq import DiagnosticField, ExecStatus

    result = conn.pgconn.prepare(b"", statement.encode())
    if result.status != ExecStatus.FATAL_ERROR:
        return None

    def field(which: DiagnosticField) -> str:
        return (result.error_field(which) or b"").decode(errors="replace")

    if field(DiagnosticField.SQLSTATE) != "42601":
        return None
    said, at = field(DiagnosticField.MESSAGE_PRIMARY), field(DiagnosticField.STATEMENT_POSITION)
    if "multiple commands" in said or not at:
        said, hint = "is more than one statement", "give each one as an option of its own"
        return UsageError(f"{title_of_sql([statement])}: {said}", code="sql-syntax", hint=hint)
    return UsageError(f"{title_of_sql([statement])}: {said}, at character {at}", code="sql-syntax")
