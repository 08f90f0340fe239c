"""Storage parameters of tables, set by ALTER TABLE … SET and restored to those of the spec."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, LiteralString

from pgdyno.dimension._dimension import Context, Dimension, Need, Transition, run_sql
from pgdyno.json_types import Fields
from pgdyno.spec import Change, Spec

if TYPE_CHECKING:
    from psycopg import sql

    from pgdyno.server import ConnInfo

Options = Mapping[str, Mapping[str, str]]
"""Table → its storage parameters."""
_KEY = ("workload", "table_options")
_FILL = "fillfactor"


class TableOptions(Dimension):
    """``Change.table_options``."""

    id = "table options"
    order = 20
    live = True
    keys = "workload.table_options.TABLE.NAME"

    def owns(self, key: str) -> bool:
        """True if it is ``workload.table_options.TABLE.NAME``."""
        parts = key.split(".")
        return tuple(parts[:2]) == _KEY and len(parts) > 3

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
        tables = fields.setdefault(_KEY[0], {}).setdefault(_KEY[1], {})
        for table, values in options.items():
            tables[table] = {**tables.get(table, {}), **values}

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``pgbench_accounts: fillfactor = 90``."""
        for table, options in change.table_options.items():
            yield from (f"{table}: {name} = {value}" for name, value in options.items())

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return REWRITE if pages of a server started by pgdyno get another fillfactor, RELOAD if
        other options differ: the load continues, existing rows do not move."""
        if _rewritten(*_sides(transition, context)) and context.server.ours:
            return Need.REWRITE
        same = transition.before.table_options == transition.after.table_options
        return Need.NOTHING if same else Need.RELOAD

    def apply(self, transition: Transition, context: Context) -> None:
        """Reset options that are not in the spec, set the others; rewrite tables of a server
        started by pgdyno whose fillfactor differs, since pages filled under the other side's would
        serve this one as well."""
        now, wanted = _sides(transition, context)
        alter_tables(context.server.conninfo, now, wanted)
        if not context.server.ours:
            return
        for table in _rewritten(now, wanted):
            context.run_sql(_vacuum_full(table))


DIMENSION = TableOptions()


def _sides(transition: Transition, context: Context) -> tuple[Options, Options]:
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
