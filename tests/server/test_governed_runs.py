"""Runs whose clients keep to a governor: slowed down, paused until the age is low, only watched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from patience import wait_until
from pgdyno.conduct import Session, Silent, open_session
from pgdyno.errors import SetupError, UsageError
from pgdyno.govern.in_run import governing
from pgdyno.investigate.run import run_spec
from pgdyno.record import RunFile
from pgdyno.record.events import governed_in
from pgdyno.report import stdout_console, terminal_summary
from pgdyno.results import recorded_json, schemas
from pgdyno.results.run import RunResult
from pgdyno.scenario.story import run_story
from pgdyno.server import Cluster, Installation, connect_plain
from pgdyno.server.connecting.exclusive_use import sole_governor
from pgdyno.spec import Spec, spec_from_fields

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("nothing_left")]
AGE = 1_700_000_000
UNPIN = "select pg_drop_replication_slot('pgdyno_age')"


def fields_of(installation: Installation, **govern: Any) -> dict[str, Any]:
    return {
        "name": "governed",
        "server": {
            "bindir": str(installation.bindir),
            "xid_age": AGE,
            "settings": {"autovacuum_naptime": "1s"},
        },
        "workload": {"script": "mixed"},
        "clients": [{"name": "web", "count": 4, "think": "5ms"}],
        "load": {"hold": "2s", "max_other_programs": 1},
        "govern": {"interval": "100ms", **govern},
    }


def spec_of(installation: Installation, **govern: Any) -> Spec:
    return spec_from_fields(fields_of(installation, **govern))


def governed(spec: Spec, folder: Path) -> tuple[RunResult, Path]:
    path = folder / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        result = run_spec(session, governing(session))
    jsonschema.validate(json.loads(json.dumps(result.to_json())), schemas()["run"])
    with RunFile(path) as run:
        assert recorded_json(run) == result.to_json()
        assert run.ledger().balanced
    return result, path


def test_a_pause_holds_until_the_age_is_low(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    fields = fields_of(installation_of(15), low=1.6e9, high=1.65e9, vacuum=True)
    spec, path = spec_from_fields(fields), tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        with governing(session):
            session.start_load()
            session.wait_connected()
            with session.measured("run") as slice_id:
                wait_until(lambda: decided(path) == ["pause"], "the governor pauses")
                wait_until(lambda: done_lately(path, slice_id) == 0, "and the clients do")
                with connect_plain(session.target.conninfo) as conn:
                    conn.execute(UNPIN)
                wait_until(lambda: len(decided(path)) > 1, "the age is low")
                wait_until(lambda: bool(done_lately(path, slice_id)), "the clients go on")
            session.stop_load()
        summary = governed_in(session.reader())
        assert summary is not None
        assert (summary["on"], summary["pauses"]) == (True, 1)
        assert summary["beyond_high"] >= 50_000_000
    with RunFile(path) as run:
        events = run.events("govern")
        assert "pgdyno_age" in events[0].detail["why"]
        assert decided(path)[1:] == ["go"]
        assert run.ledger().balanced
        assert run.ledger().failed == 0, "the server refused no transaction an ID"
        terminal_summary(run, stdout_console())


def test_between_the_marks_a_rate_is_a_share_of_itself(
    installation_of: Callable[[int], Installation],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fields = fields_of(installation_of(18), low=1.6e9, high=1.8e9)
    fields["clients"] = [
        {"name": "loader", "count": 4, "arrival": {"rate": 200, "process": "constant"}}
    ]
    result, path = governed(spec_from_fields(fields), tmp_path)
    assert result.governor is not None
    assert result.governor.slow_s > 0
    assert (result.governor.pauses, result.governor.beyond_high) == (0, 0)
    assert result.throughput_tps < 150, "half of the rate"
    with RunFile(path) as run:
        terminal_summary(run, stdout_console())
    said = " ".join(capsys.readouterr().out.split())
    assert "the governor slowed the clients down for" in said
    assert "the server refused no transaction an ID" in said


def decided(path: Path) -> list[str]:
    with RunFile(path) as run:
        return [each.label.removeprefix("governor: ") for each in run.events("govern")]


def done_lately(path: Path, slice_id: int) -> int | None:
    """Transactions of the last interval."""
    with RunFile(path) as run:
        intervals = run.intervals([slice_id])
    return intervals[-1].done if intervals else None


def test_clients_pause_while_the_server_cannot_be_asked(
    installation_of: Callable[[int], Installation],
    new_cluster: Callable[..., Cluster],
    tmp_path: Path,
) -> None:
    cluster = new_cluster(18)
    uri = cluster.conninfo.uri_without_password
    fields = fields_of(installation_of(18)) | {"server": {"kind": "existing", "conninfo": uri}}
    spec, path = spec_from_fields(fields), tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        with governing(session):
            session.start_load()
            session.wait_connected()
            with session.measured("run") as slice_id:
                wait_until(lambda: bool(done_lately(path, slice_id)), "the load is there")
                with connect_plain(session.target.conninfo) as conn:
                    # Sessions that are there work on: only who asks for ages, or connects, waits.
                    conn.execute("begin; lock table pg_database in access exclusive mode")
                    wait_until(lambda: decided(path) == ["pause"], "the governor pauses")
                    wait_until(lambda: done_lately(path, slice_id) == 0, "and the clients do")
                    conn.execute("commit")
                wait_until(lambda: decided(path) == ["pause", "go"], "it knows again")
                wait_until(lambda: bool(done_lately(path, slice_id)), "the clients go on")
                cluster.stop("immediate")
                wait_until(lambda: decided(path)[2:] == ["pause"], "nobody knows")
                cluster.start()
                wait_until(lambda: decided(path)[3:] == ["go"], "it knows again")
                wait_until(lambda: bool(done_lately(path, slice_id)), "the clients go on")
            session.stop_load()
        summary = governed_in(session.reader())
        assert summary is not None
        assert (summary["pauses"], summary["unknown_s"]) == (2, summary["paused_s"])


def test_nobody_goes_on_when_the_governor_itself_fails(
    installation_of: Callable[[int], Installation],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = fields_of(installation_of(18))
    del fields["server"]["xid_age"]
    spec, path = spec_from_fields(fields), tmp_path / "run.db"

    def fail(session: Session) -> None:
        with governing(session):
            session.start_load()
            session.wait_connected()
            with session.measured("run") as slice_id:
                wait_until(lambda: bool(done_lately(path, slice_id)), "the load is there")
                monkeypatch.setattr("pgdyno.govern.deciding.worst_of", lambda reading: 1 // 0)
                wait_until(lambda: done_lately(path, slice_id) == 0, "the clients pause")
            session.stop_load()

    with (
        open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session,
        pytest.raises(ArithmeticError),
    ):
        fail(session)


def test_one_that_is_off_only_looks(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    result, _ = governed(spec_of(installation_of(18), low=1.6e9, high=1.65e9, on=False), tmp_path)
    governor = result.governor
    assert governor is not None
    assert (governor.on, governor.pauses, governor.paused_s) == (False, 0, 0)
    assert governor.beyond_high >= 50_000_000
    assert result.throughput_tps > 0
    assert governor.sentence.startswith("the governor was off")


def test_the_chapters_of_a_story_differ_in_it(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    fields = fields_of(installation_of(18), low=1.6e9, high=1.8e9)
    fields["load"]["hold"] = "1s"
    fields["story"] = [
        {"title": "without", "run": True, "vary": {"govern.on": False}},
        {"title": "with", "run": True},
    ]
    spec = spec_from_fields(fields)
    finished = [
        *run_story(
            spec,
            spec_text="",
            watcher=Silent(),
            path_of=lambda number: tmp_path / f"run-{number}.db",
        )
    ]
    without, with_one = ("; ".join(each.sentences) for each in finished)
    assert "the governor was off" in without
    assert "the governor slowed the clients down" in with_one


def test_a_second_governor_is_refused(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    fields = fields_of(installation_of(18))
    del fields["server"]["xid_age"]
    spec = spec_from_fields(fields)
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        with sole_governor(session.target.conninfo), pytest.raises(SetupError) as found:
            governing(session).__enter__()
        assert found.value.code == "governor-running"
        # The server lets go of the first one's lock when its session has ended, a moment later.
        wait_until(lambda: governs(session), "it governs")


def governs(session: Session) -> bool:
    try:
        with governing(session):
            return True
    except SetupError:
        return False


def test_what_it_cannot_be_used_with(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    fields = fields_of(installation_of(18))
    spec = spec_from_fields(fields)
    opened = open_session(
        spec, run=tmp_path / "run.db", command="compare", spec_text="", watcher=Silent()
    )
    with pytest.raises(UsageError, match="govern cannot be used with pgdyno compare"):
        opened.__enter__()
    for part in ({"ramp": "1s"}, {"transactions": 5}):
        wrong = {**fields, "load": {**fields["load"], **part}}
        with pytest.raises(UsageError, match="cannot be used with govern"):
            spec_from_fields(wrong)
    for marks in ({"low": 2e9}, {"high": 2.145e9}):
        with pytest.raises(UsageError, match="low must be below high"):
            spec_of(installation_of(18), **marks)
    with pytest.raises(UsageError, match="interval must be at most 60 s"):
        spec_of(installation_of(18), interval="1h")
