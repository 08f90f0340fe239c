"""The user's own setup: a file of SQL that is executed once, before the load."""

from __future__ import annotations

from pgdyno.errors import SetupError
from pgdyno.server import ConnInfo, connect
from pgdyno.workload._textfile import read_text


def run_setup(conninfo: ConnInfo, file: str, text: str | None = None) -> None:
    """Execute ``file``, or its ``text`` where that is known, on one connection, as ``psql -1 -f``
    would: all of it or nothing.

    Raises UsageError when it cannot be read, SetupError with file and line when a statement fails.
    """
    import psycopg

    text = read_setup(file, text)
    with connect(conninfo) as conn:
        try:
            conn.execute(text.encode())
        except psycopg.Error as problem:
            message = (problem.diag.message_primary or str(problem)).strip()
            place = file
            if problem.diag.statement_position:
                line = text.count("\n", 0, int(problem.diag.statement_position)) + 1
                place = f"{file}:{line}"
            raise SetupError(
                f"{place}: {message}",
                code="setup-failed",
                hint="the setup is executed as one transaction in the database"
                f" {conninfo.database}; nothing of it has stayed",
            ) from None


def read_setup(file: str, text: str | None = None) -> str:
    """The text of a setup file, or ``text`` where that is known. Raises UsageError."""
    return read_text(file, "setup") if text is None else text
