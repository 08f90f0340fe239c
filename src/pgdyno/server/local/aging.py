"""The age of a server of pgdyno: its oldest transaction ID or multixact, made as old as asked.

PostgreSQL compares IDs modulo 2^32 (routine-vacuuming.html, "Preventing Transaction ID Wraparound
Failures"). Instead of assigning two billion IDs, the server is stopped, pg_resetwal raises the next
ID, and the server is started again: no page of a table is touched. The next ID must be the first
of a page of pg_xact or pg_multixact/offsets, which the server creates when it assigns it; in the
middle of a page it would look for one that does not exist.

Autovacuum would take the age back at once, with autovacuum off too. A pin, made before, prevents
that: for transaction IDs a logical replication slot, whose catalog_xmin keeps the system catalogs
from being frozen (the tables of the load are frozen as on any server of that age). Not a prepared
transaction: at the start the server would zero pg_subtrans from that on, 8 kB for 2,048 IDs. For
multixacts, which no slot keeps, it is a prepared transaction, whose row lock is a member of
multixacts to come; transaction IDs do not change then, and there is nothing to zero.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.errors import SetupError, UsageError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.local.account import run_as, server_account
from pgdyno.server.local.cluster import Cluster
from pgdyno.server.sql_files import query
from pgdyno.spec.age import ID_NOUNS, PIN, Ids

if TYPE_CHECKING:
    import psycopg

PLUGIN = "pgoutput"
IDS = 1 << 32
_PER_PAGE: dict[Ids, int] = {"xid": 32_768, "mxid": 2_048}
"""IDs on a page of 8 kB: 2 bits of status each, or an offset of 4 bytes (8 since version 19)."""


class Ages(Struct, frozen=True):
    """The oldest IDs of all databases of a server."""

    xid: int
    """Age of the oldest transaction ID"""
    mxid: int
    oldest_xid: int
    oldest_mxid: int

    def age(self, ids: Ids) -> int:
        """Return the age of one kind of IDs."""
        return self.xid if ids == "xid" else self.mxid

    def oldest(self, ids: Ids) -> int:
        """Return the oldest ID of one kind."""
        return self.oldest_xid if ids == "xid" else self.oldest_mxid


class Jump(Struct, frozen=True):
    """A change of the age, and the time that it took."""

    ids: Ids
    before: int
    after: int
    seconds: float
    """From the order to stop until the server accepts connections again"""
    began_ns: int
    """The order, by the monotonic clock"""


def read_ages(conn: psycopg.Connection) -> Ages:
    """Return the oldest IDs of the server."""
    row = conn.execute(query("server", "oldest_ages")).fetchone()
    assert row is not None
    return Ages(*map(int, row))


def fast_forward(cluster: Cluster, ids: Ids, age: int) -> Jump:
    """Make the oldest ID of a running server ``age`` old and pin it, with a restart.

    Raises UsageError if it is older already, SetupError if something else holds it or the server
    refuses. The server must run with ``PIN_SETTINGS``.
    """
    with connect(cluster.conninfo) as conn:
        _refuse_holders(conn, ids)
        ages = read_ages(conn)
        if ages.age(ids) >= age:
            raise UsageError(
                f"the oldest {ID_NOUNS[ids]} of the server is {ages.age(ids):,} old already, and an"
                f" age of {age:,} was requested; its age can only be raised",
                code="age-reached",
            )
        _pin(conn, ids)
    began_ns = time.monotonic_ns()
    cluster.stop()
    _reset(cluster, ids, ages.oldest(ids), age)
    cluster.start()
    seconds = (time.monotonic_ns() - began_ns) / 1e9
    with connect(cluster.conninfo) as conn:
        return Jump(ids, ages.age(ids), read_ages(conn).age(ids), seconds, began_ns)


def unpin(conn: psycopg.Connection, ids: Ids) -> None:
    """Remove the pin, so that vacuum can freeze everything."""
    if ids == "xid":
        conn.execute("select pg_drop_replication_slot(%s)", [PIN])
    else:
        conn.execute(f"rollback prepared '{PIN}'".encode())


def _refuse_holders(conn: psycopg.Connection, ids: Ids) -> None:
    held = conn.execute(query("server", "age_holders"), {"own": PIN}).fetchall()
    if held:
        names = ", ".join(f'{kind} "{name}"' for kind, name in held)
        raise SetupError(
            f"the age of the oldest {ID_NOUNS[ids]} cannot be raised: {names} holds it, and would"
            " not survive it",
            code="age-held",
            hint="drop it, or do not make it in workload.setup",
        )


def _pin(conn: psycopg.Connection, ids: Ids) -> None:
    """Make the pin, unless an earlier change of the age has."""
    if conn.execute(query("server", "age_pinned"), {"own": PIN}).fetchone() is not None:
        return
    if ids == "xid":
        conn.execute("select pg_create_logical_replication_slot(%s, %s)", [PIN, PLUGIN])
        return
    conn.execute(query("server", "age_row"))
    conn.execute("begin")
    conn.execute("select from public.pgdyno_age for share")
    conn.execute(f"prepare transaction '{PIN}'".encode())


def next_id(ids: Ids, oldest: int, age: int) -> tuple[int, bool]:
    """Return the next ID for an age, the first of a page, and whether that is in the next epoch."""
    page = _PER_PAGE[ids]
    number = -(-(oldest + age) // page) * page
    return number % IDS, number >= IDS


def _reset(cluster: Cluster, ids: Ids, oldest: int, age: int) -> None:
    """Have pg_resetwal raise the next ID of a stopped server."""
    number, next_epoch = next_id(ids, oldest, age)
    options = ["-x", str(number)] if ids == "xid" else ["-m", f"{number},{oldest}"]
    if next_epoch and ids == "xid":
        options += ["-e", "1"]
    binary = cluster.installation.program("pg_resetwal")
    done = run_as(server_account(), [binary, *options, "-D", cluster.data_dir])
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise SetupError(f"the age could not be raised: {reason}", code="age-reset")
