"""``VACUUM (FREEZE)`` of the oldest tables while loaders pause, in a thread of its own.

One table after the other, the oldest first, in each database that is too old; a table that a vacuum
works on already is left to it. What something keeps old is left out, by its age or, if that is not
to be seen, for longer and longer after each vacuum in vain. When the pause ends, the table in hand
is the last one. The server ends the session's vacuum if the daemon is killed
(client_connection_check_interval).
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.errors import PgdynoError, SetupError
from pgdyno.govern._reading import (
    HorizonHolder,
    age_of_table,
    holders_of,
    relation_rows,
    session_of,
)
from pgdyno.json_types import Row
from pgdyno.results.govern import GovernDecision, Vacuuming
from pgdyno.server import ConnInfo, connect
from pgdyno.server.connecting.complaints import primary
from pgdyno.spec.sql_text import quoted

if TYPE_CHECKING:
    import psycopg

_TABLES_MAX = 200
_AGAIN_S = 10.0
"""Time after a round that made no table younger than the low mark."""
_IN_VAIN_S_MAX = 600.0
_IN_VAIN_SHARE = 0.1
"""Of the time, at most, for a table whose vacuums are in vain."""
_IN_USE = "55P03"
"""lock_not_available, with which a skipped table is reported."""
_NO_LIMIT = {"statement_timeout": "0", "lock_timeout": "1s", "vacuum_cost_delay": "0"}


class _InVain(Struct, frozen=True):
    """Rest of a table that a vacuum left above the low mark, and its end."""

    rest_s: float
    until_s: float


class Vacuumer:
    """Vacuums while it is asked to. ``close`` ends it, and the vacuum in hand."""

    def __init__(self, conninfo: ConnInfo) -> None:
        """Nothing runs yet."""
        self._conninfo = conninfo
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._conn: psycopg.Connection | None = None
        self._running: str | None = None
        self._done = self._useful = self._useful_before = 0
        self._again_s = 0.0
        self._pins: set[tuple[str, str]] = set()
        self._held: dict[str, int] = {}
        self._in_vain: dict[tuple[str, int], _InVain] = {}
        self._failed: dict[str, str] = {}

    def attend(self, decision: GovernDecision) -> None:
        """Vacuum while ``decision`` is a pause: begin if nothing runs, or let it be the last."""
        if decision.decision != "pause":
            self._ending.set()
            self._held, self._in_vain = {}, {}
        elif decision.worst is not None and (self._thread is None or not self._thread.is_alive()):
            pins = {(str(pin.kind), pin.name) for pin in decision.pins if pin.blocks}
            if self._pins - pins:  # Something has let go.
                self._in_vain, self._again_s = {}, 0.0
            self._pins = pins
            if self._useful == self._useful_before and time.monotonic() < self._again_s:
                return
            self._useful_before, self._again_s = self._useful, time.monotonic() + _AGAIN_S
            self._ending.clear()
            low = decision.marks.low
            self._thread = threading.Thread(
                target=self._vacuum, args=(self._too_old(decision), low), daemon=True
            )
            self._thread.start()

    def _too_old(self, decision: GovernDecision) -> list[str]:
        """Return the databases to vacuum in; if none is too old, members of multixacts are."""
        low = decision.marks.low
        old = [each for each in decision.databases if max(each.xid_age, each.mxid_age) >= low]
        if not old:
            return [self._conninfo.database]
        return [each.database for each in old if each.connectable]

    def state(self) -> Vacuuming:
        """Return the vacuum in progress and those that are done."""
        failed = tuple(f"{name}: {why}" for name, why in self._failed.items())
        held = sum(list(self._held.values()))
        return Vacuuming(running=self._running, done=self._done, held=held, failed=failed)

    def close(self) -> None:
        """Cancel the vacuum in hand and wait for the end of the thread."""
        import psycopg

        self._ending.set()
        conn = self._conn
        if conn is not None:
            try:
                conn.cancel_safe(timeout=3.0)
            except psycopg.Error:
                conn.close()
        if self._thread is not None:
            self._thread.join(timeout=10.0)

    def _vacuum(self, databases: list[str], low: int) -> None:
        """Vacuum in each of the databases; they do not wait for one that refuses."""
        self._held = {name: count for name, count in self._held.items() if name in databases}
        for database in databases:
            if not self._ending.is_set():
                self._vacuum_in(database, low)

    def _vacuum_in(self, database: str, low: int) -> None:
        import psycopg

        where = session_of(replace(self._conninfo, database=database), **_NO_LIMIT)
        try:
            with connect(where) as self._conn:
                for row in self._candidates(self._conn, low):
                    if self._ending.is_set():
                        return
                    self._vacuum_one(self._conn, row, low)
            self._failed.pop(f"database {database}", None)
        except (PgdynoError, psycopg.Error) as problem:
            self._failed[f"database {database}"] = str(problem).splitlines()[0]
        finally:
            self._running, self._conn = None, None

    def _candidates(self, conn: psycopg.Connection, low: int) -> list[Row]:
        """Return tables that are too old, once each, also where only their TOAST table is."""
        found: dict[int, Row] = {}
        held: set[int] = set()
        rows, holders = relation_rows(conn, _TABLES_MAX), holders_of(conn)
        for row in rows:
            if max(row["xid_age"], row["mxid_age"]) < low or row["temporary"]:
                continue
            name = f"{row['schema']}.{row['name']}"
            if not row["may_vacuum"]:
                self._failed[name] = f"the role {self._conninfo.user} may not vacuum it"
            elif self._is_held(conn.info.dbname, row, low, holders):
                held.add(row["oid"])
            else:
                found.setdefault(row["oid"], row)
        self._held = {**self._held, conn.info.dbname: len(held - set(found))}
        return list(found.values())

    def _is_held(
        self, database: str, row: Row, low: int, holders: tuple[HorizonHolder, ...]
    ) -> bool:
        """Return whether to leave a table out."""
        vain = self._in_vain.get((database, row["oid"]))
        if vain is not None and time.monotonic() < vain.until_s:
            return True
        kept = any(each.keeps(database, row["schema"], row["xid_age"]) for each in holders)
        return kept and row["mxid_age"] < low

    def _note_effect(self, conn: psycopg.Connection, oid: int, low: int, began_s: float) -> None:
        """Remember a vacuum that was in vain, for twice as long as the last one."""
        now_s, table = time.monotonic(), (conn.info.dbname, oid)
        if age_of_table(conn, oid) < low:
            self._useful += 1
            self._in_vain.pop(table, None)
            return
        before = self._in_vain.get(table)
        rest_s = min(2 * before.rest_s, _IN_VAIN_S_MAX) if before else _AGAIN_S
        rest_s = max(rest_s, (now_s - began_s) / _IN_VAIN_SHARE)
        self._in_vain[table] = _InVain(rest_s, now_s + rest_s)
        self._held[table[0]] = self._held.get(table[0], 0) + 1

    def _vacuum_one(self, conn: psycopg.Connection, row: Row, low: int) -> None:
        import psycopg
        from psycopg import sql

        self._running = f"{conn.info.dbname}: {row['schema']}.{row['name']}"
        statement = sql.SQL("vacuum (freeze, skip_locked) {}").format(
            sql.Identifier(row["schema"], row["name"])
        )
        try:
            began_s = time.monotonic()
            skipped: list[str | None] = []
            handler = partial(_note_state, skipped)
            conn.add_notice_handler(handler)
            conn.execute(statement)
            conn.remove_notice_handler(handler)
            if _IN_USE not in skipped:
                self._done += 1
                self._failed.pop(f"{row['schema']}.{row['name']}", None)
                self._note_effect(conn, row["oid"], low, began_s)
        except psycopg.errors.QueryCanceled:
            return
        except psycopg.Error as problem:
            if conn.closed:
                raise
            self._failed[f"{row['schema']}.{row['name']}"] = primary(problem)
        finally:
            self._running = None


def _note_state(states: list[str | None], notice: psycopg.errors.Diagnostic) -> None:
    states.append(notice.sqlstate)


def check_rights(conn: psycopg.Connection, user: str) -> str | None:
    """Return a sentence on tables that the role may not vacuum, if there are some; of the oldest.

    Raises SetupError if it may vacuum none of them.
    """
    rows = [row for row in relation_rows(conn, _TABLES_MAX) if not row["temporary"]]
    refused = [f"{row['schema']}.{row['name']}" for row in rows if not row["may_vacuum"]]
    if rows and len(refused) == len(rows):
        newer = conn.info.server_version >= 170000
        grant = (
            f"GRANT pg_maintain TO {quoted(user)}"
            if newer
            else f"GRANT the tables' owner TO {quoted(user)}"
        )
        raise SetupError(
            f"--vacuum: the role {user} may vacuum none of the tables of {conn.info.dbname}",
            code="no-vacuum-right",
            hint=f"as a superuser: {grant}; or leave --vacuum out",
        )
    if not refused:
        return None
    shown = ", ".join(dict.fromkeys(refused[:3]))
    return f"--vacuum: the role {user} may not vacuum {len(refused)} tables, such as {shown}"
