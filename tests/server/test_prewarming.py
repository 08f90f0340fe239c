"""Buffers after a restart: filled where the data fit, and nothing is left in the database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pgdyno.conduct import Silent, open_session
from pgdyno.record import RunFile
from pgdyno.record.events import own_events
from pgdyno.server import connect_plain
from pgdyno.spec import Change, spec_from_fields

LABEL = "data read into shared_buffers by pgdyno"
SLICE_S = 3.0
"""Sessions report their counts at most once a second."""


@pytest.mark.alike
@pytest.mark.parametrize("major", [18, 15])
def test_data_that_fit_are_read_into_the_buffers_after_a_restart(
    installation_of: Callable[[int], object], tmp_path: Path, major: int
) -> None:
    installation_of(major)
    spec = spec_from_fields(
        {
            "server": {"version": major, "settings": {"shared_buffers": "1MB"}},
            "workload": {"script": "select-only"},
            "clients": [{"count": 2, "think": "20ms"}],
            "load": {"hold": "2s"},
        }
    )
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="compare", spec_text="", watcher=Silent()) as session:
        session.start_load()
        slices = {}
        for size in ("128MB", "2MB"):
            session.apply(Change(settings={"shared_buffers": size}))
            slices[size] = session.slice(SLICE_S, kind="trial", side="b")
        session.stop_load()
        with connect_plain(session.target.conninfo) as connection:
            left = connection.execute("select 1 from pg_extension where extname = 'pg_prewarm'")
            assert left.fetchone() is None
    with RunFile(path) as run:
        (filled,) = [event for event in own_events(run) if event.label == LABEL]
        assert filled.detail["pages"] * 8192 >= 13 << 20
        read = {
            size: run.delta("metric_database", "blks_read", [slice_id]) or 0.0
            for size, slice_id in slices.items()
        }
    assert read["128MB"] < 200 < read["2MB"]
