"""What the exam measures itself, with all rights and in the same way on both servers.

The counts are the server's: commits, WAL, updated rows, the CPU time of its processes, and those of
``pg_stat_statements``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from msgspec import Struct
from psycopg.rows import namedtuple_row

from exam.machine import cpu_s_of
from pgdyno.capture._texts import is_kept, without_values
from pgdyno.clone.difference import shape_of
from pgdyno.server import ConnInfo
from pgdyno.server.sql_files import OWN

_COUNTS = f"""
select {OWN} (select xact_commit from pg_stat_database where datname = current_database())
       - (select coalesce(sum(calls), 0)::float8 from pg_stat_statements where query ~* '^set ')
         as commits,
       pg_current_wal_insert_lsn() - '0/0' as wal_bytes,
       (select coalesce(sum(n_tup_upd), 0)::float8 from pg_stat_user_tables) as updated,
       (select coalesce(sum(n_tup_hot_upd), 0)::float8 from pg_stat_user_tables) as hot
"""
_STATEMENTS = f"""
select {OWN} query, sum(calls)::float8 as calls, sum(rows)::float8 as rows,
       sum(total_exec_time) as ms
  from pg_stat_statements
 where toplevel and dbid = (select oid from pg_database where datname = current_database())
 group by query
"""
_OF_CATALOGUE = re.compile(r"\bfrom pg_\w+|\bpg_catalog\.", re.IGNORECASE)
"""In statements of pgdyno's and the exam's that have no mark."""
_SETTLED_S = 0.3
"""Time in which backends that end report their counts."""


class Counts(Struct, frozen=True):
    """The counts of a server at a moment. A SET alone is no transaction of these."""

    at_s: float
    commits: float
    cpu_s: float
    wal_bytes: float
    updated: float
    hot: float


class Slice(Struct, frozen=True):
    """What a server did for a transaction, in a time under load."""

    tps: float
    cpu_ms: float
    wal_bytes: float
    hot_share: float | None
    """None: no row was updated."""


class Executed(Struct, frozen=True):
    """A statement, and what was counted of it."""

    text: str
    calls: float
    rows: float
    """Of a call."""
    ms: float
    """In all."""


@contextmanager
def connected(conninfo: ConnInfo) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the exam's own."""
    values = conninfo.kwargs() | {"application_name": "exam"}
    with psycopg.connect(**values, autocommit=True, row_factory=namedtuple_row) as connection:
        yield connection


def counts(connection: psycopg.Connection[Any], postmaster: int) -> Counts:
    """Return the counts of a server now."""
    row = connection.execute(_COUNTS.encode()).fetchone()
    assert row is not None
    return Counts(
        at_s=time.monotonic(),
        commits=row.commits,
        cpu_s=cpu_s_of({postmaster}),
        wal_bytes=float(row.wal_bytes),
        updated=row.updated,
        hot=row.hot,
    )


def settled() -> None:
    """Wait until the sessions of a load that has ended have reported their counts."""
    time.sleep(_SETTLED_S)


def between(before: Counts, after: Counts, seconds: float) -> Slice:
    """Return what was done between two moments, under load for so long."""
    done = max(1.0, after.commits - before.commits)
    updated = after.updated - before.updated
    return Slice(
        tps=(after.commits - before.commits) / seconds,
        cpu_ms=1000 * (after.cpu_s - before.cpu_s) / done,
        wal_bytes=(after.wal_bytes - before.wal_bytes) / done,
        hot_share=(after.hot - before.hot) / updated if updated else None,
    )


def forget_statements(connection: psycopg.Connection[Any]) -> None:
    """Begin to count statements from nothing."""
    connection.execute(f"select {OWN} pg_stat_statements_reset()".encode())


def executed(connection: psycopg.Connection[Any]) -> dict[str, Executed]:
    """Return the statements that read or change rows, by their shapes: those of pgdyno and of the
    exam apart."""
    found: dict[str, Executed] = {}
    for row in connection.execute(_STATEMENTS.encode()):
        if OWN in row.query or not is_kept(row.query) or _OF_CATALOGUE.search(row.query):
            continue
        text = without_values(row.query)
        shape = shape_of(text)
        before = found.get(shape, Executed(text, 0.0, 0.0, 0.0))
        calls = before.calls + row.calls
        rows = (before.calls * before.rows + row.rows) / max(1.0, calls)
        found[shape] = Executed(before.text, calls, rows, before.ms + row.ms)
    return found
