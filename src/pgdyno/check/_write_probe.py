"""The write probe of a check: the time of a commit, divided into network, server and flush.

One client commits one row after the other, like a program without a pool that commits each
statement. Sessions take turns, so that what passes on the machine meanwhile meets all of them: one
asks for ``select 1``, the plain round trip; one inserts and does not wait for the flush of the WAL;
where standbys are waited for, one waits for the server's own flush alone; and one commits as the
server is set. The differences of their means are the parts of a commit.

It writes, and is therefore done only when asked for: into a table of its own, with pgdyno's mark,
which is dropped at the end. Where a publication would send that table's rows to subscribers, which
do not have the table, it is not done, since their replication would stop.
"""

from __future__ import annotations

import secrets
import select
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pgdyno.check._reach import PATIENCE_S, Reached, limited, session
from pgdyno.conduct import hold_stop_signals, stop_signals
from pgdyno.errors import SetupError
from pgdyno.json_types import Row
from pgdyno.looks.look import MissingLook
from pgdyno.looks.looking import missing_by, record_look
from pgdyno.record import Recorder
from pgdyno.record.write_probe import COMMIT, FLUSHED, ROUND_TRIP, UNFLUSHED
from pgdyno.server import ConnInfo
from pgdyno.server.connecting.complaints import primary
from pgdyno.server.connecting.marks import PLAIN, WRITE_PROBE, is_of_write_probe, is_ours, mark
from pgdyno.server.sql_files import query_at
from pgdyno.spec.sql_text import quoted
from pgdyno.workload.table_locks import TableLock

if TYPE_CHECKING:
    import psycopg

    from pgdyno._engine import Histogram

LOOK = "write_probe"
COMMITS_MAX = 6_000
SECONDS_MAX = 3.0
"""Commits, and the time that they take together: as many as an insert of 0.5 ms each has (see the
rule ``slow_commits``)."""
WALL_SECONDS_MAX = 6.0
"""Time of all sessions together, so that a check stays within half a minute."""
_WAYS: Mapping[str, str | None] = {
    ROUND_TRIP: None,
    UNFLUSHED: "off",
    FLUSHED: "local",
    COMMIT: None,
}
"""Measurement of a session → its synchronous_commit; None: as the server is set."""
_writing = partial(session, read_only=False)
_STATEMENT = b"pgdyno_write_probe"
_INSERT = "insert into {} values ($1, 'a row of a few words, as an event or a message has')"


def take_write_probe(reached: Reached, recorder: Recorder, note: Callable[[str], None]) -> None:
    """Commit for some seconds and record the times, or the reason why nothing was written.

    ``note`` gets a sentence if the table cannot be dropped.
    """
    import psycopg

    started_ns = time.monotonic_ns()
    conninfo = limited(reached.unlimited)
    try:
        rows, missing = _probed(conninfo, note)
    except psycopg.Error as error:
        rows, missing = None, missing_by(error, _grant(conninfo))
    except SetupError as problem:  # The server is away, or the tables are in use.
        rows, missing = None, MissingLook(problem.message, problem.hint or "")
    record_look(recorder, LOOK, started_ns, rows, missing)


def _probed(
    conninfo: ConnInfo, note: Callable[[str], None]
) -> tuple[list[Row] | None, MissingLook | None]:
    with _writing(conninfo) as connection:
        if _one(connection, "select pg_is_in_recovery()"):
            return None, MissingLook("a standby accepts no writes", "pgdyno check of its primary")
        if not connection.user_schemas:
            reset = f"ALTER ROLE {quoted(conninfo.user)} RESET search_path"
            return None, MissingLook("search_path names no schema that the role may use", reset)
        schema = connection.user_schemas[0]
        query = query_at(connection, "check", "write_probe_published")
        if published := connection.execute(query, {"schema": schema}).fetchone():
            return None, MissingLook(
                f"the publication {published[0]} would send the table's rows to subscribers, which"
                " do not have the table",
                "ask for it in a database without publications of all tables (-d)",
            )
        standbys = _one(connection, "select current_setting('synchronous_standby_names')") != ""
    with TableLock(conninfo) as lock:
        with lock.try_exclusive() as alone:
            if alone:
                _drop_left(conninfo)
        lock.lock_shared()
        with _own_table(conninfo, schema, note) as table:
            ways = [way for way in _WAYS if standbys or way != FLUSHED]
            return _measured(conninfo, table, ways), None


def _one(connection: psycopg.Connection, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def _drop_left(conninfo: ConnInfo) -> None:
    """Drop tables left by probes that were killed, if this role may: no other probe is at work."""
    import psycopg

    with _writing(conninfo) as connection:
        left = connection.execute(query_at(connection, "check", "write_probe_left")).fetchall()
        for schema, name, comment in left:
            if is_of_write_probe(name) and is_ours(comment):
                with suppress(psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable):
                    connection.execute(f"drop table {quoted(schema)}.{quoted(name)}".encode())


@contextmanager
def _own_table(conninfo: ConnInfo, schema: str, note: Callable[[str], None]) -> Iterator[str]:
    """Make the table, yield its name, and drop it in any case.

    Meanwhile a transaction locks it, so that the owner of its schema cannot put a table of his own
    in its place, whose triggers would run with the rights of the check's role.
    """
    import psycopg

    name = f"{WRITE_PROBE}{secrets.token_hex(4)}"
    table = f"{quoted(schema)}.{quoted(name)}"
    try:
        with _writing(conninfo) as connection:
            with _undisturbed(), connection.transaction():
                text = f"create table {table} (id int8 primary key, payload text)"
                connection.execute(text.encode())
                mark(connection, "table", [(schema, name)], PLAIN)
                made = _oid(connection, table)
            with connection.transaction():
                connection.execute("set local idle_in_transaction_session_timeout = 0")
                connection.execute(f"lock table {table} in row exclusive mode".encode())
                if _oid(connection, table) != made:
                    raise psycopg.errors.ObjectNotInPrerequisiteState(
                        f"another role has replaced the table {table}"
                    )
                yield table
    finally:
        with _undisturbed():
            _drop(conninfo, table, note)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold stop signals until the end of the block."""
    with stop_signals():
        hold_stop_signals()
        yield


def _oid(connection: psycopg.Connection, table: str) -> int:
    row = connection.execute("select %s::regclass::oid", [table]).fetchone()
    assert row is not None
    return int(row[0])


def _drop(conninfo: ConnInfo, table: str, note: Callable[[str], None]) -> None:
    """Drop the table, by a session of its own, as another may be stuck in a statement."""
    import psycopg

    try:
        with _writing(conninfo) as connection:
            connection.execute(f"drop table if exists {table}".encode())
    except (psycopg.Error, SetupError) as problem:
        why = primary(problem) if isinstance(problem, psycopg.Error) else problem.message
        note(
            f"warning: the table {table} of the write probe may be left, since it could not be"
            f" dropped: {why}; pgdyno cleanup removes it, or the next write probe"
        )


def _measured(conninfo: ConnInfo, table: str, ways: list[str]) -> list[Row]:
    """Return a row for each way with its number and times."""
    from pgdyno._engine import Histogram

    with ExitStack() as stack:
        sessions = {way: stack.enter_context(_session(conninfo, table, way)) for way in ways}
        times = {way: Histogram() for way in ways}
        ends_s = time.monotonic() + WALL_SECONDS_MAX
        spent_ns = number = 0
        while number < COMMITS_MAX and spent_ns < 1e9 * SECONDS_MAX and time.monotonic() < ends_s:
            for place, (way, session) in enumerate(sessions.items()):
                took_ns = _executed_ns(session, way, number * len(ways) + place)
                times[way].record(took_ns, 1)
                spent_ns += took_ns if way == COMMIT else 0
            number += 1
    return [_row(way, times[way]) for way in ways]


@contextmanager
def _session(conninfo: ConnInfo, table: str, way: str) -> Iterator[psycopg.Connection]:
    """Connect, with the statement of a way prepared."""
    with _writing(conninfo) as connection:
        if setting := _WAYS[way]:
            connection.execute(f"set synchronous_commit = {setting}".encode())
        text = "select 1" if way == ROUND_TRIP else _INSERT.format(table)
        connection.pgconn.send_prepare(_STATEMENT, text.encode())
        _check(_answer(connection.pgconn), connection)
        yield connection


def _executed_ns(connection: psycopg.Connection, way: str, number: int) -> int:
    """Execute the prepared statement and return the time until its answer, without psycopg's own
    work, which would be as long as that of a short statement."""
    values = None if way == ROUND_TRIP else [str(number).encode()]
    pgconn = connection.pgconn
    began_ns = time.perf_counter_ns()
    pgconn.send_query_prepared(_STATEMENT, values)
    result = _answer(pgconn)
    took_ns = time.perf_counter_ns() - began_ns
    _check(result, connection)
    return took_ns


def _answer(pgconn: psycopg.pq.abc.PGconn) -> psycopg.pq.abc.PGresult:
    """Wait for the result, so that signals are seen meanwhile. Raises psycopg.OperationalError if
    there is no answer for ``PATIENCE_S``."""
    import psycopg

    arrival = select.poll()
    arrival.register(pgconn.socket, select.POLLIN)
    first = None
    while True:
        while pgconn.is_busy():
            if not arrival.poll(PATIENCE_S * 1000):
                raise psycopg.OperationalError(f"no answer for {PATIENCE_S:g} s")
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            assert first is not None
            return first
        first = first or result


def _check(result: psycopg.pq.abc.PGresult, connection: psycopg.Connection) -> None:
    """Raise the error of a result that is one."""
    import psycopg

    if result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
        raise psycopg.errors.error_from_result(result, encoding=connection.info.encoding)


def _row(way: str, times: Histogram) -> Row:
    percentiles = {f"p{each}_ms": times.percentile(each) / 1e6 for each in (50, 95, 99)}
    mean_ms, max_ms = times.mean / 1e6, times.max / 1e6
    return {"way": way, "count": times.count, "mean_ms": mean_ms, **percentiles, "max_ms": max_ms}


def _grant(conninfo: ConnInfo) -> str:
    return f"GRANT CREATE ON SCHEMA public TO {quoted(conninfo.user)}"
