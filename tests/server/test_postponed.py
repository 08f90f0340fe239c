"""Work that slices postpone: done at their end, recorded as an intervention of pgdyno."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pgdyno.conduct import Silent, open_session
from pgdyno.record import RunFile
from pgdyno.record.events import own_events
from pgdyno.server import connect_plain
from pgdyno.spec import Change, spec_from_fields
from pgdyno.trial.recorded import postponed


@pytest.mark.alike
@pytest.mark.parametrize("major", [18, 15])
def test_each_kind_of_work_is_done_and_measured(
    installation_of: Callable[[int], object], tmp_path: Path, major: int
) -> None:
    installation_of(major)
    spec = spec_from_fields(
        {
            "server": {"version": major},
            "workload": {"scale": 1},
            "clients": [{"count": 4, "think": "20ms"}],
            "load": {"hold": "2s"},
        }
    )
    change = Change(settings={"synchronous_commit": "off", "wal_writer_delay": "10s"})
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="compare", spec_text="", watcher=Silent()) as session:
        session.start_load()
        slices = {}
        for side, state in (("a", Change()), ("b", change)):
            session.apply(state)
            slices[side] = session.slice(
                1.0, kind="trial", side=side, debts=("WAL flush", "vacuum", "checkpoint")
            )
        session.stop_load()
    with RunFile(path) as run:
        assert len(own_events(run)) == 6
        assert len(own_events(run, [slices["b"]])) == 3
        done = {each.work: each for each in postponed(run, [slices["a"]], [slices["b"]])}
    assert set(done) == {"WAL flush", "vacuum", "checkpoint"}
    assert all(each.after.ms > 0 for each in done.values())
    assert (done["checkpoint"].after.amount or 0) > 0


def test_tables_are_rewritten_for_each_side_of_a_fillfactor(
    installation_of: Callable[[int], object], tmp_path: Path
) -> None:
    installation_of(18)
    spec = spec_from_fields({"clients": [{"count": 1, "think": "20ms"}], "load": {"hold": "2s"}})
    query = "select relfilenode, relpages from pg_class where relname = 'pgbench_accounts'"
    loose = Change(table_options={"pgbench_accounts": {"fillfactor": "50"}})
    with open_session(
        spec, run=tmp_path / "run.db", command="compare", spec_text="", watcher=Silent()
    ) as session:
        sizes = []
        for state in (Change(), loose, Change()):
            session.apply(state)
            with connect_plain(session.target.conninfo) as connection:
                sizes.append(connection.execute(query).fetchone())
    (_, tight), (_, roomy), (_, again) = [size for size in sizes if size is not None]
    assert len({size[0] for size in sizes if size is not None}) == 3
    assert roomy > 1.8 * tight
    assert again < 1.2 * tight
