"""The active change, and the shortest way from it to another; and the maintenance between slices.

Only the differences are applied: by a reload where that is enough, by a restart where a dimension
requires it, and not at all where two consecutive slices have the same change. Each dimension alone
decides what its own difference needs.

A slice that is shorter than the cycle of what it changes would count the gain and leave the cost to
the next slice: dirty buffers and WAL since the last checkpoint's redo record, WAL that is not
flushed yet, dead rows that no vacuum has removed. Both sides of a trial settle the same debts, by
checkpoint, vacuum and flush, within the time of the slice, so that each slice pays for its own.

After a restart, a load that reads at random takes long to fill shared_buffers: 8 clients took 20 s
for 60 MB in reads of 3.6 ms, while slices last some seconds. pg_prewarm reads the tables and
indexes, but only if they fit: otherwise the load decides what stays in memory, and is soon as warm
as it will be. The extension is created in a transaction that is rolled back, so that nothing is
left in the database.

Each is an event of the kind ``own``: an intervention of pgdyno, which no finding may be about.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import psycopg
from msgspec import Struct
from msgspec.structs import replace
from psycopg.rows import dict_row

from pgdyno.conduct._load import RunningLoad
from pgdyno.conduct._target import Target
from pgdyno.dimension import Context, Need, Transition, begin_kernel, dimensions, spec_with
from pgdyno.dimension.kinds.settings import apply_event, session_statement
from pgdyno.record import Recorder
from pgdyno.record.events import OWN
from pgdyno.server.connecting.control import Control
from pgdyno.server.extensions import extension_in, within
from pgdyno.server.sql_files import query
from pgdyno.spec import Change, Spec
from pgdyno.spec.change import Debt

_PREWARM = "pg_prewarm"
PREWARM_SECONDS_MAX = 5.0
"""Beyond it, a trial would spend more time on restarts than on slices."""
_REFUSED = (
    psycopg.errors.QueryCanceled,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedFile,
)


class ActiveChange:
    """The active change, and the server's control connection."""

    def __init__(
        self, target: Target, recorder: Recorder, spec: Spec, note: Callable[[str], None]
    ) -> None:
        """Start without a change from ``spec``; ``note`` shows a message to the user."""
        self._target = target
        self._context = Context(spec, target, recorder, note)
        self.change = Change()

    def begin(self) -> None:
        """Set the kernel's parameters of the spec, before any load. Raises PgdynoError."""
        if (transition := begin_kernel(self._context.base)) is None:
            return
        needs = {each.id: each.needs(transition, self._context) for each in dimensions()}
        transition = replace(transition, needs={name: n for name, n in needs.items() if n})
        if transition.need is Need.SERVER_RESTART:
            self.apply_with_restart(transition)
        else:
            self.apply(transition)

    def spec(self, change: Change | None = None) -> Spec:
        """Return the spec that a load begins with under ``change`` (by default the active one),
        without what is sent to the load once it runs."""
        change = self.change if change is None else change
        if not change:
            return self._context.base
        at_first = [dimension for dimension in dimensions() if not dimension.live]
        return spec_with(self._context.base, change, of=at_first)

    def provide(self, change: Change, *, under_load: bool) -> None:
        """Get what ``change`` needs, so that anything missing fails now."""
        for dimension in dimensions():
            dimension.provide(change, self._context, under_load=under_load)

    def transition_to(self, change: Change) -> Transition:
        """Return the transition from the active change to ``change``."""
        transition = Transition(self.change, change, self.spec(), self.spec(change))
        needs = {each.id: each.needs(transition, self._context) for each in dimensions()}
        return replace(transition, needs={name: need for name, need in needs.items() if need})

    def apply(self, transition: Transition) -> None:
        """Carry out a transition while the server runs. If it needs more than a reload, no load may
        run."""
        for dimension in dimensions():
            if dimension.id in transition.needs:
                dimension.apply(transition, self._context)
        self.change = transition.after

    def apply_with_restart(self, transition: Transition) -> None:
        """Carry out a transition that needs a server restart; no load may run meanwhile."""
        restarting = [d for d in dimensions() if transition.needs.get(d.id) is Need.SERVER_RESTART]
        self._target.refuse_restart(name for each in restarting for name in each.names(transition))
        self.apply(transition)

        def change() -> None:
            for dimension in restarting:
                dimension.while_down(transition, self._context)

        def revert() -> None:
            for dimension in dimensions():
                if dimension.id in transition.needs:
                    self.change = dimension.revert(self.change, transition, self._context)

        self._target.restart(change, revert)

    def adjust_load(self, load: RunningLoad, transition: Transition) -> None:
        """Send the running load its part of the transition."""
        for dimension in dimensions():
            dimension.adjust_load(transition, load)

    def session_statement(self) -> str | None:
        """Return the statement that applies the active settings to the load's sessions."""
        return session_statement(self.change, self._context)

    def apply_event(self, settings: Mapping[str, str]) -> None:
        """Change settings in the middle of a run, and record it in the run file."""
        apply_event(settings, self._context)

    def settle(self, debt: Debt) -> None:
        """Do work that was postponed, now. A server of the user is never vacuumed."""
        if debt == "vacuum" and not self._target.ours:
            return
        with self._context.connect() as connection:
            settle(debt, connection, self._context.recorder)

    def prewarm(self) -> bool:
        """Read the data into the buffers of a server that pgdyno restarted; False if that takes too
        long."""
        with self._context.connect() as connection:
            return prewarm(connection, self._context.recorder)

    def connect(self) -> Control:
        """Open a control connection in autocommit mode, outside the load."""
        return self._context.connect()


class _Settlement(Struct, frozen=True):
    """The way to measure a debt and to settle it."""

    label: str
    unit: str
    owed: Callable[[psycopg.Connection], int | None]
    """Returns the amount; None if the role may not read it."""
    settle: bytes


def settle(debt: Debt, connection: psycopg.Connection, recorder: Recorder) -> None:
    """Do the work of ``debt`` now, and record its amount and its time as an event."""
    settlement = _SETTLEMENTS[debt]
    owed = settlement.owed(connection)
    began_ns = time.monotonic_ns()
    connection.execute(settlement.settle)
    took_ms = (time.monotonic_ns() - began_ns) / 1e6
    detail = {"debt": debt, "amount": owed, "unit": settlement.unit, "ms": round(took_ms, 3)}
    recorder.add_event(OWN, settlement.label, detail, ns=began_ns, duration_ms=took_ms)


def _row(connection: psycopg.Connection, name: str) -> tuple[Any, ...] | None:
    """Return the only row of a query; None if the role may not execute it."""
    try:
        return connection.execute(query("conduct", name)).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return None


def _first(connection: psycopg.Connection, name: str) -> int | None:
    row = _row(connection, name)
    return None if row is None else int(row[0])


def _unflushed(connection: psycopg.Connection) -> int | None:
    row = _row(connection, "wal_written")
    return None if row is None else max(0, int(row[0]) - int(row[1]))


_SETTLEMENTS: dict[Debt, _Settlement] = {
    "WAL flush": _Settlement(
        "WAL flush by pgdyno", "bytes of WAL not flushed", _unflushed, query("conduct", "flush_wal")
    ),
    "vacuum": _Settlement(
        "vacuum by pgdyno",
        "dead rows",
        lambda connection: _first(connection, "dead_rows"),
        b"vacuum",
    ),
    "checkpoint": _Settlement(
        "checkpoint by pgdyno",
        "bytes of WAL since the last checkpoint",
        lambda connection: _first(connection, "wal_since_redo"),
        b"checkpoint",
    ),
}


def prewarm(connection: psycopg.Connection, recorder: Recorder) -> bool:
    """Read the data into shared_buffers if they fit; return False if that takes too long."""
    row = connection.execute(query("conduct", "unread_bytes")).fetchone()
    data_bytes, buffers_bytes, is_installed = row or (0, 0, False)
    if not is_installed or not 0 < data_bytes <= buffers_bytes:
        return True
    began_ns = time.monotonic_ns()
    pages = _read_all(connection)
    took_ms = (time.monotonic_ns() - began_ns) / 1e6
    detail = {"bytes": data_bytes, "pages": pages, "ms": round(took_ms, 3)}
    label = "data read into shared_buffers by pgdyno"
    recorder.add_event(OWN, label, detail, ns=began_ns, duration_ms=took_ms)
    return pages is not None


def _read_all(connection: psycopg.Connection) -> int | None:
    """Return the pages read; None if that took too long, the role may not, or a file is missing."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(f"set local statement_timeout = {PREWARM_SECONDS_MAX * 1000:.0f}")
            connection.execute(
                f"create extension if not exists {_PREWARM} schema pg_catalog".encode()
            )
            extension = extension_in(connection.cursor(row_factory=dict_row), _PREWARM)
            assert extension is not None
            text = within(extension.schema, query("conduct", "prewarm").decode())
            row = connection.execute(text.encode(), {}).fetchone()
            return 0 if row is None else int(row[0])
    except _REFUSED:
        return None
