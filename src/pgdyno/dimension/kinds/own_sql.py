"""SQL of the user's: statements that make a change while no load runs, and those that undo it."""

from __future__ import annotations

import time
from collections.abc import Iterable

from pgdyno.dimension._dimension import Context, Dimension, Need, Transition
from pgdyno.errors import RunError, SetupError
from pgdyno.json_types import Fields
from pgdyno.record.own import OWN
from pgdyno.spec import Change
from pgdyno.spec.own_sql import title_of_sql

MADE, UNDONE = "made", "undone"


class OwnSql(Dimension):
    """``Change.sql``: what ``make`` and ``undo`` name, on any server."""

    id = "own SQL"
    order = 30
    live = True

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return a title such as ``create index on orders (customer_id)``."""
        return [title_of_sql(change.sql["make"])] if change.sql else []

    def provide(self, change: Change, context: Context, *, under_load: bool) -> None:
        """Make the change and undo it, without a load, so that what the server refuses in either is
        found now. Nothing cheaper tells: whether data fit a constraint is known when it is made."""
        if not change.sql:
            return
        sql = context.server.settings.sql
        sql.require_apply(change.sql["make"])
        if not under_load:
            context.note(f"tried before the load: {title_of_sql(change.sql['make'])}")
            sql.check_undo(change.sql["make"], change.sql["undo"])
            made_s, undone_s = sql.try_out(change.sql["make"], change.sql["undo"])
            _record(context, change, MADE, made_s)
            _record(context, change, UNDONE, undone_s)

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return REWRITE if the SQL differs: a load would wait for its locks, or hold it up."""
        same = transition.before.sql == transition.after.sql
        return Need.NOTHING if same else Need.REWRITE

    def apply(self, transition: Transition, context: Context) -> None:
        """Undo the last change, and make the next. Raises RunError when the server refuses."""
        try:
            if transition.before.sql:
                self._undo(transition.before, context)
            if transition.after.sql:
                self._make(transition.after, context)
        except SetupError as problem:
            if problem.code != "sql-refused":
                raise
            raise RunError(problem.message, code=problem.code, hint=problem.hint) from None

    def _make(self, change: Change, context: Context) -> None:
        sql = context.server.settings.sql
        _record(context, change, MADE, sql.make(change.sql["make"], change.sql["undo"]))

    def _undo(self, change: Change, context: Context) -> None:
        _record(context, change, UNDONE, context.server.settings.sql.take_back())


def _record(context: Context, change: Change, what: str, took_s: float) -> None:
    """Record a change of the server, which no load saw, as an intervention of pgdyno."""
    began_ns = time.monotonic_ns() - round(took_s * 1e9)
    detail = {"sql": what, "ms": round(1000 * took_s, 3)}
    label = f"{what}: {title_of_sql(change.sql['make'])}"
    context.recorder.add_event(OWN, label, detail, ns=began_ns, duration_ms=1000 * took_s)


DIMENSION = OwnSql()
