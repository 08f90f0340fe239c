"""Tables without a load: an initialisation as with ``pgbench -i``, or a server to be saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from msgspec import Struct

from pgdyno.conduct._interrupt import hold_stop_signals, stop_signals
from pgdyno.conduct._tables import make_tables
from pgdyno.conduct._target import Target, open_target
from pgdyno.conduct.watch import Watcher
from pgdyno.disk import dismantle
from pgdyno.errors import Interrupted
from pgdyno.server import sweep
from pgdyno.spec import Spec
from pgdyno.workload import load_workloads, with_texts

_AGAIN = "the tables may be incomplete; run again with -i to make them from the start"


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
        for line in sweep(dismantle):
            watcher.note(line)
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
