"""Reads this room's .sql files, and turns refusals of the server into errors that say what for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pgdyno.errors import SetupError


def query(name: str) -> bytes:
    """The text of ``sql/NAME.sql``."""
    return Path(__file__).with_name("sql").joinpath(f"{name}.sql").read_bytes()


@contextlib.contextmanager
def setup_errors(what: str) -> Iterator[None]:
    """Within the block, an error of the server becomes a SetupError about making ``what``."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        message = (error.diag.message_primary or str(error)).strip()
        hint = error.diag.message_hint
        if error.sqlstate == "42501" and "for table" in message:
            hint = "the tables are another role's: run as their owner, or GRANT ALL ON them"
        elif error.sqlstate in ("42501", "3F000"):
            hint = "as a superuser: GRANT USAGE, CREATE ON SCHEMA public TO the role"
        if error.sqlstate == "55P03":
            hint = "another session holds a lock on them: end it, or wait"
        if error.sqlstate == "25006":
            hint = (
                "a standby takes no writes; on a primary it is default_transaction_read_only, of"
                " the role, the database or the server"
            )
        if error.sqlstate == "53100":
            hint = "free some space, or choose a smaller scale with -s"
        raise SetupError(f"cannot set up {what}: {message}", code="tables", hint=hint) from None
