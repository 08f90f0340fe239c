"""Statements by pg_stat_statements: differences of its counts, by the shape of the statements.

Counts are read without texts; texts only of statements that are new and took the most time, and are
kept as shapes, which have no values. The extension's columns depend on its own version, which may
be older than the server. pgdyno's own queries are left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pgdyno.json_types import Row
from pgdyno.probe.statement_shapes import statement_shape
from pgdyno.server.extensions import (
    STATEMENTS,
    extension_in,
    not_created,
    to_create,
    within,
)
from pgdyno.server.sql_files import OWN, query_for
from pgdyno.spec.sql_text import quoted

if TYPE_CHECKING:
    import psycopg

ROOM = "probe"
KEPT = 100
"""Shapes of which one reading has rows; the others are summed."""
OTHERS = "(other statements)"
"""In place of a shape: statements that took less time, or whose texts are gone."""
COUNTS = (
    *("calls", "exec_ms", "plan_ms", "rows", "wal_records", "wal_fpi", "wal_bytes"),
    *("wal_buffers_full", "blocks_read", "blocks_dirtied", "blocks_written"),
    *("local_blocks_dirtied", "temp_blocks", "read_ms", "write_ms", "jit_ms"),
)
"""Columns of the table statement_count; None: not counted by this version, or switched off."""
MAJOR_OF_VERSION = {9: 14, 10: 15, 11: 17, 12: 18}
"""Minor version of the extension → the first major version of PostgreSQL that comes with it."""
_SINCE = "since"
"""Beginning of an entry, which is not a count; None before version 1.11, or for several entries."""
_OF_IO = ("read_ms", "write_ms")
_SHAPE_CHARACTERS = 2000

Counts = dict[str, dict[str, float | None]]
"""Id of a statement → its counts since its entry was made."""
Rise = dict[str, float | None]
"""Counts between two readings."""


class StatementsUnavailable(Exception):
    """The counts cannot be read on this server, or not by this role."""

    def __init__(self, why: str, allow: str) -> None:
        """``allow`` is the statement or setting that would allow it."""
        super().__init__(why)
        self.why = why
        self.allow = allow


class StatementSource(Struct, frozen=True):
    """The extension as a database has it, with the counts that are on."""

    schema: str
    version: str
    major: int
    io: bool
    """False without track_io_timing: times of reads and writes are zero."""
    plan: bool
    """False without pg_stat_statements.track_planning: times of planning are zero."""


def source_of(connection: psycopg.Connection[Any]) -> StatementSource:
    """Return the extension as the connection's database has it. Raises StatementsUnavailable."""
    cursor = _cursor(connection)
    found = extension_in(cursor, STATEMENTS)
    if found is None:
        raise StatementsUnavailable(not_created(STATEMENTS), to_create(STATEMENTS))
    if not found.may_use:
        role = quoted(connection.info.user)
        raise StatementsUnavailable(
            f"the role {role} may not use the schema {found.schema}, which has {STATEMENTS}",
            f"GRANT USAGE ON SCHEMA {found.schema} TO {role}",
        )
    minor = int(re.sub(r"^1\.(\d+).*$|^.*$", r"\1", found.version) or 0)
    if minor < min(MAJOR_OF_VERSION):
        raise StatementsUnavailable(
            f"version {found.version} of the extension {STATEMENTS} is too old",
            f"ALTER EXTENSION {STATEMENTS} UPDATE",
        )
    major = MAJOR_OF_VERSION.get(minor, max(MAJOR_OF_VERSION.values()))
    row = cursor.execute(_query("statement_settings", major)).fetchone()
    assert row is not None
    return StatementSource(found.schema, found.version, major, bool(row["io"]), bool(row["plan"]))


def read_counts(connection: psycopg.Connection[Any], source: StatementSource) -> Counts:
    """Return the counts of all statements of the database. Raises StatementsUnavailable."""
    import psycopg

    try:
        rows = _rows(connection, source, "statement_counts", {})
    except psycopg.errors.ObjectNotInPrerequisiteState:
        raise StatementsUnavailable(
            f"the server has not loaded {STATEMENTS}",
            f"shared_preload_libraries = '{STATEMENTS}', and a restart",
        ) from None
    except psycopg.errors.InsufficientPrivilege:
        role = quoted(connection.info.user)
        raise StatementsUnavailable(
            f"the role {role} may not read {STATEMENTS}", f"GRANT pg_read_all_stats TO {role}"
        ) from None
    off = {*(() if source.io else _OF_IO), *(() if source.plan else ("plan_ms",))}
    names = (*COUNTS, _SINCE)
    return {
        row.pop("id"): {name: None if name in off else row[name] for name in names} for row in rows
    }


def evictions(connection: psycopg.Connection[Any], source: StatementSource) -> int:
    """Return how often statements were evicted as the view was full, since the counters began."""
    (row,) = _rows(connection, source, "statement_evictions", {})
    return int(row["dealloc"])


def counted_since(connection: psycopg.Connection[Any], source: StatementSource) -> str:
    """Return the time when the counters of all statements began, '' if it is not known."""
    (row,) = _rows(connection, source, "statement_evictions", {})
    return str(row["since"])


def read_shapes(
    connection: psycopg.Connection[Any], source: StatementSource, ids: Collection[str]
) -> dict[str, str]:
    """Return the shapes of some statements, '' for pgdyno's own; without those that are gone."""
    texts = read_texts(connection, source, ids, _SHAPE_CHARACTERS)
    return {key: "" if OWN in text else statement_shape(text) for key, text in texts.items()}


def read_texts(
    connection: psycopg.Connection[Any],
    source: StatementSource,
    ids: Collection[str],
    characters: int = 1 << 20,
) -> dict[str, str]:
    """Return the beginnings of the texts of some statements, without those that are gone."""
    values = {"ids": list(ids), "characters": characters}
    rows = _rows(connection, source, "statement_texts", values)
    return {row["id"]: row["text"] for row in rows if row["text"] is not None}


def risen(before: Counts, after: Counts) -> dict[str, Rise]:
    """Return the increase of the counts of each statement that was executed in between.

    An entry with fewer calls than before, or one that begins later, was thrown out, or reset, and
    made again.
    """
    rises = {}
    for key, counts in after.items():
        earlier = before.get(key, {})
        began = earlier.get(_SINCE), counts.get(_SINCE)
        is_new = None not in began and began[0] != began[1]
        if is_new or (counts["calls"] or 0) < (earlier.get("calls") or 0):
            earlier = {}
        rise = {
            name: _difference(counts[name], earlier.get(name)) for name in counts if name != _SINCE
        }
        if (rise["calls"] or 0) > 0:
            rises[key] = rise
    return rises


def _difference(value: float | None, earlier: float | None) -> float | None:
    return None if value is None else max(value - (earlier or 0), 0)


def busiest(rises: Mapping[str, Rise]) -> list[str]:
    """Return the ids, those first that took the most time."""
    return sorted(rises, key=lambda key: -(rises[key]["exec_ms"] or 0.0))


def by_shape(rises: Mapping[str, Rise], shapes: Mapping[str, str]) -> Iterator[tuple[str, Rise]]:
    """Yield the shapes that took the most time with their sums, at last all others together."""
    sums: dict[str, Rise] = {}
    rest: Rise | None = None
    for key, rise in rises.items():
        shape = shapes.get(key)
        if shape is None:
            rest = _sum(rest, rise)
        elif shape:
            sums[shape] = _sum(sums.get(shape), rise)
    first = busiest(sums)
    for shape in first[KEPT:]:
        rest = _sum(rest, sums[shape])
    yield from ((shape, sums[shape]) for shape in first[:KEPT])
    if rest is not None:
        yield OTHERS, rest


def _sum(total: Rise | None, rise: Rise) -> Rise:
    if total is None:
        return rise
    return {
        name: None if value is None and total[name] is None else (value or 0) + (total[name] or 0)
        for name, value in rise.items()
    }


def _cursor(connection: psycopg.Connection[Any]) -> psycopg.Cursor[Row]:
    from psycopg.rows import dict_row

    return connection.cursor(row_factory=dict_row)


def _rows(
    connection: psycopg.Connection[Any], source: StatementSource, name: str, values: Row
) -> list[Row]:
    text = within(source.schema, _query(name, source.major).decode())
    return _cursor(connection).execute(text.encode(), values).fetchall()


def _query(name: str, major: int) -> bytes:
    query = query_for(ROOM, name, major)
    assert query is not None
    return query.text.encode()
