r"""The mark on what pgdyno made on a server: a comment, which ``\d+`` and ``\l+`` of psql show.

Only what bears it is ever made afresh or removed. It goes when the table goes, and a dump takes it
along. It is set when a table is created, and says what the table is when it is complete, so that
one that was left half made is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

    from pgdyno.spec.tables import InitSpec

_BEGINNING = "made by pgdyno"
_END = "; pgdyno cleanup removes it"
UNFINISHED = f"{_BEGINNING}, unfinished{_END}"
PLAIN = f"{_BEGINNING}{_END}"
"""The mark of what has no scale."""


def mark_of(scale: int, init: InitSpec) -> str:
    """The mark of pgbench's tables: two that have the same one are the same."""
    details = init.in_words()
    return f"{_BEGINNING} at scale {scale}{', ' if details else ''}{details}{_END}"


def scale_in(comment: str | None) -> int:
    """The scale that a mark of pgbench's tables says; 0 for any other comment."""
    found = re.match(rf"{_BEGINNING} at scale (\d+)", comment or "")
    return int(found[1]) if found else 0


def is_ours(comment: str | None) -> bool:
    """True if a comment is a mark of pgdyno's."""
    return comment is not None and comment.startswith(_BEGINNING) and comment.endswith(_END)


def mark(conn: psycopg.Connection, kind: str, names: Iterable[str], text: str) -> None:
    """Put the mark ``text`` on each of the ``names``; ``kind`` is what they are, as in SQL."""
    from psycopg import sql

    statement = sql.SQL("comment on {} {} is {}")
    for name in names:
        conn.execute(statement.format(sql.SQL(kind), sql.Identifier(name), sql.Literal(text)))
