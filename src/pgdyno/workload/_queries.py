"""Fill in the .sql files of workloads, and turn errors of the server into setup errors.

Sessions of set-up find names in pg_catalog only (see ``server.connecting.control``), so SQL on
tables names their schema, ``{schema}`` in a file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.server.connecting.complaints import hint_for, primary
from pgdyno.server.sql_files import query
from pgdyno.spec.sql_text import quoted

if TYPE_CHECKING:
    from psycopg import sql

_TABLESPACE = r'tablespace "?([^"\n]+)'
_TABLESPACE_HINTS = {  # by SQLSTATE
    "42704": "SELECT spcname FROM pg_tablespace lists the tablespaces; without --tablespace and"
    " --index-tablespace the database's default is used",
    "42501": "as the owner of the tablespace: GRANT CREATE ON TABLESPACE {} TO the role",
}
_OTHER_OWNER = r"(?:for|of) (?:table|sequence)"


def query_in(schema: str, name: str, **more: sql.Composable) -> sql.Composed:
    """Return ``sql/NAME.sql`` on the tables of a schema; ``more`` are its other placeholders."""
    from psycopg import sql

    return sql.SQL(query("workload", name).decode()).format(schema=sql.Identifier(schema), **more)


def named(schema: str, *names: str) -> sql.Composed:
    """Return the names of relations of a schema, as a list in SQL."""
    from psycopg import sql

    return sql.SQL(", ").join(sql.Identifier(schema, name) for name in names)


def regclass(schema: str, name: str) -> sql.Literal:
    """Return the name of a relation as a literal, for arguments of the type regclass."""
    from psycopg import sql

    return sql.Literal(sql.Identifier(schema, name).as_string(None))


@contextlib.contextmanager
def setup_errors(what: str) -> Iterator[None]:
    """Turn errors of the server within the block into SetupErrors about setting up ``what``."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        hint = hint_for(error)
        if error.sqlstate == "42501" and re.search(_OTHER_OWNER, str(error)):
            hint = "another role owns the tables: run as their owner, or GRANT ALL ON them"
        if tablespace := re.search(_TABLESPACE, str(error)):
            hint = _TABLESPACE_HINTS.get(error.sqlstate or "", hint)
            hint = hint and hint.format(quoted(tablespace[1]))
        message = primary(error)
        raise SetupError(f"cannot set up {what}: {message}", code="tables", hint=hint) from None
