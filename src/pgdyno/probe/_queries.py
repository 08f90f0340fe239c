"""The probes' SQL: one file per view and range of server versions, named ``view.FIRST-LAST.sql``.

FIRST and LAST are major versions; an open LAST covers every later version, so the query is also
sent to newer servers, and answered or recorded as missing. Columns have the names of the run file's
table ``metric_view``, if there is one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

FILE_NAME = re.compile(r"(?P<name>[a-z_]+)\.(?P<first>\d+)-(?P<last>\d*)\.sql")


@dataclass(frozen=True)
class Query:
    """A probe's SQL and the major versions of the server that it is for."""

    name: str
    first: int
    last: int | None
    text: str

    def covers(self, major: int) -> bool:
        """True if it is for servers of this major version."""
        return self.first <= major and (self.last is None or major <= self.last)


@cache
def all_queries() -> tuple[Query, ...]:
    """Return every SQL file, by name and version. Raises ValueError for another file name."""
    found = []
    for entry in resources.files("pgdyno.probe").joinpath("sql").iterdir():
        parts = FILE_NAME.fullmatch(entry.name)
        if parts is None:
            raise ValueError(f"{entry.name} is not named view.FIRST-LAST.sql")
        last = int(parts["last"]) if parts["last"] else None
        found.append(Query(parts["name"], int(parts["first"]), last, entry.read_text("utf-8")))
    return tuple(sorted(found, key=lambda query: (query.name, query.first)))


def queries_for(major: int) -> dict[str, Query]:
    """Return the queries for a server of this major version, by name."""
    return {query.name: query for query in all_queries() if query.covers(major)}


def first_version(name: str) -> int:
    """Return the first major version that can answer the query of this name."""
    return min(query.first for query in all_queries() if query.name == name)
