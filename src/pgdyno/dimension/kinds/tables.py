"""Tables of the load and their indexes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, LiteralString

from pgdyno.dimension._dimension import Context, Dimension, KeyDimension, Need, Transition, run_sql
from pgdyno.errors import SetupError, UsageError
from pgdyno.json_types import Fields
from pgdyno.spec import Change, Spec
from pgdyno.spec.index_text import checked, each_index, index_text, trial_statements

if TYPE_CHECKING:
    from psycopg import sql

    from pgdyno.server import ConnInfo


class Unlogged(KeyDimension):
    """Unlogged tables: the load's tables are rewritten as unlogged or logged while no load runs.
    The key ``workload.unlogged``."""

    id = "unlogged tables"
    order = 60
    key = "workload.unlogged"

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``unlogged tables``."""
        for value in self.mine(change).values():
            yield "unlogged tables" if value == "true" else "logged tables"

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return REWRITE if the tables must be rewritten."""
        same = transition.spec_before.workload.unlogged == transition.spec_after.workload.unlogged
        return super().needs(transition, context) if same else Need.REWRITE

    def apply(self, transition: Transition, context: Context) -> None:
        """Make the tables unlogged, or make those logged that were made unlogged here."""
        from pgdyno.workload import make_logged, make_unlogged

        if transition.spec_before.workload.unlogged == transition.spec_after.workload.unlogged:
            return
        with context.connect_for_load() as connection:
            if transition.spec_after.workload.unlogged:
                context.remembered[self.id] = make_unlogged(connection)
            else:
                make_logged(connection, context.remembered.get(self.id))


UNLOGGED = Unlogged()


_WORKLOAD = "entity-resolution"


class Partitions(KeyDimension):
    """Partitions of the large tables of entity-resolution, which are copied while no load runs. The
    key ``workload.init.partitions``, on a server that pgdyno started."""

    id = "partitions"
    order = 22
    key = "workload.init.partitions"
    keys = key

    def read(self, key: str, value: str, spec: Spec | None) -> Change | None:
        """Read the key. Raises UsageError for another workload than entity-resolution."""
        if self.owns(key) and spec is not None and not spec.runs(_WORKLOAD):
            raise UsageError(
                f"{self.key} can differ between two sides only with the workload {_WORKLOAD}",
                code="fixed-partitions",
                hint=f"pgdyno compare {_WORKLOAD} --vary {self.key}=8",
            )
        return super().read(key, value, spec)

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``8 partitions``."""
        for value in self.mine(change).values():
            yield "no partitions" if value == "0" else f"{value} partitions"

    def provide(self, change: Change, context: Context, *, under_load: bool) -> None:
        """Refuse to copy the tables of a server that pgdyno did not start."""
        if self.mine(change) and not context.server.ours:
            raise SetupError(
                f"{self.key} cannot differ between two sides on an existing server, whose"
                " tables would have to be copied",
                code="partitions-of-others",
                hint="compare on a server started by pgdyno: name no database",
            )

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return REWRITE if the numbers differ."""
        return Need.NOTHING if _same(transition) else Need.REWRITE

    def apply(self, transition: Transition, context: Context) -> None:
        """Copy the tables into others, with all rows that the load has inserted."""
        from pgdyno.workload import repartition

        if _same(transition):
            return
        with context.connect_for_load() as connection:
            repartition(connection, transition.spec_after.workload)


PARTITIONS = Partitions()


def _same(transition: Transition) -> bool:
    before, after = transition.spec_before.workload, transition.spec_after.workload
    return before.init.partitions == after.init.partitions


Options = Mapping[str, Mapping[str, str]]
"""Table → its storage parameters."""
_TABLE_OPTIONS_KEY = ("workload", "table_options")
_FILL = "fillfactor"


class TableOptions(Dimension):
    """Storage parameters of tables, set by ALTER TABLE … SET and restored to those of the spec.
    ``Change.table_options``."""

    id = "table options"
    order = 20
    live = True
    keys = "workload.table_options.TABLE.NAME"

    def owns(self, key: str) -> bool:
        """True if it is ``workload.table_options.TABLE.NAME``."""
        parts = key.split(".")
        return tuple(parts[:2]) == _TABLE_OPTIONS_KEY and len(parts) > 3

    def read(self, key: str, value: str, spec: Spec | None) -> Change | None:
        """Read a key whose table may have a schema."""
        if not self.owns(key):
            return None
        *table, name = key.split(".")[2:]
        return Change(table_options={".".join(table): {name: value}})

    def enter(self, fields: Fields, change: Change) -> None:
        """Set the tables' initial options."""
        options = dict(change.table_options)
        for key, value in change.spec.items():
            if (read := self.read(key, value, None)) is not None:
                options = dict(read.over(Change(table_options=options)).table_options)
        if not options:
            return
        tables = fields.setdefault(_TABLE_OPTIONS_KEY[0], {}).setdefault(_TABLE_OPTIONS_KEY[1], {})
        for table, values in options.items():
            tables[table] = {**tables.get(table, {}), **values}

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``pgbench_accounts: fillfactor = 90``."""
        for table, options in change.table_options.items():
            yield from (f"{table}: {name} = {value}" for name, value in options.items())

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return REWRITE if pages of a server started by pgdyno get another fillfactor, RELOAD if
        other options differ: the load continues, existing rows do not move."""
        if _rewritten(*_table_options_sides(transition, context)) and context.server.ours:
            return Need.REWRITE
        same = transition.before.table_options == transition.after.table_options
        return Need.NOTHING if same else Need.RELOAD

    def apply(self, transition: Transition, context: Context) -> None:
        """Reset options that are not in the spec, set the others; rewrite tables of a server
        started by pgdyno whose fillfactor differs, since pages filled under the other side's would
        serve this one as well."""
        now, wanted = _table_options_sides(transition, context)
        alter_tables(context.server.of_load, now, wanted)
        if not context.server.ours:
            return
        for table in _rewritten(now, wanted):
            context.run_sql(_vacuum_full(table))


TABLE_OPTIONS = TableOptions()


def _table_options_sides(transition: Transition, context: Context) -> tuple[Options, Options]:
    """Return the options before and after a transition, those of the spec included."""
    base = Change(table_options=context.base.workload.table_options)
    before, after = transition.before.over(base), transition.after.over(base)
    return before.table_options, after.table_options


def _rewritten(now: Options, wanted: Options) -> list[str]:
    """Return the tables whose fillfactor differs."""
    return sorted(
        table
        for table in {*now, *wanted}
        if now.get(table, {}).get(_FILL) != wanted.get(table, {}).get(_FILL)
    )


def _vacuum_full(table: str) -> str:
    from psycopg import sql

    named = sql.SQL("vacuum (full, analyze) {}").format(sql.Identifier(*table.split(".")))
    return named.as_string(None)


def alter_tables(conninfo: ConnInfo, now: Options, wanted: Options) -> None:
    """Change the options from ``now`` to ``wanted``. Raises SetupError when the server refuses."""
    for statement in _statements(now, wanted):
        run_sql(conninfo, statement)


def _statements(now: Options, wanted: Options) -> Iterator[str]:
    from psycopg import sql

    for table, options in now.items():
        if gone := sorted(set(options) - set(wanted.get(table, {}))):
            names = sql.SQL(", ").join(sql.Identifier(name) for name in gone)
            yield _alter(table, "reset", names)
    for table, options in wanted.items():
        known = now.get(table, {})
        values = [
            sql.Identifier(name) + sql.SQL(" = ") + sql.Literal(value)
            for name, value in options.items()
            if known.get(name) != value
        ]
        if values:
            yield _alter(table, "set", sql.SQL(", ").join(values))


def _alter(table: str, verb: LiteralString, listed: sql.Composed) -> str:
    from psycopg import sql

    named = sql.SQL("alter table {} ").format(sql.Identifier(*table.split(".")))
    statement = named + sql.SQL(f"{verb} (") + listed + sql.SQL(")")
    return statement.as_string(None)


Indexes = Mapping[str, str]
"""Table → its indexes."""
_INDEXES_KEY = ("workload", "indexes")


class IndexDimension(Dimension):
    """Indexes that tables have in addition, created and dropped again while no load runs.
    ``Change.indexes``, of tables on a server that pgdyno started."""

    id = "indexes"
    order = 25
    live = True
    keys = "workload.indexes.TABLE"

    def owns(self, key: str) -> bool:
        """True if it is ``workload.indexes.TABLE``, where the table may have a schema."""
        parts = key.split(".")
        return tuple(parts[:2]) == _INDEXES_KEY and len(parts) > 2

    def read(self, key: str, value: str, spec: Spec | None) -> Change | None:
        """Read a key and its indexes."""
        if not self.owns(key):
            return None
        with suppress(ValueError):  # The spec refuses it.
            value = checked(value)
        return Change(indexes={key.split(".", 2)[2]: value})

    def enter(self, fields: Fields, change: Change) -> None:
        """Put the indexes among those that the tables have from the start."""
        indexes = Change(indexes=change.indexes)
        for key, value in change.spec.items():
            if (read := self.read(key, value, None)) is not None:
                indexes = read.over(indexes)
        if indexes:
            known = fields.setdefault(_INDEXES_KEY[0], {}).setdefault(_INDEXES_KEY[1], {})
            known.update(indexes.over(Change(indexes=known)).indexes)

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``index on orders (customer)``."""
        return [f"index on {table} {index_text(i).sql}" for table, i in each_index(change.indexes)]

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return REWRITE if the indexes differ: rows that a load changes while an index is created
        would make it larger, and their sessions would wait for it."""
        now, wanted = _indexes_sides(transition, context)
        return Need.NOTHING if now == wanted else Need.REWRITE

    def apply(self, transition: Transition, context: Context) -> None:
        """Drop the indexes of the last change, and create those of the next."""
        change_indexes(context.server.of_load, *_indexes_sides(transition, context))


INDEXES = IndexDimension()


def _indexes_sides(transition: Transition, context: Context) -> tuple[Indexes, Indexes]:
    """Return the indexes before and after a transition, those of the spec included."""
    base = Change(indexes=context.base.workload.indexes)
    return transition.before.over(base).indexes, transition.after.over(base).indexes


def change_indexes(conninfo: ConnInfo, now: Indexes, wanted: Indexes) -> None:
    """Change the indexes from ``now`` to ``wanted``. Raises SetupError when the server refuses."""
    there, kept = [*each_index(now)], [*each_index(wanted)]
    for each in there:
        if each not in kept:
            run_sql(conninfo, trial_statements(*each)[1])
    for each in kept:
        if each not in there:
            for statement in trial_statements(*each)[0]:
                run_sql(conninfo, statement)
