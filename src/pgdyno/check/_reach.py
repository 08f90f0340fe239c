"""Reaching the server that a check looks at, read-only and with limits for every statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.errors import SetupError, ThresholdError
from pgdyno.record.facts import ServerFacts
from pgdyno.server import ConnInfo, connect, resolve_conninfo, server_behind, server_facts
from pgdyno.server.connecting.complaints import primary
from pgdyno.server.sql_files import query_at
from pgdyno.server.versions import caution

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

LIMITS = {
    "statement_timeout": "2s",
    "lock_timeout": "200ms",
    "idle_in_transaction_session_timeout": "10s",
    "idle_session_timeout": "0",
    "extra_float_digits": "1",
    "quote_all_identifiers": "off",
}
"""Settings of a check's sessions, which come before those of role and database: these would end
them, round numbers, or have names in quotes."""

PATIENCE_S = 5.0
"""Longer than any answer that statement_timeout allows."""
_SILENT = (
    "the server is stopped, or has too much to do to answer a query of its catalogs: look at its"
    " machine (memory, disks, CPU) and at its log"
)
_LOCKED = "a session has locked a system catalog: find it in pg_locks with psql, and end it"
_TRANSACTION_TIMEOUT_SINCE = 170000


class Where(Struct, frozen=True):
    """A server as the user names it."""

    conninfo: str | None
    """Connection string or URI; None: the server of the environment."""
    control: str | None = None
    """Connection string of the server behind a pooler."""
    cores: float | None = None
    """Cores of its machine, if that is another one."""


class Reached(Struct, frozen=True):
    """A server that answers, with its facts."""

    conninfo: ConnInfo
    """The server itself, also where the user named a pooler; with limits."""
    unlimited: ConnInfo
    """The same without the settings of a check's sessions."""
    facts: ServerFacts


def reach(where: Where, note: Callable[[str], None]) -> Reached:
    """Connect to the server, or where it is a pooler, to the server behind it. Raises
    SetupError for one that does not answer, is too old, or cannot be reached itself, and
    ThresholdError for one that has no connection left: that is what a check is to find.
    """
    entrance = _resolved(where.conninfo)
    conninfo = server_behind(entrance, where.control)
    caution(conninfo.version, note)
    pooled = conninfo is not entrance
    if pooled:
        note(f"checking {conninfo.uri_without_password}, the server behind the pooler")
    with answering(conninfo):
        if not entrance.database_named:
            conninfo = replace(conninfo, database=_busiest(limited(conninfo)))
            note(f"checking the database {conninfo.database}, the busiest one; -d names another")
        facts: ServerFacts = {
            **server_facts(limited(conninfo)),
            "kind": "existing",
            "entrance_uri": entrance.uri_without_password if pooled else None,
            "database_named": entrance.database if entrance.database_named else None,
        }
    if where.cores is not None and not facts.get("is_local"):
        facts["cores"] = where.cores
    return Reached(limited(conninfo), conninfo, facts)


def _resolved(text: str | None) -> ConnInfo:
    with _explained():
        return resolve_conninfo(text)


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors of connecting into those of a check."""
    try:
        yield
    except SetupError as problem:
        if problem.code == "no-server":
            problem.hint = "is it running there? pgdyno check looks at a server that runs"
        if problem.code == "no-connection-left":
            raise ThresholdError(
                problem.message, code="connections-exhausted", hint=problem.hint
            ) from None
        raise


def _busiest(conninfo: ConnInfo) -> str:
    with session(conninfo) as conn:
        row = conn.execute(query_at(conn, "check", "busiest_database")).fetchone()
    return conninfo.database if row is None else str(row[0])


def check_same_server(reached: Reached) -> None:
    """Raise SetupError if the server does not answer any more, or has been restarted: its counters
    say nothing about the time between then."""
    with answering(reached.conninfo), session(reached.conninfo) as conn:
        row = conn.execute("select extract(epoch from pg_postmaster_start_time())::float8")
        started_s = (row.fetchone() or (None,))[0]
    if started_s != reached.facts.get("started_epoch_s"):
        raise SetupError(
            f"{reached.conninfo.uri_without_password}: the server was restarted during the check",
            code="restarted",
            hint="its log says why; check it again",
        )


@contextmanager
def answering(conninfo: ConnInfo) -> Iterator[None]:
    """Raise SetupError for a server that does not answer in time, or not at all any more."""
    import psycopg

    try:
        yield
    except psycopg.Error as problem:
        late = isinstance(problem, psycopg.errors.QueryCanceled)
        said = primary(problem)
        raise SetupError(
            f"{conninfo.uri_without_password}: "
            + (f"no answer within {LIMITS['statement_timeout']}" if late else said),
            code="no-answer",
            hint=_LOCKED if isinstance(problem, psycopg.errors.LockNotAvailable) else _SILENT,
        ) from None


def session(conninfo: ConnInfo, *, read_only: bool = True) -> Control:
    """Connect with values of ``limited``; a server that hangs is given up. Raises SetupError, and
    ThresholdError where no connection is left.

    It is read-only once it is connected, not from the start: a login event trigger (PostgreSQL 17)
    that records logins would refuse it.
    """
    with _explained():
        connection = connect(conninfo, patience_s=PATIENCE_S)
    connection.execute(
        f"set default_transaction_read_only = {'on' if read_only else 'off'}".encode()
    )
    return connection


def limited(conninfo: ConnInfo) -> ConnInfo:
    """Return connection values for sessions whose statements end in time."""
    settings = dict(LIMITS)
    if (conninfo.version or 0) >= _TRANSACTION_TIMEOUT_SINCE:
        settings.setdefault("transaction_timeout", "0")
    listed = " ".join(f"-c {name}={value}" for name, value in settings.items())
    options = f"{conninfo.options.get('options', '')} {listed}".strip()
    return replace(conninfo, options={**conninfo.options, "options": options})
