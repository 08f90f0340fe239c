r"""The mark on objects that pgdyno created: a comment, which ``\d+`` and ``\l+`` of psql show.

Only marked objects are ever recreated or removed. The mark is dropped with the table, and a dump
contains it. It is set when a table is created, and changed when the table is complete, so that an
incomplete table is recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

    from pgdyno.spec.workload import InitSpec

_BEGINNING = "made by pgdyno"
_END = "; pgdyno cleanup removes it"
UNFINISHED = f"{_BEGINNING}, unfinished{_END}"
PLAIN = f"{_BEGINNING}{_END}"
"""The mark of objects that have no scale."""
WRITE_PROBE = "pgdyno_write_probe_"
"""With digits after it, the name of the table into which a check commits."""

GOVERNOR_TABLE, GOVERNOR_VIEW = "pgdyno_governor_row", "pgdyno_governor"
"""Names of the relations in which a governor publishes its decision."""


def mark_of(scale: int, init: InitSpec) -> str:
    """Return the mark of pgbench's tables; tables with the same mark have the same contents."""
    details = init.in_words()
    return f"{_BEGINNING} at scale {scale}{', ' if details else ''}{details}{_END}"


def scale_in(comment: str | None) -> int:
    """Return the scale in a mark of pgbench's tables; 0 for any other comment."""
    found = re.match(rf"{_BEGINNING} at scale (\d+)", comment or "")
    return int(found[1]) if found else 0


def is_ours(comment: str | None) -> bool:
    """True if a comment is a mark of pgdyno."""
    return comment is not None and comment.startswith(_BEGINNING) and comment.endswith(_END)


def is_of_write_probe(name: str) -> bool:
    """True if a table has the name of one into which a check commits."""
    return re.fullmatch(rf"{WRITE_PROBE}[0-9a-f]+", name) is not None


def mark(conn: psycopg.Connection, kind: str, names: Iterable[tuple[str, ...]], text: str) -> None:
    """Put the mark ``text`` on each of ``names``, with their schemas if they have any; ``kind`` is
    their kind of object, as in SQL."""
    from psycopg import sql

    statement = sql.SQL("comment on {} {} is {}")
    for name in names:
        conn.execute(statement.format(sql.SQL(kind), sql.Identifier(*name), sql.Literal(text)))
