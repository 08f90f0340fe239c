"""The tables of a load: made or found once the server is reached."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack

from pgdyno.conduct._space import check_table_space
from pgdyno.conduct._target import Target
from pgdyno.conduct.watch import Watcher
from pgdyno.dimension.kinds.standby import have_standbys
from pgdyno.dimension.kinds.table_options import alter_tables
from pgdyno.record import Recorder
from pgdyno.spec import Spec
from pgdyno.spec.standby import in_words
from pgdyno.workload import Prepared, Workload, prepare


def make_tables(
    spec: Spec,
    target: Target,
    workloads: Collection[Workload],
    watcher: Watcher,
    stack: ExitStack,
) -> Prepared:
    """Make or find the load's tables, then make the standbys, whose base backup includes them.

    On an existing server, ``stack`` holds the lock on the tables. Raises SetupError.
    """
    prepared = prepare(
        target.conninfo,
        workloads,
        spec.workload,
        watcher.progress,
        hold=None if target.ours else stack,
        check_table_space=lambda space: check_table_space(
            space, target.data_dir, target.max_wal_size_bytes
        ),
    )
    target.setup_undo.pop_all()  # The tables now exist, and later runs use them.
    target.facts["tables"] = prepared.tables
    alter_tables(target.conninfo, {}, spec.workload.table_options)
    if spec.standby.receivers:
        watcher.phase(f"making {in_words(spec.standby)}")
        have_standbys(target, spec.standby)
    return prepared


def note_tables(prepared: Prepared, recorder: Recorder, watcher: Watcher) -> None:
    """Show warnings about the tables, and record them in the run file."""
    for note in prepared.notes:
        watcher.note(f"warning: {note}")
        recorder.add_event("warning", "tables", {"message": note})
