"""Indexes that tables have in addition, created and dropped again while no load runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pgdyno.dimension._dimension import Context, Dimension, Need, Transition, run_sql
from pgdyno.json_types import Fields
from pgdyno.spec import Change, Spec
from pgdyno.spec.columns import columns_of, trial_index

if TYPE_CHECKING:
    from psycopg import sql

    from pgdyno.server import ConnInfo

Indexes = Mapping[str, str]
"""Table → the columns of its index."""
_KEY = ("workload", "indexes")


class IndexDimension(Dimension):
    """``Change.indexes``, of tables on a server that pgdyno started."""

    id = "indexes"
    order = 25
    live = True
    keys = "workload.indexes.TABLE"

    def owns(self, key: str) -> bool:
        """True if it is ``workload.indexes.TABLE``, where the table may have a schema."""
        parts = key.split(".")
        return tuple(parts[:2]) == _KEY and len(parts) > 2

    def read(self, key: str, value: str, spec: Spec | None) -> Change | None:
        """Read a key and its list of columns."""
        if not self.owns(key):
            return None
        return Change(indexes={key.split(".", 2)[2]: value})

    def enter(self, fields: Fields, change: Change) -> None:
        """Put the indexes among those that the tables have from the start."""
        indexes = dict(change.indexes)
        for key, value in change.spec.items():
            if (read := self.read(key, value, None)) is not None:
                indexes |= read.indexes
        if indexes:
            known = fields.setdefault(_KEY[0], {}).setdefault(_KEY[1], {})
            known.update(indexes)

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``index on orders (customer)``."""
        return [f"index on {table} ({columns})" for table, columns in change.indexes.items()]

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return REWRITE if the indexes differ: rows that a load changes while an index is created
        would make it larger, and their sessions would wait for it."""
        now, wanted = _sides(transition, context)
        return Need.NOTHING if now == wanted else Need.REWRITE

    def apply(self, transition: Transition, context: Context) -> None:
        """Drop the indexes of the last change, and create those of the next."""
        change_indexes(context.server.conninfo, *_sides(transition, context))


DIMENSION = IndexDimension()


def _sides(transition: Transition, context: Context) -> tuple[Indexes, Indexes]:
    """Return the indexes before and after a transition, those of the spec included."""
    base = Change(indexes=context.base.workload.indexes)
    return transition.before.over(base).indexes, transition.after.over(base).indexes


def change_indexes(conninfo: ConnInfo, now: Indexes, wanted: Indexes) -> None:
    """Change the indexes from ``now`` to ``wanted``. Raises SetupError when the server refuses."""
    from psycopg import sql

    for table, columns in now.items():
        if wanted.get(table) != columns:
            name = sql.Identifier(*table.split(".")[:-1], trial_index(table, columns))
            run_sql(conninfo, sql.SQL("drop index {}").format(name).as_string(None))
    for table, columns in wanted.items():
        if now.get(table) != columns:
            run_sql(conninfo, _create(table, columns).as_string(None))


def _create(table: str, columns: str) -> sql.Composed:
    from psycopg import sql

    return sql.SQL("create index {} on {} ({})").format(
        sql.Identifier(trial_index(table, columns)),
        sql.Identifier(*table.split(".")),
        sql.SQL(", ").join(map(sql.Identifier, columns_of(columns))),
    )
