"""Carrying out the looks of a check on a live server: read-only, none for more than two seconds.

Each query runs in a transaction of its own whose limits it sets itself, so that it works through a
pooler as well. A look that cannot be taken is recorded with the reason and with what would allow
it, and the next one goes on.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pgdyno.json_types import Row
from pgdyno.looks.look import Look, MissingLook, ServerMachine, looks
from pgdyno.record import Recorder
from pgdyno.server.connecting.complaints import primary
from pgdyno.server.extensions import extension_in, not_created, to_create, within
from pgdyno.server.sql_files import query_for
from pgdyno.spec.sql_text import quoted

if TYPE_CHECKING:
    import psycopg

ROOM = "looks"
LIMITS = {
    "statement_timeout": "2s",
    "lock_timeout": "200ms",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "work_mem": "32MB",
}
_ELSEWHERE = MissingLook(
    "the server's processes are not visible on this machine",
    "run pgdyno check on the server's machine, as an account that may read /proc",
)
_DENIED = "42501"
_REASONS = {
    "57014": "it took longer than two seconds",
    "55P03": "an object stayed locked",
    "42P01": "this server does not have the view",
    "42883": "this server does not have the function",
    "42703": "the view lacks a column",
}


class _LookOutcome(Struct, frozen=True):
    """The outcome of a look."""

    rows: list[Row] | None
    missing: MissingLook | None


def take_looks(
    connection: psycopg.Connection[Any],
    recorder: Recorder,
    machine: ServerMachine | None,
    *,
    again: bool = False,
) -> None:
    """Carry out every look that no option asks for, and record its rows, or the reason why there
    are none.

    ``machine`` is None if the server is on another one. ``again`` leaves out those that need not
    last. Raises psycopg.Error if the connection is lost.
    """
    for look in looks():
        if not look.option and (look.lasting or not again):
            started_ns = time.monotonic_ns()
            taken = _from_machine(look, machine) if look.read else _from_server(look, connection)
            record_look(recorder, look.name, started_ns, taken.rows, taken.missing)


def record_look(
    recorder: Recorder,
    name: str,
    started_ns: int,
    rows: list[Row] | None,
    missing: MissingLook | None,
) -> None:
    """Record the outcome of a look that began at monotonic ``started_ns`` and ends now."""
    missing = missing or MissingLook("")
    row = {
        "look": name,
        "duration_ms": (time.monotonic_ns() - started_ns) / 1e6,
        "rows": rows,
        "why": missing.why,
        "allow": missing.allow,
    }
    recorder.add_rows("look", [row], ns=started_ns)


def _from_machine(look: Look, machine: ServerMachine | None) -> _LookOutcome:
    assert look.read is not None
    if machine is None:
        return _LookOutcome(None, _ELSEWHERE)
    try:
        rows = look.read(machine)
    except (OSError, ValueError, KeyError) as error:
        return _LookOutcome(None, MissingLook(f"it cannot be read: {error}"))
    return _LookOutcome(rows, look.hidden(rows))


def _from_server(look: Look, connection: psycopg.Connection[Any]) -> _LookOutcome:
    import psycopg
    from psycopg.rows import dict_row

    major = connection.info.server_version // 10_000
    query = query_for(ROOM, look.name, major)
    if query is None:
        return _LookOutcome(None, MissingLook(f"PostgreSQL {major} does not show it"))
    cursor = connection.cursor(row_factory=dict_row)
    try:
        with connection.transaction():
            cursor.execute(_limits(look).encode())
            rows, missing = _rows(look, query.text, cursor)
            if rows is None:
                return _LookOutcome(None, missing)
    except psycopg.Error as error:
        if connection.closed:
            raise
        return _LookOutcome(None, missing_by(error, _grant(look, cursor)))
    return _LookOutcome(rows, look.hidden(rows))


def _limits(look: Look) -> str:
    settings = {} if look.as_is else LIMITS
    lines = (f"set local {name} = '{value}'" for name, value in settings.items())
    return "; ".join(("set transaction read only", *lines))


def _rows(
    look: Look, query: str, cursor: psycopg.Cursor[Row]
) -> tuple[list[Row] | None, MissingLook | None]:
    """Return the rows of a look, or the role or the extension that it lacks."""
    if look.role and not _has_role(look.role, cursor):
        return None, MissingLook(
            f"this role does not have the rights of {look.role}", _grant(look, cursor)
        )
    if not look.extension:
        return cursor.execute(query.encode()).fetchall(), None
    extension = extension_in(cursor, look.extension)
    if extension is None:
        return None, MissingLook(not_created(look.extension), to_create(look.extension))
    return cursor.execute(within(extension.schema, query).encode(), {}).fetchall(), None


def _has_role(role: str, cursor: psycopg.Cursor[Row]) -> bool:
    row = cursor.execute("select pg_has_role(%s, 'usage') as has", [role]).fetchone()
    return row is not None and bool(row["has"])


def _grant(look: Look, cursor: psycopg.Cursor[Row]) -> str:
    """Return the statement that allows a look to the role of the connection."""
    text = look.grant or f"GRANT {look.role or 'pg_monitor'} TO {{role}}"
    return text.replace("{role}", quoted(cursor.connection.info.user))


def missing_by(error: psycopg.Error, grant: str) -> MissingLook:
    """Return the reason that an error gives; ``grant`` allows it where it was denied."""
    said = primary(error)
    why = _REASONS.get(error.sqlstate or "")
    why = f"{why}: {said}" if why else said
    return MissingLook(why, grant if error.sqlstate == _DENIED else "")
