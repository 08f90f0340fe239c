"""Extensions of a database, and queries of their views.

An extension's views stand in whatever schema it was created in. That schema is named in the query
and not put on the search_path: where others may create functions and operators in it, those would
be taken for the system's wherever they fit better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.json_types import Row

if TYPE_CHECKING:
    import psycopg

STATEMENTS = "pg_stat_statements"
"""The extension that counts statements by their text."""
_EXTENSION = """
select quote_ident(n.nspname) as schema, e.extversion as version,
       has_schema_privilege(n.oid, 'usage') as may_use
  from pg_extension e
  join pg_namespace n on n.oid = e.extnamespace
 where e.extname = %s
"""


class Extension(Struct, frozen=True):
    """An extension that a database has."""

    schema: str
    """Its schema, quoted."""
    version: str
    may_use: bool
    """False if the role may not name what is in that schema."""


def extension_in(cursor: psycopg.Cursor[Row], name: str) -> Extension | None:
    """Return an extension of the cursor's database; None if it is not created there."""
    row = cursor.execute(_EXTENSION, [name]).fetchone()
    if row is None:
        return None
    return Extension(str(row["schema"]), str(row["version"]), bool(row["may_use"]))


def within(schema: str, query: str) -> str:
    """Return a query with the schema in place of its ``{schema}``, as psycopg takes it with
    values."""
    return query.replace("{schema}", schema.replace("%", "%%"))


def not_created(name: str) -> str:
    """Return the reason for which the view of an extension that was not created cannot be read."""
    return f"the extension {name} is not created in this database"


def to_create(name: str) -> str:
    """Return the steps that make an extension available which the server loads when it starts."""
    return f"CREATE EXTENSION {name}, with it in shared_preload_libraries"
