"""Drills on real servers: what was broken is proved, what was lost is counted, a sham is seen."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from patience import wait_until
from pgdyno.conduct import Silent, open_session
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill._evidence import NewLog
from pgdyno.drill.faults import during_recovery, kill, stop
from pgdyno.drill.model import DrillOptions
from pgdyno.drill.running import run_drill
from pgdyno.drill.storage import stored_drills
from pgdyno.errors import UsageError
from pgdyno.price._loss import DrillPlan, LossTable, drill_all
from pgdyno.price.candidates import of_change
from pgdyno.record import Recorder, RunFile
from pgdyno.record.cut import Cut
from pgdyno.remedy import Circumstances
from pgdyno.results import recorded_json
from pgdyno.results.drill import Drill
from pgdyno.server import Cluster, Installation, connect_plain
from pgdyno.server.local.clean_copy import CleanCopy
from pgdyno.server.local.safefiles import make_directory
from pgdyno.spec import Change, Spec, spec_from_fields

LOAD_S = 0.3


def spec_of(major: int = 18, **settings: str) -> Spec:
    return spec_from_fields(
        {
            "name": "drill",
            "server": {"version": major, "settings": settings},
            "workload": {"scale": 1},
            "clients": [{"count": 8, "think": "15ms"}],
        }
    )


@pytest.fixture
def drilled(
    installation_of: Callable[[int], Installation],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Drill]:
    """Carry out a drill, whose run file is ``run.db`` in ``tmp_path``."""
    monkeypatch.setattr(stop, "_PAUSE_S", (0.5, 0.6))
    # With so little to recover, a later moment may not come before it is over.
    monkeypatch.setattr(during_recovery, "_LATER_KILLS", (4, 4))
    monkeypatch.setattr(during_recovery, "_MESSAGES", ("starting PostgreSQL",))
    monkeypatch.setattr(during_recovery, "_DELAY_MS_MAX", 1.0)
    # On one crowded core most kills come too late; until one is in time, the server is started.
    monkeypatch.setattr(during_recovery, "_KILLS_MAX", 100)

    def run(fault: str, major: int = 18, *, settings: Any = (), **options: Any) -> Drill:
        installation_of(major)
        given = {"fault": fault, "cuts": 1, "seed": 4, "load_s": LOAD_S, **options}
        return run_drill(
            spec_of(major, **dict(settings)),
            DrillOptions(**given),
            watcher=Silent(),
            run=tmp_path / "run.db",
        )

    return run


@pytest.mark.alike
@pytest.mark.parametrize("major", [15, 18])
def test_kill_takes_what_was_acknowledged_before_it_was_on_disk(
    drilled: Callable[..., Drill], tmp_path: Path, major: int
) -> None:
    settings = {
        "synchronous_commit": "off",
        "wal_writer_delay": "10s",
        "wal_writer_flush_after": "1GB",
    }
    result = drilled("kill", major, settings=settings, cuts=2 if major >= 18 else 1)
    for cut in result.cuts:
        assert cut.proof.happened
        assert cut.outcome in ("lost", "clean")
        assert cut.ledger is not None
        assert cut.ledger.lost_ms <= 30_000
        assert cut.ledger.inconsistent == 0
    if major >= 18:  # The WAL writer sleeps on; older ones wake for every page of WAL.
        assert any(cut.outcome == "lost" for cut in result.cuts)
    assert result.summary.bound_ms == 30_000
    assert not result.worse_than_bound()
    with RunFile(tmp_path / "run.db") as run:
        assert run.run.status == "done"
        assert recorded_json(run) == result.to_json()
        assert stored_drills(run) == [result]
        assert run.ledger().balanced
        assert [event.label for event in run.events("fault")] == ["kill"] * len(result.cuts)
    with closing(sqlite3.connect(tmp_path / "run.db")) as db:
        rows = db.execute(
            "select fault, json_extract(proof_json, '$.happened') from drill join cut"
            " on drill_id = drill.id"
        ).fetchall()
    assert rows == [("kill", 1)] * len(result.cuts), "plain SQL reads it"


@pytest.mark.parametrize("fault", ["immediate", "during-recovery", "stop"])
def test_the_defaults_lose_nothing(drilled: Callable[..., Drill], fault: str) -> None:
    result = drilled(fault)
    (cut,) = result.cuts
    assert cut.proof.happened, cut.proof
    assert cut.outcome == "clean", cut
    assert cut.ledger is not None
    assert cut.ledger.acked > 0
    facts = cut.proof.facts
    if fault == "stop":
        assert (facts["answers_meanwhile"], set(facts["states"])) == (0, {"T"})
        assert cut.facts["silence_ms_max"] > 0
    if fault == "during-recovery":
        assert any(again["processes"] and not again["accepting"] for again in facts["again"])


@pytest.mark.parametrize("fault", ["during-recovery", "stop"])
def test_a_fault_that_is_left_out_is_missed(drilled: Callable[..., Drill], fault: str) -> None:
    result = drilled(fault, sham=True)
    assert [cut.outcome for cut in result.cuts] == ["no-fault"]
    assert result.fault_missing
    (cut,) = result.cuts
    assert cut.checks, "everything but the fault is done"
    assert all(check.passed is not False for check in cut.checks)


def test_a_full_disk_loses_nothing(drilled: Callable[..., Drill]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    result = drilled("disk-full", cuts=2)
    wal, data = result.cuts
    assert (wal.variant, data.variant) == ("wal", "data")
    for cut in result.cuts:
        assert cut.proof.happened, cut.proof
        assert cut.outcome == "clean", cut
        assert "No space left on device" in cut.proof.sentence
    assert wal.proof.facts["control_file"] == "in production", "the server went down"
    assert data.proof.facts["processes_left"], "it continued"


@pytest.mark.long
def test_a_server_that_goes_down_between_two_looks_was_out_of_space(
    drilled: Callable[..., Drill], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine may let it complain and end while pgdyno looks elsewhere."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    look = NewLog.line_with

    def look_and_be_kept_waiting(log: NewLog, words: str) -> str:
        seen = look(log, words)
        wait_until(lambda: seen or not log._cluster.running, "it goes down")
        return seen

    monkeypatch.setattr(NewLog, "line_with", look_and_be_kept_waiting)
    (cut,) = drilled("disk-full", variant="wal").cuts
    assert cut.proof.happened, cut.proof


def test_a_damaged_cut_is_followed_by_a_good_one(
    installation_of: Callable[[int], Installation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the second cut finds is the data directory as it was at first."""
    from pgdyno.drill import _crash

    installation_of(18)
    looked, crashes = _crash.Crash.inspect, []

    def look_and_break(self: _crash.Crash) -> None:
        looked(self)
        crashes.append(self)
        if len(crashes) == 1:
            (self.cluster.data_dir / "global" / "pg_control").write_bytes(b"\0" * 8192)

    monkeypatch.setattr(_crash.Crash, "inspect", look_and_break)
    result = run_drill(
        spec_of(),
        DrillOptions("kill", cuts=2, load_s=LOAD_S),
        watcher=Silent(),
        run=tmp_path / "run.db",
    )
    first, second = result.cuts
    assert first.outcome == "refused"
    assert first.server_said
    assert second.outcome == "clean", second
    assert result.summary.refused == 1


def test_a_drill_within_another_run_has_no_file_of_its_own(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    installation_of(18)
    seen: list[list[int]] = []

    def look(_: Drill) -> None:
        recorder.flush()
        with RunFile(recorder.path) as run:
            seen.append([cut.number for cut in run.cuts(1)])

    recorder = Recorder.create(tmp_path / "run.db", name="list", command="price")
    with recorder:
        options = DrillOptions("kill", cuts=2, load_s=LOAD_S)
        run = recorder.for_drill()
        result = run_drill(spec_of(), options, watcher=Silent(), run=run, each_cut=look)
        recorder.finish("done")
    assert [each.name for each in tmp_path.iterdir()] == ["run.db"]
    assert result.run_file == str(recorder.path)
    assert seen == [[1], [1, 2]]
    with RunFile(recorder.path) as kept:
        assert kept.run.status == "done"
        assert kept.intervals() == kept.events() == []
        (stored,) = stored_drills(kept)
        assert stored.cuts == result.cuts
        faults = [event for event in kept.drill_events(1) if event.kind == "fault"]
        assert [event.detail["cut"] for event in faults] == [1, 2]


def test_a_server_of_the_users_is_never_the_target(tmp_path: Path) -> None:
    spec = spec_from_fields({"server": {"kind": "existing", "conninfo": "host=127.0.0.1"}})
    with pytest.raises(UsageError, match="only for servers that pgdyno starts"):
        run_drill(spec, DrillOptions("kill"), watcher=Silent(), run=tmp_path / "run.db")
    assert not (tmp_path / "run.db").exists()


def test_wal_on_a_disk_of_its_own_is_put_back_too(
    new_cluster: Callable[..., Cluster], open_dir: Path
) -> None:
    cluster = new_cluster(18)
    cluster.stop()
    make_directory(open_dir / "there")
    cluster.move_wal(open_dir / "there")
    copy = CleanCopy(cluster, open_dir / "kept")
    copy.take()
    shutil.rmtree(cluster.wal_dir)
    (cluster.data_dir / "pg_wal").unlink()
    copy.restore()
    assert cluster.wal_dir == open_dir / "there/pg_wal"
    cluster.start()
    assert cluster.running


def test_table_options_of_an_investigation_are_in_its_drills(
    installation_of: Callable[[int], Installation],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installation_of(18)
    found = []

    def cuts(drill: LoadedServer) -> Iterator[Cut]:
        with connect_plain(drill.session.target.conninfo) as connection:
            query = "select reloptions from pg_class where relname = 'pgbench_tellers'"
            found.append(connection.execute(query).fetchone())
        yield from ()

    looking = replace(kill.FAULT, cuts=cuts)
    monkeypatch.setattr("pgdyno.drill.running.find_fault", lambda name: looking)
    kept = Change(table_options={"pgbench_tellers": {"fillfactor": "50"}})
    loose = Change(settings={"synchronous_commit": "off"})
    candidate = of_change(loose, Circumstances(), base=kept)
    killed = replace(candidate.assessment, faults=("kill",))
    candidate = replace(candidate, assessment=killed)
    with open_session(
        spec_of(), run=tmp_path / "run.db", command="price", spec_text="", watcher=Silent()
    ) as session:
        plan = DrillPlan(1, 1, time.monotonic() + 600)
        drill_all(session, [candidate], plan, LossTable())
    assert found == [(["fillfactor=50"],)]
