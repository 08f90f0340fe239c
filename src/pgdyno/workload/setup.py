"""The user's own setup: a file of SQL that is executed once, before the load."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import SetupError, UsageError
from pgdyno.server import ConnInfo, connect


def run_setup(conninfo: ConnInfo, file: str) -> None:
    """Execute ``file`` on one connection, as ``psql -1 -f`` would: all of it or nothing.

    Raises UsageError when it cannot be read, SetupError with file and line when a statement fails.
    """
    import psycopg

    text = read_setup(file)
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


def read_setup(file: str) -> str:
    """The text of a setup file. Raises UsageError."""
    try:
        return Path(file).expanduser().read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(
            f"the setup {file} cannot be read: {error.strerror}", code="setup-file"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"the setup {file} is not UTF-8 text", code="setup-file") from None
