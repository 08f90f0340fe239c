"""Access to the .sql files of rooms, for all versions of the server or, as files
``NAME.FIRST-LAST.sql``, for ranges of them.

FIRST and LAST are major versions; an open LAST covers every later version, so the query is also
sent to newer servers, and answered or recorded as missing. Each text has pgdyno's comment, by which
it is recognised in statistics of the server.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from psycopg import Connection

ROOMS = Path(__file__).parents[1]
FILE_NAME = re.compile(r"(?P<name>[a-z_]+)\.(?P<first>\d+)-(?P<last>\d*)\.sql")
OWN = "/* pgdyno */"
"""Comment in pgdyno's own statements, behind the first word: pg_stat_statements leaves out those
before it."""
_FIRST_WORD = re.compile(r"\A(?:\s|--.*\n)*\w+")


class Query(Struct, frozen=True):
    """SQL, and the major versions of the server that it is for."""

    name: str
    first: int
    last: int | None
    file: Path

    @property
    def text(self) -> str:
        """The SQL, read when it is first asked for: a server needs few of all versions' files."""
        return _text(self.file)

    def covers(self, major: int) -> bool:
        """True if it is for servers of this major version."""
        return self.first <= major and (self.last is None or major <= self.last)


@cache
def _text(file: Path) -> str:
    return _FIRST_WORD.sub(rf"\g<0> {OWN}", file.read_text("utf-8"))


@cache
def queries_of(room: str) -> tuple[Query, ...]:
    """Return every SQL file of a room, by name and version. Raises ValueError for another file
    name."""
    found = []
    for file in ROOMS.joinpath(room, "sql").iterdir():
        parts = FILE_NAME.fullmatch(file.name)
        if parts is None:
            raise ValueError(f"{file.name} is not named NAME.FIRST-LAST.sql")
        last = int(parts["last"]) if parts["last"] else None
        found.append(Query(parts["name"], int(parts["first"]), last, file))
    return tuple(sorted(found, key=lambda query: (query.name, query.first)))


def query_for(room: str, name: str, major: int) -> Query | None:
    """Return the query of this name for a server of this major version."""
    return next((q for q in queries_of(room) if q.name == name and q.covers(major)), None)


def query_at(conn: Connection[Any], room: str, name: str) -> bytes:
    """Return the SQL of this name for the server of a connection, which must have one."""
    found = query_for(room, name, conn.info.server_version // 10_000)
    assert found is not None, f"{name} of {room} is not for this version"
    return found.text.encode()


def query(room: str, name: str) -> bytes:
    """Return the SQL of a room's file ``sql/NAME.sql``, for all versions."""
    return _text(ROOMS / room / "sql" / f"{name}.sql").encode()
