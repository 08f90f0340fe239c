"""The recorder: what is written is there, also after the writer was killed or the disk filled."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from record_samples import add_second, at, new_recorder, script_row, thread_row

from pgdyno.errors import RunError, SetupError, UsageError
from pgdyno.record import RunFile, fileformat
from pgdyno.record._writer import COMMIT_EVERY_S
from pgdyno.record.finding import Evidence, Finding, Proposal
from pgdyno.spec import Change
from pgdyno.stats.prediction import Prediction


def test_a_finished_run_is_one_file_that_any_sqlite_opens(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "run.db"
    recorder = new_recorder(path)
    add_second(recorder, 0, [script_row(intended=3, done=3)])
    recorder.finish("done")
    recorder.close()  # closing twice is closing
    assert [file.name for file in path.parent.iterdir()] == ["run.db"]
    with sqlite3.connect(path) as db:
        assert db.execute("select done from interval").fetchall() == [(3,)]
        assert db.execute("pragma journal_mode").fetchall() == [("delete",)]
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    db.close()


def test_the_columns_are_those_that_sqlite_makes_of_the_schema() -> None:
    made: dict[str, dict[str, str]] = {}
    with sqlite3.connect(":memory:") as db:
        db.executescript(fileformat.schema_sql())
        for table, column, declared in db.execute(
            "select s.name, i.name, lower(i.type) from sqlite_schema s, pragma_table_info(s.name) i"
            " where s.type = 'table'"
        ):
            made.setdefault(table, {})[column] = declared
    db.close()
    assert [(name, list(each.items())) for name, each in fileformat.columns().items()] == [
        (name, list(each.items())) for name, each in made.items()
    ]


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_text("precious")
    with pytest.raises(UsageError, match="already exists") as caught:
        new_recorder(path)
    assert caught.value.hint
    assert path.read_text() == "precious"


def test_a_place_that_cannot_be_written_is_a_set_up_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot write the run file") as caught:
        new_recorder(tmp_path / "file" / "run.db")
    assert caught.value.hint


@pytest.mark.parametrize("line", range(20))
def test_a_file_whose_creation_was_interrupted_is_empty_or_whole(tmp_path: Path, line: int) -> None:
    lines = itertools.count()

    def traced(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_name != "_new_database":
            return None
        if event == "line" and next(lines) == line:
            raise KeyboardInterrupt
        return traced

    sys.settrace(traced)
    try:
        new_recorder(tmp_path / "run.db").finish("done")
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    (file,) = tmp_path.glob("*.db")
    if file.stat().st_size:
        with RunFile(file) as run:
            assert run.run.command


def test_rows_carry_the_current_slice_unless_told_otherwise(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db") as recorder:
        recorder.add_rows("metric_wal", [{"wal_bytes": 1}], ns=at(recorder, 0))
        first = recorder.open_slice("run", change={"settings": {"fsync": "off"}})
        recorder.add_rows("metric_wal", [{"wal_bytes": 2}], ns=at(recorder, 1))
        recorder.add_rows("metric_wal", [{"wal_bytes": 3}], ns=at(recorder, 2), slice_id=None)
        recorder.close_slice(first)
        second = recorder.open_slice("trial", trial_id=7, pair=2, side="b")
        assert recorder.current_slice == second
        recorder.add_event("sql", "vacuum", {"rows": 1}, duration_ms=2.5)
        recorder.finish("done")
    with RunFile(recorder.path) as run:
        wal = run.series("metric_wal")
        assert wal["wal_bytes"].tolist() == [1, 2, 3]
        np.testing.assert_array_equal(wal["slice_id"], [np.nan, first, np.nan])
        assert [event.slice_id for event in run.events()] == [second]
        assert run.slices()[0].change == {"settings": {"fsync": "off"}}
        assert run.slices(trial_id=7)[0].side == "b"


def test_what_drivers_return_is_stored_as_numbers(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db") as recorder:
        row = {"wal_bytes": Decimal(2**60), "wal_write_time_ms": Decimal("1.5")}
        recorder.add_rows("metric_wal", [row, {"wal_bytes": np.int64(7), "wal_fpi": True}])
        recorder.add_trial(kind="compare", title="x", throughput_ratio=np.float64(1.5), pairs=6)
        recorder.finish("done")
    db = sqlite3.connect(recorder.path)
    stored = db.execute("select wal_bytes, wal_write_time_ms, wal_fpi from metric_wal").fetchall()
    db.close()
    assert stored == [(2**60, 1.5, None), (7, None, 1)]
    assert RunFile(recorder.path).trials()[0].throughput_ratio == 1.5


def test_an_unknown_table_or_column_is_a_value_error(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db") as recorder:
        with pytest.raises(ValueError, match="metric_nothing"):
            recorder.add_rows("metric_nothing", [{}])
        with pytest.raises(ValueError, match="wal_bites"):
            recorder.add_rows("metric_wal", [{"wal_bites": 1}])
        with pytest.raises(ValueError, match="verdikt"):
            recorder.update_trial(1, verdikt="better")
        with pytest.raises(ValueError, match="object cannot be stored"):
            recorder.add_rows("metric_wal", [{"wal_bytes": object()}])
        with pytest.raises(sqlite3.IntegrityError):
            recorder.add_rows("metric_io", [{"reads": 1}])  # its keys may not be NULL
        recorder.add_rows("metric_wal", [{"wal_bytes": 1}])
        recorder.finish("done")
    assert RunFile(recorder.path).series("metric_wal")["wal_bytes"].tolist() == [1]


def test_findings_and_trials_can_be_changed_later(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db") as recorder:
        found = Finding(
            id="commit-flush",
            status="found",
            rank=1,
            sentence="s",
            share=0.61234567,
            evidence=(Evidence(name="share", value=0.6, unit="share"),),
            proposals=(
                Proposal(
                    remedy_id="fsync-off",
                    change=Change(settings={"fsync": "off"}),
                    predicted_ratio=Prediction(2.0, 1.5, 3.0),
                    why="no flush",
                ),
            ),
        )
        recorder.update_finding(recorder.add_finding(found), status="proved")
        trial = recorder.add_trial(
            kind="remedy", title="pool 2 → 16", change={"pool_max": {"w": 2}}
        )
        recorder.update_trial(trial, verdict="better", pairs=6, decision="kept")
        recorder.update_run(result={"ok": True}, name="renamed")
        recorder.finish("done", "all well")
    with RunFile(recorder.path) as run:
        (finding,) = run.findings(step=0)
        assert finding == found.model_copy(update={"status": "proved", "share": 0.6123})
        assert finding.proposals[0].prediction.interval == (1.5, 3.0)
        (one,) = run.trials()
        assert (one.verdict, one.change, one.decision) == ("better", {"pool_max": {"w": 2}}, "kept")
        assert (run.run.name, run.run.result) == ("renamed", {"ok": True})
        assert (run.run.status, run.run.status_detail) == ("done", "all well")


def test_closing_without_finishing_says_so(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db") as recorder:
        recorder.add_event("warning", "x")
    assert RunFile(recorder.path).run.status == "interrupted"


def test_many_threads_write_one_file(tmp_path: Path) -> None:
    recorder = new_recorder(tmp_path / "run.db")

    def write(number: int) -> None:
        for second in range(50):
            recorder.add_rows(
                "metric_disk", [{"device": f"d{number}", "holds": "", "reads": second}]
            )
            recorder.statement_id(f"select {second}")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.finish("done")
    with RunFile(recorder.path) as run:
        assert len(run.series("metric_disk")["reads"]) == 300
        assert len(run.series("metric_disk", where={"device": "d3"})["at_ms"]) == 50


CHILD = """
import sys, time
sys.path[:0] = {paths!r}
from record_samples import *
recorder = new_recorder({path!r})
recorder.open_slice("run")
for second in range(20):
    add_second(recorder, second, [script_row(intended=1, done=1)])
print("written", flush=True)
second = 20
while True:
    add_second(recorder, second, [script_row(intended=1, done=1)])
    second += 1
    time.sleep(0.001)
"""


def test_kill_9_loses_at_most_the_last_second(tmp_path: Path) -> None:
    """Nobody asks for a commit: the recorder makes them by itself, more than one a second."""
    assert 2 * COMMIT_EVERY_S < 1
    path = tmp_path / "run.db"
    source = CHILD.format(paths=sys.path, path=str(path))
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with RunFile(path) as growing:
            assert growing.run.status == "running"
            # The test's own time limit ends this.
            while growing.ledger().done < 20:
                time.sleep(0.05)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    with RunFile(path) as run:
        assert run.run.status == "interrupted"
        assert run.run.status_detail == "the recording process has ended"
        assert run.ledger().done >= 20
        assert run.ledger().balanced
        assert run.slices()[0].ended_ms is None


FULL = """
import sys, time
sys.path[:0] = {paths!r}
from pgdyno.errors import RunError
from record_samples import *
{limit}
recorder = new_recorder({path!r})
told = 0
for second in range(400):
    try:
        add_second(recorder, second, [script_row(done=1, service=bytes(4000))])
        recorder.add_event("sql", "x")
        if second == 9:
            recorder.flush()  # However late the first commit comes, this is in the file.
    except RunError as error:
        told += 1
        assert error.exit_status == 2 and error.hint
        print(error.message)
    time.sleep(0.005)
try:
    recorder.open_slice("run")
    recorder.finish("failed", "disk full")
except RunError as error:
    told += 1
    print(error.message)
assert told == 1, told
"""


def check_what_a_full_disk_leaves(path: Path, limit: str = "") -> None:
    source = FULL.format(paths=sys.path, path=str(path), limit=limit)
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    assert child.stderr == ""
    assert "cannot write the run file" in child.stdout
    with RunFile(path) as run:
        assert run.run.status in ("failed", "interrupted")
        done = run.ledger().done
        assert 0 < done < 400
        at_ms = run.series("interval")["at_ms"]
        assert at_ms.tolist() == [1000 * second for second in range(done)]  # no holes


def test_a_file_size_limit_is_told_once_and_what_was_recorded_is_kept(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))"
    check_what_a_full_disk_leaves(tmp_path / "run.db", limit)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk_is_told_once_and_what_was_recorded_is_kept(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        check_what_a_full_disk_leaves(tmp_path / "run.db")
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_failure_of_the_committing_thread_reaches_the_next_caller(tmp_path: Path) -> None:
    recorder = new_recorder(tmp_path / "run.db")
    recorder.add_event("sql", "x")
    recorder._writer._fail(sqlite3.OperationalError("database or disk is full"))
    with pytest.raises(RunError, match="database or disk is full"):
        recorder.add_event("sql", "y")
    recorder.add_event("sql", "z")
    recorder.flush()
    recorder.finish("failed")
    recorder.flush()
    with RunFile(recorder.path) as run:
        assert [event.label for event in run.events()] == ["x"]
        assert run.run.status == "failed"


def test_a_drill_within_a_run_keeps_its_load_and_samples_out_of_it(tmp_path: Path) -> None:
    recorder = new_recorder(tmp_path / "run.db")
    drill = recorder.for_drill()
    add_second(drill, 0, [script_row()])
    drill.add_rows("metric_host", [{"load1": 1.0}])
    drill.add_event("restart", "of the drill")
    drill.update_run(result={"of": "the drill"})
    drill_id = drill.add_drill(fault="kill", title="", seed=1, sham=0, bound="")
    drill.close()
    assert recorder.for_drill().add_drill(fault="stop", title="", seed=1, sham=0, bound="") == 2
    recorder.add_event("restart", "of the run")
    recorder.finish("done")
    with RunFile(recorder.path) as run:
        assert run.run.status == "done"
        assert run.run.result == {}
        assert run.intervals() == []
        assert len(run.series("metric_host")["at_ms"]) == 0
        assert [each.fault for each in run.drills()] == ["kill", "stop"]
        assert [event.label for event in run.events()] == ["of the run"]
        assert [event.label for event in run.drill_events(drill_id)] == ["of the drill"]


def test_the_generator_audits_itself(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db") as recorder:
        for second in range(2):
            threads = [thread_row(thread=n, cpu_user_us=10, loop_stall_us_max=n) for n in range(2)]
            add_second(recorder, second, [script_row()], threads=threads)
        recorder.finish("done")
    total = RunFile(recorder.path).generator()
    assert (total.threads, total.cpu_user_us, total.loop_stall_us_max) == (2, 40, 1)
