"""Check before the load what the server would refuse at every execution.

Each statement of the scripts is prepared once and discarded: the server parses it and looks up its
names and types, without executing it. What it refuses is told with its place in the script, all at
once, unless the script expects that error.

An error at a variable that is inserted as text (in the simple protocol) says nothing of the text,
so there only missing names count. An earlier statement may make what a later one needs, or set its
search_path: where a script has other statements than queries, changes of rows and transaction
control, missing names are left to the run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.errors import PgdynoError, SetupError, UsageError
from pgdyno.server import ConnInfo, catalog_first, connect, connect_plain
from pgdyno.workload._found import PGBENCH_COLUMNS, hidden
from pgdyno.workload._model import WeightedScript
from pgdyno.workload._own import OWN
from pgdyno.workload.table_locks import LOCK_NOT_AVAILABLE, limit_lock_waits, locked_table

if TYPE_CHECKING:
    from pgdyno._engine import SentStatement
    from pgdyno.server.connecting.control import Control

_UNDEFINED_TABLE = "42P01"
_NAMES = frozenset((_UNDEFINED_TABLE, "42703", "42883", "42704", "3F000"))
"""SQLSTATEs of tables, columns, functions, other objects and schemas that do not exist."""
_UNKNOWN_TYPE = frozenset(("42725", "42P18"))
"""SQLSTATEs of a parameter whose type the server cannot tell."""
_OF_THE_TEXT = ("0A", "22", "3F", "42", "54")
"""Classes of SQLSTATEs of errors that the text of a statement has; others are of the moment."""
_ORDINARY = re.compile(
    r"(?:\s|/\*.*?\*/)*(?:abort|begin|commit|delete|end|explain|fetch|insert|lock|merge|release"
    r"|rollback|savepoint|select|show|start|table|truncate|update|vacuum|values|with)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Statements that make no object and change no setting, by their first word."""
_INTO_TABLE = re.compile(r"\bselect\b.*\binto\b", re.IGNORECASE | re.DOTALL)
_PARAMETER = re.compile(r"\$\d+")
_VARIABLE = re.compile(r":[A-Za-z_]\w*")
_SHOWN = 10
_WILL_FAIL = "the server refuses statements, and the transactions with them fail:"
_MADE_BY = {
    "pgbench's tables": PGBENCH_COLUMNS,
    **{own.what: own.columns for own in OWN.values()},
}


class _Refusal(Struct, frozen=True):
    """The server's answer to a statement that it does not prepare."""

    script: WeightedScript
    position: int
    """In the text that was sent, from 1; 0 without."""
    place: tuple[int, int]
    """Line and column in the script, from 1."""
    sqlstate: str
    message: str
    hint: str | None

    @property
    def where(self) -> str:
        """The place with the script's file."""
        line, column = self.place
        return f"{self.script.file}:{line}:{column}"

    @property
    def in_words(self) -> str:
        """The place and the message."""
        return f"{self.where}: {self.message}"


def check_statements(
    conninfo: ConnInfo,
    scripts: Iterable[WeightedScript],
    protocol: str,
    defined: Collection[str] = (),
    *,
    stops: bool = True,
) -> str | None:
    """Prepare the statements of the scripts, as the load sends them by the protocol; ``defined``
    are variables that no script need set. Return a note if missing names are left to the run, and
    of statements that the server refuses unless that ``stops`` the load.

    Raises SetupError for a missing table, or one that another session has locked for long, and
    UsageError for other statements that the server refuses.
    """
    from pgdyno._engine import check_script

    refused, makers, scripts = [], set(), list(scripts)
    of_users = any(each.own for each in scripts)
    with connect_plain(conninfo if of_users else catalog_first(conninfo)) as conn:
        limit_lock_waits(conn)
        for script in scripts:
            for statement in check_script(script.text, script.file, [*defined])["sent"]:
                refusal = _refusal(conn, conninfo, script, statement)
                if refusal is None and _may_make(statement):
                    makers.add(script.file)
                if refusal is not None and _is_of_text(refusal, statement, protocol):
                    refused.append(refusal)
    if told := [each for each in refused if not (makers and each.sqlstate in _NAMES)]:
        if not stops:
            return "\n".join((_WILL_FAIL, *_in_lines(told)))
        raise _error(told, conninfo, protocol)
    return _left_to_the_run(sorted(makers)) if makers else None


def _left_to_the_run(makers: Sequence[str]) -> str:
    return (
        f"names in the scripts were not looked up before the load, as statements of"
        f" {', '.join(makers)} may make them"
    )


def _may_make(statement: SentStatement) -> bool:
    """True if a statement may make an object, or change a setting."""
    text = statement["text"]
    return _ORDINARY.match(text) is None or _INTO_TABLE.match(text) is not None


def _refusal(
    conn: Control, conninfo: ConnInfo, script: WeightedScript, statement: SentStatement
) -> _Refusal | None:
    """Prepare a statement; return the server's refusal."""
    from psycopg.pq import DiagnosticField, ExecStatus

    text = statement["parameterized"]
    result = conn.pgconn.prepare(b"", text.encode())
    if result.status != ExecStatus.FATAL_ERROR:
        return None

    def field(which: DiagnosticField) -> str:
        return (result.error_field(which) or b"").decode(errors="replace")

    sqlstate = field(DiagnosticField.SQLSTATE)
    if sqlstate == LOCK_NOT_AVAILABLE:
        with connect(conninfo) as other:
            raise locked_table(other, text)
    position = int(field(DiagnosticField.STATEMENT_POSITION) or 0)
    return _Refusal(
        script=script,
        position=position,
        place=_place(statement, position),
        sqlstate=sqlstate,
        message=field(DiagnosticField.MESSAGE_PRIMARY),
        hint=field(DiagnosticField.MESSAGE_HINT) or None,
    )


def _is_of_text(refusal: _Refusal, statement: SentStatement, protocol: str) -> bool:
    """True if the server refuses the statement at each execution, and the script does not expect
    it."""
    sent, sqlstate = statement["parameterized"], refusal.sqlstate
    if sqlstate == statement["expect"] or not sqlstate.startswith(_OF_THE_TEXT):
        return False
    inserted = protocol == "simple" and sent != statement["text"]
    at = sent[max(0, refusal.position - 1) :]
    if at.startswith(":"):
        # A variable that another script sets, or nobody: there is a warning of these.
        return False
    if inserted or statement["simple_only"]:
        return sqlstate in _NAMES and _PARAMETER.match(at) is None
    return True


def _place(statement: SentStatement, position: int) -> tuple[int, int]:
    """Return line and column, from 1, in the script of a position, from 1, in what was sent; of the
    statement for 0."""
    sent, text = statement["parameterized"], statement["text"]
    at = written = 0
    while at < position - 1:
        parameter, variable = _PARAMETER.match(sent, at), _VARIABLE.match(text, written)
        both = parameter and variable
        at = parameter.end() if parameter and both else at + 1
        written = variable.end() if variable and both else written + 1
    lines = text[:written].split("\n")
    start = statement["column"] if len(lines) == 1 else 1
    return statement["line"] + len(lines) - 1, start + len(lines[-1])


def _error(refused: list[_Refusal], conninfo: ConnInfo, protocol: str) -> PgdynoError:
    """Return the error for the first refusal, with the others behind it."""
    first, others = refused[0], refused[1:]
    if first.sqlstate == _UNDEFINED_TABLE:
        with connect(conninfo) as conn:
            error: PgdynoError = _missing_table(first, conn)
    else:
        expected = f"\\expect {first.sqlstate} before the statement, if the error is wanted"
        if first.sqlstate in _UNKNOWN_TYPE and protocol != "simple":
            expected = "cast the variable, such as :name::int; or -M simple"
        error = UsageError(
            first.in_words,
            code="statement-refused",
            hint=expected if first.sqlstate in _UNKNOWN_TYPE else first.hint or expected,
        )
    error.message = "\n".join((error.message, *_in_lines(others)))
    return error


def _in_lines(refused: Sequence[_Refusal]) -> Iterator[str]:
    yield from (each.in_words for each in refused[:_SHOWN])
    if len(refused) > _SHOWN:
        yield f"and {len(refused) - _SHOWN} more"


def _missing_table(refusal: _Refusal, conn: Control) -> SetupError:
    named = re.search(r'"([^"]+)"', refusal.message)
    table = named[1] if named else refusal.message
    if problem := hidden(conn, [table]):
        problem.message = f"{refusal.where}: {problem.message}"
        return problem
    hint = "create it before the run, or name the database that has it with -d"
    for made, tables in _MADE_BY.items():
        if table.removeprefix("public.") in tables:
            hint = f"-i makes {made} there"
    return SetupError(
        f"{refusal.where}: the table {table} does not exist in the database {conn.info.dbname}",
        code="missing-table",
        hint=hint,
    )
