"""A server that is brought to an age before its load: tables made, ages raised, rows counted.

The rows of all tables are counted before and after, because the server looks at none of them
meanwhile: one that a wrong age put in the future would be invisible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from pgdyno.conduct._target import Target
from pgdyno.conduct.watch import Watcher
from pgdyno.errors import RunError
from pgdyno.record import Recorder
from pgdyno.server import ConnInfo, connect
from pgdyno.server.sql_files import query
from pgdyno.spec.age import ID_NOUNS, Ids

if TYPE_CHECKING:
    import psycopg

    from pgdyno.server.local.aging import Jump

AGED = "age"
"""Kind of the event that records it."""


class Aged(Struct, frozen=True):
    """A server that was brought to an age."""

    jump: Jump
    rows: dict[str, int]
    """Rows of each table, then."""
    log_bytes: int
    """Size of the server's log, of which the rest is about a server of that age."""


def grow_old(target: Target, watcher: Watcher, ids: Ids, age: int) -> Aged:
    """Bring a server of pgdyno to an age, with a restart."""
    from pgdyno.server.local.aging import fast_forward

    assert target.cluster is not None
    watcher.phase(f"raising the age of the oldest {ID_NOUNS[ids]} to {age:,}")
    before = rows_of(target.conninfo)
    log_bytes = target.cluster.log_path.stat().st_size
    jump = fast_forward(target.cluster, ids, age)
    target.facts["postmaster_pid"] = target.cluster.pid
    after = rows_of(target.conninfo)
    if after != before:
        raise RunError(
            f"rows are missing at an age of {jump.after:,}: {_differences(before, after)}",
            code="age-rows",
        )
    return Aged(jump, after, log_bytes)


def note_age(aged: Aged, recorder: Recorder) -> None:
    """Record the age in the run file, with the time that it took if it was raised during the run
    and not before."""
    jump = aged.jump
    detail = asdict(jump) | {"rows": aged.rows}
    del detail["began_ns"]
    during = recorder.at_ms(jump.began_ns) >= 0
    recorder.add_event(
        AGED,
        f"oldest {ID_NOUNS[jump.ids]} brought to an age of {jump.after:,} by pgdyno",
        detail,
        ns=jump.began_ns if during else None,
        duration_ms=jump.seconds * 1000 if during else None,
    )


def rows_of(conninfo: ConnInfo) -> dict[str, int]:
    """Return the rows of each table of users."""
    with connect(conninfo) as conn:
        names = [str(name) for (name,) in conn.execute(query("conduct", "user_tables"))]
        return {name: _rows(conn, name) for name in names}


def _rows(conn: psycopg.Connection, table: str) -> int:
    row = conn.execute(f"select count(*) from {table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def _differences(before: dict[str, int], after: dict[str, int]) -> str:
    return ", ".join(
        f"{name} had {rows:,} and has {after.get(name, 0):,}"
        for name, rows in before.items()
        if after.get(name) != rows
    )
