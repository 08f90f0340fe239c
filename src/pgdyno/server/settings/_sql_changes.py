"""Changes of a server by SQL of the user's, made and undone between slices.

On a server that pgdyno did not start, the undo record has the statements before they take effect
(_keeping.py), with the ID of the transaction in which they run: whether it is committed tells,
after a kill, whether there is anything to undo. Statements that cannot be part of a transaction run
alone, and are undone if they may have been made.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from typing import TYPE_CHECKING

from pgdyno.errors import UsageError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.settings._keeping import Keeping
from pgdyno.server.settings._persistent_session import PersistentSession, without_time_limits
from pgdyno.server.settings._running_sql import (
    NotTogetherError,
    RefusedError,
    check_syntax,
    run_one,
    run_together,
    schemas_of,
    session_of_user,
)
from pgdyno.server.settings._undo import RecordedSql
from pgdyno.server.settings._undoing_sql import Note, name_of_session, settle, undo_now, undo_sql
from pgdyno.spec.change import first_word, title_of_sql

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

_CLAUSES = r"(?i)\b(?:concurrently|if\s+exists)\b"
_PROBED = ("drop", "set")


class SqlChanges:
    """The SQL that one run executes on a server."""

    def __init__(self, keeping: Keeping, *, may_apply: bool = True) -> None:
        self._keeping = keeping
        self._may_apply = may_apply
        self._in_force: RecordedSql | None = None
        """On a server of pgdyno; others have it in the undo record."""

    def require_apply(self, make: Sequence[str]) -> None:
        """Raise UsageError if the server may not be changed."""
        if not self._may_apply:
            raise UsageError(
                f"{title_of_sql(make)}: your server is changed by SQL only with --apply",
                code="apply-missing",
                hint="with --apply, the change is undone at the end, also after a crash",
            )

    def check(self, statements: Sequence[str]) -> None:
        """Raise UsageError for the first that is not one statement of SQL. Nothing is executed."""
        with connect(without_time_limits(self._keeping.conninfo)) as conn:
            for statement in statements:
                if (problem := check_syntax(conn, statement)) is not None:
                    raise problem

    def check_undo(self, make: Sequence[str], undo: Sequence[str]) -> None:
        """Raise UsageError if, before the change, there is already what ``undo`` drops: it would be
        lost. Statements that drop are tried in a transaction that is rolled back."""
        if any(first_word(statement) == "drop" for statement in make):
            return
        with self._session() as conn, conn.transaction(force_rollback=True):
            for statement in undo:
                if first_word(statement) not in _PROBED:
                    continue
                try:
                    with conn.transaction():
                        run_one(conn, re.sub(_CLAUSES, "", statement))
                except RefusedError as refused:
                    if refused.is_locked:
                        raise
                    if refused.is_absence or refused.is_of_text:
                        continue
                if first_word(statement) == "drop":
                    raise UsageError(
                        f"{title_of_sql([statement])}: this would drop what is there before the"
                        " change",
                        code="undo-of-others",
                        hint="choose a name that nothing has yet, so that the undo is exact",
                    )

    def try_out(self, make: Sequence[str], undo: Sequence[str]) -> tuple[float, float]:
        """Make the change and undo it; return how many seconds each took. It is rolled back where
        both can be part of one transaction, so that an undo that fails leaves nothing. Raises as
        :meth:`make` does."""
        self.require_apply(make)
        try:
            return self._rolled_back(make, undo)
        except NotTogetherError:
            return self.make(make, undo), self.take_back()

    def _rolled_back(self, make: Sequence[str], undo: Sequence[str]) -> tuple[float, float]:
        with self._session() as conn, conn.transaction(force_rollback=True):
            began_s = time.monotonic()
            for statement in make:
                run_one(conn, statement, together=True)
            made_s = time.monotonic()
            for statement in undo:
                run_one(conn, statement, together=True)
            return made_s - began_s, time.monotonic() - made_s

    def make(self, make: Sequence[str], undo: Sequence[str]) -> float:
        """Make the change, unless it is in force; return how many seconds it took.

        Raises SetupError with the server's reason, psycopg.Error if the server is lost.
        """
        self.require_apply(make)
        began_s = time.monotonic()
        wanted = RecordedSql(tuple(make), tuple(undo), self._keeping.conninfo.database, ())
        if self._keeping.with_undo:
            self._make_with_undo(self._keeping.opened(), wanted)
        elif self._in_force is None:
            self._in_force = self._make(wanted, lambda now: None)
        return time.monotonic() - began_s

    def take_back(self) -> float:
        """Undo the change, if it is in force; return how many seconds it took. Raises as
        :meth:`make` does."""
        began_s = time.monotonic()
        keeping = self._keeping
        if keeping.with_undo:
            if keeping.record is not None and keeping.record.sql is not None:
                undo_sql(keeping.opened(), keeping.record.run, keeping.record.sql, self._note)
        elif self._in_force is not None:
            undo_now(keeping.conninfo, "of pgdyno", self._in_force, lambda now: None)
            self._in_force = None
        return time.monotonic() - began_s

    def _make_with_undo(self, session: PersistentSession, wanted: RecordedSql) -> None:
        """Make it, after an earlier attempt whose end is not known has been settled."""
        record = self._keeping.present_record()
        if record.sql is not None:
            session.end_others(name_of_session(record.run))
            now = settle(session, record.sql)
            if now.state == "made":
                self._note(now)
                return
            if now.state != "undone":
                undo_sql(session, record.run, now, self._note)
        self._make(wanted, self._note)

    def _make(self, wanted: RecordedSql, note: Note) -> RecordedSql:
        """Run the statements that make it; return it as made."""
        with self._session() as conn:
            wanted = wanted.within(schemas_of(conn))
            try:
                run_together(conn, wanted.make, lambda xid: note(wanted.at("making", xid)))
            except NotTogetherError:
                self._make_each(conn, wanted, note)
        made = wanted.at("made")
        note(made)
        return made

    def _make_each(self, conn: Control, wanted: RecordedSql, note: Note) -> None:
        note(wanted.at("begun"))
        for number, statement in enumerate(wanted.make):
            try:
                run_one(conn, statement)
            except RefusedError as refused:
                if refused.did_nothing and number == 0:
                    note(wanted.at("undone"))
                raise

    def _session(self) -> AbstractContextManager[Control]:
        record = self._keeping.record
        return session_of_user(
            self._keeping.conninfo, name_of_session(record.run if record else "of pgdyno")
        )

    def _note(self, now: RecordedSql) -> None:
        """Write how far it has come to the undo record, before it goes further."""
        record = deepcopy(self._keeping.present_record())
        record.sql = now
        if self._keeping.write(record):
            self._keeping.opened().reload()
