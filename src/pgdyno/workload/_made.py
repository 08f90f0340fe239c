"""Objects of a database that have pgdyno's mark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.server.connecting.marks import is_ours
from pgdyno.server.sql_files import query

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_KINDS = {"v": "view", "S": "sequence", "routine": "routine"}
"""Kinds of objects that are not tables, as the query has them."""


class Named(Struct, frozen=True):
    """A relation or a routine by its name."""

    schema: str
    name: str
    arguments: str | None = None
    """Of a routine, as SQL has them; None for a relation."""

    @property
    def identifier(self) -> sql.Composable:
        """The name in SQL, of a routine with its arguments."""
        from psycopg import sql

        name = sql.Identifier(self.schema, self.name)
        if self.arguments is None:
            return name
        return sql.SQL("{}({})").format(name, sql.SQL(self.arguments))


class Made(Struct, frozen=True):
    """An object with the mark."""

    named: Named
    kind: str
    """As in SQL: table, view, sequence or routine."""


def made_here(conn: psycopg.Connection) -> Iterator[Made]:
    """Yield the objects with the mark, in order of their names."""
    for schema, name, kind, arguments, comment in conn.execute(query("workload", "made_here")):
        if is_ours(comment):
            yield Made(Named(schema, name, arguments), _KINDS.get(kind, "table"))


def drop(kind: str, objects: list[Named]) -> sql.Composed:
    """Return the statement that drops objects of a kind."""
    from psycopg import sql

    listed = sql.SQL(", ").join(each.identifier for each in objects)
    return sql.SQL("drop {} {}").format(sql.SQL(kind), listed)
