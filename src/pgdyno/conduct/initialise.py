"""An initialisation without a load, as ``pgbench -i`` is: tables are made, and that is all."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from pgdyno.conduct.interrupt import stop_signals
from pgdyno.conduct.target import open_target
from pgdyno.conduct.watch import Watcher
from pgdyno.spec import Spec
from pgdyno.workload import load_workloads, prepare


@dataclass(frozen=True)
class Initialised:
    """Where the tables are."""

    database: str
    scale: int


def initialise(spec: Spec, watcher: Watcher) -> Initialised:
    """Make the tables of ``spec``, whose workload has ``initialize``. Raises SetupError."""
    workloads = load_workloads(spec).values()
    with ExitStack() as stack:
        stack.enter_context(stop_signals(hint="tables that were begun are made afresh next time"))
        target = open_target(spec, workloads, stack, watcher, may_apply=False)
        prepared = prepare(target.conninfo, workloads, spec.workload, watcher.progress, hold=stack)
        return Initialised(target.conninfo.database, prepared.scale)
