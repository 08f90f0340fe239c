"""The tables of a spec: made or found before a load, made without one (as by
``pgbench -i``, or for a server to be saved), and checked once a load has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager

from msgspec import Struct

from pgdyno.conduct._interrupt import hold_stop_signals, stop_signals
from pgdyno.conduct._machine import check_table_space
from pgdyno.conduct._reaching import open_target
from pgdyno.conduct._session import Session
from pgdyno.conduct._starting import create_statements, sweep_servers, workload_on
from pgdyno.conduct._target import Target
from pgdyno.conduct.watch import Watcher
from pgdyno.dimension.kinds.standby import have_standbys
from pgdyno.dimension.kinds.tables import alter_tables, change_indexes
from pgdyno.errors import Interrupted
from pgdyno.record import Recorder
from pgdyno.server import connect
from pgdyno.server.local.owner import make_owner
from pgdyno.spec import Spec
from pgdyno.spec.standby import in_words
from pgdyno.workload import (
    CHECKED,
    OWN,
    Prepared,
    Workload,
    consistency,
    load_mix,
    load_workloads,
    prepare,
    with_texts,
)

SHOP = "business"
"""The built-in workload whose tables a front end uses."""
_AGAIN = "the tables may be incomplete; run again with -i to make them from the start"


def workloads_of_tables(spec: Spec, workloads: Collection[Workload]) -> Collection[Workload]:
    """Return the workloads whose tables the load needs: with a front end those of its pages, as its
    clients send requests and no SQL."""
    return workloads if spec.front is None else [load_mix(SHOP, spec.workload)]


def make_tables(
    spec: Spec,
    target: Target,
    workloads: Collection[Workload],
    watcher: Watcher,
    stack: ExitStack,
    keep_free_bytes: int = 0,
) -> Prepared:
    """Make or find the load's tables, then make the standbys, whose base backup includes them.
    Tables that would leave less than ``keep_free_bytes`` on their disk are not made.

    On an existing server, ``stack`` holds the lock on the tables. Raises SetupError.
    """
    if spec.http is not None and spec.front is None:
        target.setup_undo.pop_all()
        return Prepared(spec.workload.scale)
    if target.load_user is not None:
        make_owner(target.conninfo)  # A server that takes turns with the first one is new.
    prepared = prepare(
        target.of_load,
        workloads,
        workload_on(target.snapshot, spec.workload),
        watcher.progress,
        hold=None if target.ours else stack,
        ours=target.ours,
        saved=target.snapshot is not None,
        protocol=spec.load.protocol,
        check_table_space=lambda space: check_table_space(
            space, target.data_dir, target.max_wal_size_bytes, keep_free_bytes
        ),
    )
    target.setup_undo.pop_all()  # The tables now exist, and later runs use them.
    target.facts["tables"] = prepared.tables
    alter_tables(target.of_load, {}, spec.workload.table_options)
    change_indexes(target.of_load, {}, spec.workload.indexes)
    if target.ours:
        create_statements(spec, target.conninfo)
    if spec.standby.receivers:
        watcher.phase(f"making {in_words(spec.standby)}")
        have_standbys(target, spec.standby)
    return prepared


def note_tables(prepared: Prepared, recorder: Recorder, watcher: Watcher) -> None:
    """Show warnings about the tables, and record them in the run file."""
    for note in prepared.notes:
        watcher.note(f"warning: {note}")
        recorder.add_event("warning", "tables", {"message": note})


def check_tables(session: Session) -> None:
    """Check the tables of the load, if there is a check of them, and record its result."""
    used = {each.tables for each in session.workloads.values()}
    for kind in CHECKED:
        if kind in used:
            session.watcher.phase("checking the tables")
            with connect(session.target.of_load) as connection:
                found = consistency(connection, kind)
            detail = {"workload": OWN[kind].name, **found.counts, "broken": dict(found.broken)}
            session.recorder.add_event("consistency", f"tables of {OWN[kind].name}", detail)


class Initialised(Struct, frozen=True):
    """The database and scale of the tables."""

    database: str
    scale: int


def initialise(spec: Spec, watcher: Watcher) -> Initialised:
    """Make the tables of ``spec``, whose workload has ``initialize``. Raises SetupError."""
    workloads = load_workloads(spec).values()
    with ExitStack() as stack:
        stack.enter_context(stop_signals(hint=_AGAIN))
        stack.enter_context(_with_hint())
        target = open_target(spec, workloads, stack, watcher, may_apply=False)
        prepared = make_tables(spec, target, workloads, watcher, stack)
        return Initialised(target.conninfo.database, prepared.scale)


@contextmanager
def prepared_server(spec: Spec, watcher: Watcher) -> Iterator[tuple[Target, int]]:
    """Start the server of ``spec`` with its tables; yield it and their scale. It is removed at the
    end of the block. Raises SetupError."""
    spec = with_texts(spec)
    workloads = load_workloads(spec).values()
    with started_server(spec, watcher) as target, ExitStack() as stack:
        prepared = make_tables(spec, target, workloads, watcher, stack)
        for note in prepared.notes:
            watcher.note(f"warning: {note}")
        yield target, prepared.scale


@contextmanager
def started_server(spec: Spec, watcher: Watcher) -> Iterator[Target]:
    """Start the server of ``spec`` without tables. It is removed at the end of the block. Raises
    SetupError."""
    with ExitStack() as stack:
        stack.enter_context(stop_signals())
        sweep_servers(watcher)
        target = open_target(spec, (), stack, watcher, may_apply=False)
        stack.callback(hold_stop_signals)
        yield target


@contextmanager
def _with_hint() -> Iterator[None]:
    try:
        yield
    except Interrupted as stop:
        stop.hint = _AGAIN
        raise
