"""Which change is in force on the server, and the shortest way from it to another.

Only what differs is touched: a reload where that is enough, a restart where a setting asks for one,
nothing where two slices in a row have the same value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import psycopg
from psycopg import sql

from pgdyno.conduct.target import Target
from pgdyno.errors import SetupError
from pgdyno.record import Recorder
from pgdyno.server import connect
from pgdyno.spec import Change, Spec, spec_from_fields
from pgdyno.spec.dotted import with_keys
from pgdyno.spec.standby import StandbySpec, in_words
from pgdyno.workload import make_logged, make_unlogged


@dataclass(frozen=True)
class Step:
    """What has to be done to get from one change to the next."""

    start: Change
    to: Change
    settings: dict[str, str] = field(default_factory=dict)
    settings_back: set[str] = field(default_factory=set)
    table_options: dict[str, dict[str, str]] = field(default_factory=dict)
    table_options_back: dict[str, set[str]] = field(default_factory=dict)
    wal_disk: str | None = None
    """Where the WAL is to be, if that differs."""
    standby: StandbySpec | None = None
    """The standbys to have, if that differs."""
    checksums: bool | None = None
    """Whether there are to be data checksums, if that differs."""
    unlogged: bool = False
    """Whether tables are to be without WAL."""
    needs_restart: bool = False
    needs_load_restart: bool = False

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return self.start != self.to


class InForce:
    """The change in force, and the server's control connection."""

    def __init__(self, target: Target, recorder: Recorder, spec: Spec) -> None:
        """``spec`` is what changes are against."""
        self._target = target
        self._base = spec
        self._checksums_at_first = target.checksums
        self._unlogged = spec.workload.unlogged
        self._made_unlogged: list[int] | None = None
        self._recorder = recorder
        self._by_events: dict[str, str] = {}
        self.change = Change()

    def spec(self, change: Change | None = None) -> Spec:
        """The spec with the keys that ``change`` replaces, or else the change in force."""
        keys = (self.change if change is None else change).spec
        if not keys:
            return self._base
        fields = self._base.model_dump(mode="json", by_alias=True, exclude_none=True)
        return spec_from_fields(with_keys(fields, keys))

    def step_to(self, change: Change) -> Step:
        """What separates the change in force from ``change``."""
        now = self.change
        settings = _differing(now.settings, change.settings)
        back = set(now.settings) - set(change.settings)
        tables = {
            table: differing
            for table, options in change.table_options.items()
            if (differing := _differing(now.table_options.get(table, {}), options))
        }
        tables_back = {
            table: gone
            for table, options in now.table_options.items()
            if (gone := set(options) - set(change.table_options.get(table, {})))
        }
        wanted = self.spec(change)
        wal_disk = wanted.disk.wal if wanted.disk.wal != self._target.wal_disk else None
        standby = wanted.standby if wanted.standby != self._target.standby else None
        checksums = wanted.server.checksums
        if checksums is None:
            checksums = self._checksums_at_first
        restart = bool(self._target.settings.needs_restart([*settings, *back]))
        return Step(
            start=now,
            to=change,
            settings=settings,
            settings_back=back,
            table_options=tables,
            table_options_back=tables_back,
            wal_disk=wal_disk,
            standby=standby,
            checksums=checksums if checksums != self._target.checksums else None,
            unlogged=wanted.workload.unlogged,
            needs_restart=restart or wal_disk is not None or checksums != self._target.checksums,
            needs_load_restart=restart or dict(now.spec) != dict(change.spec),
        )

    def apply(self, step: Step) -> None:
        """Carry out a step that a reload is enough for."""
        in_sessions = self._target.in_sessions
        if back := [name for name in step.settings_back if not in_sessions(name)]:
            self._target.settings.reset(back)
        if server := {n: v for n, v in step.settings.items() if not in_sessions(n)}:
            self._target.settings.apply(server)
        for statement in _table_resets(step.table_options_back):
            self.run_sql(statement)
        self.alter_tables(step.table_options)
        if step.standby is not None:
            self._target.have_standbys(step.standby)
            facts = self._target.facts["standby"]
            self._recorder.add_event("standby", in_words(step.standby), facts)
        self._set_logging(unlogged=step.unlogged)
        self.change = step.to

    def alter_tables(self, options: Mapping[str, Mapping[str, str]]) -> None:
        """Set the storage parameters of tables."""
        for table, values in options.items():
            listed = sql.SQL(", ").join(
                sql.Identifier(name) + sql.SQL(" = ") + sql.Literal(value)
                for name, value in values.items()
            )
            statement = _alter_table(table) + sql.SQL("set (") + listed + sql.SQL(")")
            self.run_sql(statement.as_string(None))

    def _set_logging(self, *, unlogged: bool) -> None:
        """Make tables unlogged, or those logged again that were; no load may run meanwhile."""
        if unlogged == self._unlogged:
            return
        with self.connect() as connection:
            if unlogged:
                self._made_unlogged = make_unlogged(connection)
            else:
                make_logged(connection, self._made_unlogged)
        self._unlogged = unlogged

    def apply_with_restart(self, step: Step) -> None:
        """Carry out a step that needs the server restarted; no load may run meanwhile."""
        self._target.refuse_restart({*step.settings, *step.settings_back})
        before, touched = self.change.settings, {*step.settings, *step.settings_back}
        self.apply(step)
        if self._target.receivers is not None:
            self._target.receivers.require(step.settings)
        try:
            self._target.restart(touched, wal_disk=step.wal_disk, checksums=step.checksums)
        except SetupError:
            left = {name: value for name, value in before.items() if name not in touched}
            self.change = replace(step.to, settings=left)
            raise

    def session_statement(self) -> str | None:
        """What the load's sessions execute to have their part of what is in force."""
        if self._target.sessions is None:
            return None
        all_of_them = [*self._by_events.items(), *self.change.settings.items()]
        mine = {
            name.lower(): value for name, value in all_of_them if self._target.in_sessions(name)
        }
        return self._target.sessions.statement(mine)

    def apply_event(self, settings: Mapping[str, str]) -> None:
        """Change settings in the middle of a run and say so in the run file."""
        if self._target.sessions is not None:
            self._target.sessions.check(settings)
        server = {n: v for n, v in settings.items() if not self._target.in_sessions(n)}
        self._target.settings.apply(server)
        self._by_events |= settings
        for name, value in settings.items():
            self._recorder.add_event("setting", f"{name} = {value}")

    def checkpoint(self) -> None:
        """A CHECKPOINT, at once."""
        self.run_sql("checkpoint")

    def run_sql(self, statement: str) -> None:
        """Run one statement on a connection of its own, beside the load."""
        try:
            with self.connect() as connection:
                connection.execute(statement.encode())
        except psycopg.Error as problem:
            message = (problem.diag.message_primary or str(problem)).strip()
            raise SetupError(f"{statement}: {message}", code="statement-failed") from None

    def connect(self) -> psycopg.Connection:
        """A control connection in autocommit, beside the load."""
        return connect(self._target.conninfo)


def _differing(now: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in then.items() if now.get(name) != value}


def _table_resets(back: Mapping[str, Collection[str]]) -> Iterator[str]:
    for table, names in back.items():
        options = sql.SQL(", ").join(sql.Identifier(name) for name in sorted(names))
        yield (_alter_table(table) + sql.SQL("reset (") + options + sql.SQL(")")).as_string(None)


def _alter_table(table: str) -> sql.Composed:
    return sql.SQL("alter table {} ").format(sql.Identifier(*table.split(".")))
