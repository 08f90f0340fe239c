"""Undoing SQL of the user's that a run has executed, as far as it is in force.

After a kill the server is asked how the transaction ended in which it was made or undone. What ran
outside a transaction may have been made in part: then an object that does not exist is one that
was not made. In all other cases it is an error, since the statements that undo may be wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from pgdyno.errors import SetupError
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.settings._persistent_session import PersistentSession
from pgdyno.server.settings._running_sql import (
    NotTogetherError,
    RefusedError,
    run_one,
    run_together,
    session_of_user,
)
from pgdyno.server.settings._undo import RecordedSql

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

Note = Callable[[RecordedSql], None]
"""Writes how far it has come."""
_POLL_S = 0.05
_UNKNOWN_ID = "22023"
"""SQLSTATE of a transaction ID that the server, put back since, has not yet assigned."""


def name_of_session(run: str) -> str:
    """Return the name of sessions in which a run executes the user's SQL."""
    return f"pgdyno sql {run}"


def undo_sql(session: PersistentSession, run: str, recorded: RecordedSql, note: Note) -> None:
    """Undo the statements that are in force. Raises SetupError with the reason if that
    fails, after which it may be tried again."""
    import psycopg

    try:
        session.end_others(name_of_session(run))
        if not _has_database(session, recorded.database):
            recorded = recorded.at("undone")
        recorded = settle(session, recorded)
        if recorded.state == "undone":
            return note(recorded)
        conninfo = replace(session.conninfo, database=recorded.database)
        return undo_now(conninfo, run, recorded, note)
    except psycopg.Error as error:
        raise SetupError(str(error).strip() or type(error).__name__, code="undo-failed") from None


def settle(session: PersistentSession, recorded: RecordedSql) -> RecordedSql:
    """Return it after the end of a transaction that was under way, whose session has ended."""
    if recorded.xid is None:
        return recorded
    while (status := _status(session, recorded.xid)) == "in progress":
        time.sleep(_POLL_S)
    if status is None:
        # Too long ago for the server to know.
        return recorded.at("begun")
    return recorded.settled(committed=status == "committed")


def undo_now(conninfo: ConnInfo, run: str, recorded: RecordedSql, note: Note) -> None:
    """Run the statements that undo. Raises SetupError, or psycopg.Error if the server is lost."""
    with session_of_user(conninfo, name_of_session(run), recorded.schemas) as conn:
        if recorded.state == "begun":
            for statement in recorded.undo:
                _undo_if_there(conn, statement)
        elif recorded.state == "made":
            try:
                run_together(conn, recorded.undo, lambda xid: note(recorded.at("undoing", xid)))
            except NotTogetherError:
                _undo_each(conn, recorded, note)
        else:
            _undo_each(conn, recorded, note)
    note(recorded.at("undone"))


def _undo_each(conn: Control, recorded: RecordedSql, note: Note) -> None:
    """Run the statements one after the other, where they cannot be run in one transaction."""
    may_be_done = recorded.state == "undoing"
    for number, statement in enumerate(recorded.undo):
        left = replace(recorded, undo=recorded.undo[number:])
        note(left.at("undoing"))
        try:
            run_one(conn, statement)
        except RefusedError as refused:
            if not (may_be_done and refused.is_absence):
                note(left.at("made"))
                raise
        may_be_done = False


def _undo_if_there(conn: Control, statement: str) -> None:
    try:
        run_one(conn, statement)
    except RefusedError as refused:
        if not refused.is_absence:
            raise


def _has_database(session: PersistentSession, name: str) -> bool:
    there = b"select exists (select from pg_database where datname = %(name)s)"
    return bool(session.rows(there, {"name": name})[0][0])


def _status(session: PersistentSession, xid: str) -> str | None:
    """Return "in progress", "committed" or "aborted"; None if the server does not know any more."""
    import psycopg

    try:
        return cast(
            "str | None",
            session.rows(b"select pg_xact_status(%(xid)s::xid8)", {"xid": xid})[0][0],
        )
    except psycopg.Error as error:
        if error.sqlstate != _UNKNOWN_ID:
            raise
        return "aborted"
