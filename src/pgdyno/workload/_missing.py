"""Check before the load that the tables of scripts exist.

Each statement is prepared and discarded, so the server looks up its names without executing it.
Scripts that make tables, or expect errors of this kind, are not checked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.server import ConnInfo, connect, connect_plain
from pgdyno.workload._found import (
    BUSINESS_COLUMNS,
    ENTITY_COLUMNS,
    INGEST_COLUMNS,
    PGBENCH_COLUMNS,
    hidden,
)
from pgdyno.workload._locked_tables import LOCK_NOT_AVAILABLE, limit_lock_waits, locked_table
from pgdyno.workload._model import WeightedScript, Workload

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control
_UNCHECKED = re.compile(r"\bcreate\b|\binto\s+temp|\\expect\s+42P01", re.IGNORECASE)
# A variable's value does not affect name lookup.
_VARIABLE = re.compile(r"(?<![:\w]):[A-Za-z_]\w*")
_UNDEFINED_TABLE = b"42P01"


def check_tables_exist(conninfo: ConnInfo, workload: Workload) -> None:
    """Raise SetupError with script and table for the first table that does not exist, or is locked
    by another session for long."""
    from pgdyno._engine import check_script

    with connect_plain(conninfo) as conn:
        limit_lock_waits(conn)
        for script in workload.scripts:
            statements = check_script(script.text, script.file)["statements"]
            if _UNCHECKED.search(script.text):
                continue
            for statement in statements:
                if said := _missing_table(conn, statement, conninfo):
                    with connect(conninfo) as other:
                        raise _error(script, said, other)


def _missing_table(conn: Control, statement: str, conninfo: ConnInfo) -> str | None:
    """Return the server's message about a missing table; ``None`` if none is missing."""
    from psycopg.pq import DiagnosticField, ExecStatus

    result = conn.pgconn.prepare(b"", _VARIABLE.sub("null", statement).encode())
    if result.status != ExecStatus.FATAL_ERROR:
        return None
    sqlstate = result.error_field(DiagnosticField.SQLSTATE)
    if sqlstate == LOCK_NOT_AVAILABLE.encode():
        with connect(conninfo) as other:
            raise locked_table(other, statement)
    if sqlstate != _UNDEFINED_TABLE:
        return None
    return (result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")


def _error(script: WeightedScript, said: str, conn: Control) -> SetupError:
    named = re.search(r'"([^"]+)"', said)
    table = named[1] if named else said
    if problem := hidden(conn, [table]):
        problem.message = f"{script.file}: {problem.message}"
        return problem
    hint = "create it before the run, or name the database that has it with -d"
    if table.removeprefix("public.") in PGBENCH_COLUMNS:
        hint = "-i makes pgbench's tables there"
    if table.removeprefix("public.") in BUSINESS_COLUMNS:
        hint = "-i makes the tables of business there"
    if table.removeprefix("public.") in ENTITY_COLUMNS:
        hint = "-i makes the tables of entity-resolution there"
    if table.removeprefix("public.") in INGEST_COLUMNS:
        hint = "-i makes the table of ingest there"
    return SetupError(
        f"{script.file}: the table {table} does not exist in the database {conn.info.dbname}",
        code="missing-table",
        hint=hint,
    )
