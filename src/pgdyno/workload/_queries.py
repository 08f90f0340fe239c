"""Reads this room's .sql files, and turns refusals of the server into errors that say what for."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from pgdyno.errors import SetupError
from pgdyno.server.connecting.complaints import hint_for, primary

_TABLESPACE = re.compile(r'tablespace "?([^"\n]+)')
_TABLESPACE_HINTS = {  # by SQLSTATE
    "42704": "SELECT spcname FROM pg_tablespace lists those that are there; without --tablespace"
    " and --index-tablespace the tables are in the database's own",
    "42501": "as its owner: GRANT CREATE ON TABLESPACE {} TO the role",
}
_OF_ANOTHER = re.compile(r"(?:for|of) (?:table|sequence)")


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
        hint = hint_for(error)
        if error.sqlstate == "42501" and _OF_ANOTHER.search(str(error)):
            hint = "the tables are another role's: run as their owner, or GRANT ALL ON them"
        if place := _TABLESPACE.search(str(error)):
            hint = _TABLESPACE_HINTS.get(error.sqlstate or "", hint)
            hint = hint and hint.format(place[1])
        message = primary(error)
        raise SetupError(f"cannot set up {what}: {message}", code="tables", hint=hint) from None
