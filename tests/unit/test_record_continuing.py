"""Going on with a run file: what was open is closed, and time does not go back."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from record_samples import add_second, new_recorder, script_row

from pgdyno.errors import UsageError
from pgdyno.record import GAP, Continuation, RunFile, discard_beginning
from pgdyno.record.fileformat import APPLICATION_ID

_KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from record_samples import add_second, new_recorder, script_row
recorder = new_recorder(Path(sys.argv[1]), command="soak")
recorder.open_slice("run", ns=recorder.started_ns)
recorder.statement_id("select 1")
for second in range(3):
    row = script_row(intended=12, sent=12, done=10, backlog=2 + 2 * second)
    add_second(recorder, second, [row])
recorder.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The run file of a process that was killed with six transactions under way."""
    path = tmp_path / "run.db"
    here = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", _KILLED, str(path), here])
    assert done.returncode == -9
    return path


def test_what_was_open_is_closed(killed: Path) -> None:
    with Continuation.of(killed, "soak").open() as recorder:
        assert recorder.statement_id("select 1") == 1
        assert recorder.statement_id("select 2") == 2
        slice_id = recorder.open_slice("run")
        add_second(recorder, recorder.at_ms() / 1000, [script_row(intended=5, sent=5, done=5)])
        recorder.close_slice(slice_id)
        recorder.finish("done")
    with RunFile(killed) as run:
        first, second = run.slices()
        (gap,) = run.events(GAP)
        ledger = run.ledger()
        assert ledger.balanced
        assert (ledger.intended, ledger.done, ledger.cancelled, ledger.backlog) == (41, 35, 6, 0)
        assert run.ledger([first.id]).balanced
        assert first.ended_ms == gap.at_ms == 3000
        assert second.started_ms >= gap.at_ms + (gap.duration_ms or 0)
        assert run.run.status == "done"


def test_time_does_not_go_back_with_the_clock(killed: Path) -> None:
    with sqlite3.connect(killed) as db:
        db.execute("update run set started_unix_ms = started_unix_ms + 3600000")
    db.close()
    with Continuation.of(killed, "soak").open() as recorder:
        assert recorder.at_ms() > 3000
    with RunFile(killed) as run:
        (gap,) = run.events(GAP)
        assert gap.duration_ms == 1


def test_a_file_that_is_being_recorded_is_refused(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db", command="soak"):
        with pytest.raises(UsageError, match="is being recorded"):
            Continuation.of(tmp_path / "run.db", "soak")
        with pytest.raises(UsageError, match="is being recorded"):
            Continuation(tmp_path / "run.db").open()


def test_only_one_goes_on(killed: Path) -> None:
    first, second = (Continuation.of(killed, "soak") for _ in range(2))
    with first.open(), pytest.raises(UsageError, match="is being recorded"):
        second.open()


def test_the_file_stays_private(killed: Path) -> None:
    with Continuation.of(killed, "soak").open() as recorder:
        recorder.flush()
        modes = {path.stat().st_mode & 0o777 for path in killed.parent.glob("run.db*")}
    assert modes == {0o600}


_KILLED_WHILE_MAKING = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute(f"pragma application_id = {sys.argv[2]}")
db.execute("pragma cache_size = 1")
db.execute("begin")
for number in range(100):
    db.execute(f"create table t{number} (a)")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_file_that_was_being_made_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.touch()
    assert discard_beginning(path)
    words = [sys.executable, "-c", _KILLED_WHILE_MAKING, str(path), str(APPLICATION_ID)]
    assert subprocess.run(words).returncode == -9
    assert discard_beginning(path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_more_than_a_beginning_stays(killed: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as db:
        db.execute("pragma application_id = 1")
    db.close()
    text, link = tmp_path / "notes", tmp_path / "link"
    text.write_text("notes")
    (tmp_path / "empty").touch()
    link.symlink_to(tmp_path / "empty")
    for path in (killed, foreign, text, link):
        assert not discard_beginning(path)
        assert path.exists()


def test_a_file_that_is_being_made_is_busy(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"pragma application_id = {APPLICATION_ID}")
    db.execute("begin immediate")
    with pytest.raises(UsageError, match="is being recorded"):
        discard_beginning(path)
    db.close()
    assert path.exists()
