"""The user's setup: an SQL file that is executed once before the load."""

from __future__ import annotations

from pgdyno.errors import SetupError
from pgdyno.server import ConnInfo, connect_plain
from pgdyno.workload._textfile import read_text


def run_setup(conninfo: ConnInfo, file: str, text: str | None = None) -> None:
    """Execute ``file``, or its ``text`` if given, in a single transaction like ``psql -1 -f``.

    Raises UsageError if it cannot be read, SetupError with file and line if a statement fails.
    """
    import psycopg

    text = read_setup(file, text)
    with connect_plain(conninfo) as conn:
        try:
            conn.execute(text.encode())
        except psycopg.Error as problem:
            message = (problem.diag.message_primary or str(problem)).strip()
            position = file
            if problem.diag.statement_position:
                line = text.count("\n", 0, int(problem.diag.statement_position)) + 1
                position = f"{file}:{line}"
            raise SetupError(
                f"{position}: {message}",
                code="setup-failed",
                hint="the setup runs in one transaction in the database"
                f" {conninfo.database}; it was rolled back",
            ) from None


def read_setup(file: str, text: str | None = None) -> str:
    """Return ``text`` if given, else the text of the setup file. Raises UsageError."""
    return read_text(file, "setup") if text is None else text
