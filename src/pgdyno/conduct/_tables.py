"""The tables of a load: made or found once the server is reached."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack

from pgdyno.conduct._snapshot import workload_on
from pgdyno.conduct._space import check_table_space
from pgdyno.conduct._statements import create_statements
from pgdyno.conduct._target import Target
from pgdyno.conduct.watch import Watcher
from pgdyno.dimension.kinds.standby import have_standbys
from pgdyno.dimension.kinds.tables import alter_tables, change_indexes
from pgdyno.record import Recorder
from pgdyno.spec import Spec
from pgdyno.spec.standby import in_words
from pgdyno.workload import Prepared, Workload, load_mix, prepare

SHOP = "business"
"""The built-in workload whose tables a front end uses."""


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
    prepared = prepare(
        target.conninfo,
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
    alter_tables(target.conninfo, {}, spec.workload.table_options)
    change_indexes(target.conninfo, {}, spec.workload.indexes)
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
