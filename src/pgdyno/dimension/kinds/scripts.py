"""Scripts of the load, and SQL of the user."""

from __future__ import annotations

import time
from collections.abc import Iterable

from pgdyno.dimension._dimension import Context, Dimension, KeyDimension, Need, Transition
from pgdyno.errors import RunError, SetupError, UsageError
from pgdyno.json_types import Fields
from pgdyno.record.events import OWN
from pgdyno.spec import Change, Spec
from pgdyno.spec.change import title_of_sql


class UpdateLast(KeyDimension):
    """The update of a table as the last statement of its transactions: other scripts for the load.
    The key ``workload.update_last``."""

    id = "update last"
    order = 65
    key = "workload.update_last"

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``counters updated last``."""
        return [f"{table} updated last" for table in self.mine(change).values()]


UPDATE_LAST = UpdateLast()


_WAY, _BATCH = _KEYS = ("workload.ingest", "workload.batch")
_TITLES = {
    "single": "single inserts",
    "multirow": "multi-row inserts",
    "pipeline": "pipelined inserts",
    "copy": "COPY",
}
_WORKLOAD = "ingest"


class Ingest(KeyDimension):
    """The way by which the workload ingest brings rows in, and how many it commits at a time. The
    keys ``workload.ingest`` and ``workload.batch``."""

    id = "ingest"
    order = 66
    two_sided = True
    keys = ", ".join(_KEYS)

    def owns(self, key: str) -> bool:
        """True if it is a key of this dimension."""
        return key in _KEYS

    def read(self, key: str, value: str, spec: Spec | None) -> Change | None:
        """Read a key. Raises UsageError for another workload than ingest."""
        if self.owns(key) and spec is not None and not spec.runs(_WORKLOAD):
            raise UsageError(
                f"{key} is of the workload {_WORKLOAD} only",
                code="not-ingest",
                hint=f"pgdyno compare {_WORKLOAD} --vary {_WAY}=single,copy",
            )
        return super().read(key, value, spec)

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``multi-row inserts, 10 rows per commit``."""
        mine = self.mine(change)
        if way := mine.get(_WAY):
            yield _TITLES.get(way, way)
        if batch := mine.get(_BATCH):
            yield f"{batch} {'row' if batch == '1' else 'rows'} per commit"


INGEST = Ingest()


MADE, UNDONE = "made", "undone"


class OwnSql(Dimension):
    """SQL of the user's: statements that make a change while no load runs, and those that undo it.
    ``Change.sql``: what ``make`` and ``undo`` name, on any server."""

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


OWN_SQL = OwnSql()
