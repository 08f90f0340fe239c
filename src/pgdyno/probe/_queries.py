"""The probes' SQL: one file per view and range of server versions in ``sql/``.

Columns have the names of the run file's table ``metric_view``, if there is one.
"""

from __future__ import annotations

from pgdyno.server.versioned_sql import Query, queries_of

__all__ = ["Query", "all_queries", "first_version", "queries_for"]


def all_queries() -> tuple[Query, ...]:
    """Return every SQL file but those of extensions, by name and version. Raises ValueError for
    another file name."""
    # Those of an extension's views are asked by ``statements``, which knows their schema.
    return tuple(each for each in queries_of("probe") if not each.name.startswith("statement_"))


def queries_for(major: int) -> dict[str, Query]:
    """Return the queries for a server of this major version, by name."""
    return {query.name: query for query in all_queries() if query.covers(major)}


def first_version(name: str) -> int:
    """Return the first major version that can answer the query of this name."""
    return min(query.first for query in all_queries() if query.name == name)
