"""Runs with standbys: made before the load, put in force and taken away between slices."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from pgdyno.conduct import Session, Silent, open_session
from pgdyno.record import RunFile
from pgdyno.server import connect_plain
from pgdyno.spec import Change, spec_from_fields

pytestmark = pytest.mark.server

ONE = Change(spec={"standby.count": "1", "standby.mode": "on", "standby.delay": "1ms"})


def settings_of(session: Session) -> tuple[str, str]:
    with connect_plain(session.target.conninfo) as connection:
        row = connection.execute(
            "select current_setting('synchronous_commit'),"
            " current_setting('synchronous_standby_names')"
        ).fetchone()
    assert row is not None
    return row[0], row[1]


def test_standbys_come_and_go_between_slices(tmp_path: Path) -> None:
    spec = spec_from_fields({"clients": [{"count": 2, "think": "20ms"}]})
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="compare", spec_text="", watcher=Silent()) as session:
        for change in (ONE, Change(), ONE):
            session.apply(change, warm_up_s_max=0.1)
            session.slice(0.2, kind="trial")
            expected = ("on", "ANY 1 (pgdyno_standby_1)" if change else "")
            assert settings_of(session) == expected
        # A trial of a setting has the last word over the mode; a restart keeps the standby.
        over = Change(settings={"synchronous_commit": "local", "max_connections": "130"})
        session.apply(over.over(ONE), warm_up_s_max=0.1)
        assert settings_of(session) == ("local", "ANY 1 (pgdyno_standby_1)")
        session.slice(0.2, kind="trial")
        session.stop_load()
    run = RunFile(path)
    assert [event.label for event in run.events("standby")] == snapshot(
        [
            "a standby, each way 1ms: commits wait for it (on)",
            "no standby",
            "a standby, each way 1ms: commits wait for it (on)",
        ]
    )
    assert run.ledger().done > 0
    assert run.ledger().balanced


def test_a_run_with_standbys_has_them_among_its_facts(tmp_path: Path) -> None:
    table = {"count": 1, "mode": "remote_apply", "delay": "2ms"}
    spec = spec_from_fields({"server": {"version": 15}, "standby": table})
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()):
        pass
    facts = RunFile(path).run.server
    assert facts["settings"]["synchronous_commit"] == "remote_apply"
    assert facts["standby"]["receivers"]["pgdyno_standby_1"]["state"] == "streaming"
