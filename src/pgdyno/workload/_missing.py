"""Finds tables that a script needs and the database lacks, before the load starts.

Each statement is prepared and thrown away, which makes the server look its names up without
running anything. Scripts that make tables themselves, or expect errors of this kind, are left to
the run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.server import ConnInfo, connect
from pgdyno.workload._found import PGBENCH_COLUMNS, hidden
from pgdyno.workload._model import WeightedScript, Workload

if TYPE_CHECKING:
    import psycopg

_LEFT_ALONE = re.compile(r"\bcreate\b|\binto\s+temp|\\expect\s+42P01", re.IGNORECASE)
# A variable's value does not matter for looking names up, and within quotes nothing does.
_VARIABLE = re.compile(r"(?<![:\w]):[A-Za-z_]\w*")
_UNDEFINED_TABLE = b"42P01"


def check_tables_exist(conninfo: ConnInfo, workload: Workload) -> None:
    """Raise SetupError, with script and table named, for the first table that is not there."""
    from pgdyno._engine import check_script

    with connect(conninfo) as conn:
        for script in workload.scripts:
            statements = check_script(script.text, script.file)["statements"]
            if _LEFT_ALONE.search(script.text):
                continue
            for statement in statements:
                if said := _missing_table(conn, statement):
                    raise _error(script, said, conn)


def _missing_table(conn: psycopg.Connection, statement: str) -> str | None:
    """What the server says about a missing table; ``None`` when none is missing."""
    from psycopg.pq import DiagnosticField, ExecStatus

    result = conn.pgconn.prepare(b"", _VARIABLE.sub("null", statement).encode())
    if result.status != ExecStatus.FATAL_ERROR:
        return None
    if result.error_field(DiagnosticField.SQLSTATE) != _UNDEFINED_TABLE:
        return None
    return (result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")


def _error(script: WeightedScript, said: str, conn: psycopg.Connection) -> SetupError:
    named = re.search(r'"([^"]+)"', said)
    table = named[1] if named else said
    if problem := hidden(conn, [table]):
        problem.message = f"{script.file}: {problem.message}"
        return problem
    hint = "make it there before the run, or name the database that has it with -d"
    if table.removeprefix("public.") in PGBENCH_COLUMNS:
        hint = "-i makes pgbench's tables there"
    return SetupError(
        f"{script.file}: the table {table} is not in the database {conn.info.dbname}",
        code="missing-table",
        hint=hint,
    )
