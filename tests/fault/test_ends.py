"""However a run ends, what was recorded is kept, and nothing of ours is left: kill -9, Ctrl-C, a
server that goes away, a disk that fills up."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from said import error_of

from patience import PATIENCE_S, wait_until
from pgdyno.record import RunFile
from pgdyno.server import Cluster
from remains import running_in

PGDYNO = [sys.executable, "-m", "pgdyno"]
Start = Callable[..., "subprocess.Popen[str]"]


def _as_in_the_foreground() -> None:
    """The tests themselves may run in the background, where Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Runs in processes of their own, none of which outlives the test."""
    runs: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        run = subprocess.Popen(
            [*PGDYNO, *arguments],
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_as_in_the_foreground,
        )
        runs.append(run)
        return run

    yield begin
    for run in runs:
        run.kill()
        run.communicate()


def intervals(path: Path) -> int:
    """Rows of table interval, 0 while there is no such file or table."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return int(db.execute("select count(*) from interval").fetchone()[0])
    except sqlite3.Error:
        return 0


def servers_below(home: Path) -> set[str]:
    """Processes in the folder. One of an earlier test may be ending."""
    return set(running_in(home))


@pytest.fixture
def home(_pgdyno_home: None) -> Path:
    return Path(os.environ["PGDYNO_HOME"])


def test_kill_9_keeps_the_file_and_leaves_no_server(
    start: Start, tmp_path: Path, home: Path
) -> None:
    before = servers_below(home)
    run = start("run", "tpcb-like", "-c", "2", "--think", "20ms", "-T", "300", "-o", "run.db", "-q")
    path = tmp_path / "run.db"
    wait_until(lambda: intervals(path) >= 4, "four intervals, while it runs")
    run.kill()
    run.communicate()
    assert intervals(path) >= 4
    wait_until(lambda: servers_below(home) <= before, "the server ends with pgdyno")
    assert RunFile(path).run.status == "interrupted"
    assert RunFile(path).ledger().balanced


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_signal_ends_it_in_order(
    start: Start, tmp_path: Path, home: Path, number: signal.Signals
) -> None:
    before = servers_below(home)
    run = start("run", "tpcb-like", "-c", "2", "--think", "20ms", "-T", "300", "-o", "run.db", "-q")
    wait_until(lambda: intervals(tmp_path / "run.db") >= 2, "two intervals")
    run.send_signal(number)
    _, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 128 + number
    assert error_of(err).startswith(f"error: interrupted by {number.name}\n")
    assert "pgdyno show run.db" in err
    assert servers_below(home) <= before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.db"], "left-over files"
    assert RunFile(tmp_path / "run.db").ledger().balanced


@pytest.mark.parametrize("moment", ["its first line", "its server", "its run file", "its load"])
def test_ctrl_c_at_any_moment_leaves_nothing(
    start: Start, tmp_path: Path, home: Path, moment: str
) -> None:
    before = servers_below(home)
    run = start("run", "tpcb-like", "-c", "2", "--think", "20ms", "-T", "300", "-o", "run.db", "-q")
    come = {
        "its first line": lambda: _heeds(run.pid, signal.SIGTERM),
        "its server": lambda: servers_below(home) > before,
        "its run file": (tmp_path / "run.db").exists,
        "its load": lambda: intervals(tmp_path / "run.db") > 0,
    }
    wait_until(come[moment], moment)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 130
    assert error_of(err).startswith("error: interrupted by SIGINT\n")
    assert "Traceback" not in err
    wait_until(lambda: servers_below(home) <= before, "the server is gone")


def _heeds(pid: int, number: signal.Signals) -> bool:
    """Whether it catches the signal, as it does from its first line on; Python leaves this one."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


@pytest.mark.long
def test_a_server_that_goes_away(
    start: Start, tmp_path: Path, new_cluster: Callable[..., Cluster]
) -> None:
    cluster = new_cluster()
    uri = cluster.conninfo.uri_without_password
    run = start("run", uri, "-c", "2", "--think", "20ms", "-T", "60", "-o", "run.db", "-q")
    wait_until(lambda: intervals(tmp_path / "run.db") >= 2, "two intervals")
    cluster.kill()
    _, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 2
    assert error_of(err)
    assert "the recorded data is kept: pgdyno show run.db" in err
    assert "Traceback" not in err
    kept = RunFile(tmp_path / "run.db")
    assert kept.run.status == "failed"
    assert kept.ledger().balanced
    assert {error.sqlstate for error in kept.errors()} & {"connection-lost", "57P02", "57P01"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_under_the_run_file(small_disk: Path, start: Start, tmp_path: Path) -> None:
    path = small_disk / "run.db"
    run = start("run", "tpcb-like", "-c", "2", "--think", "20ms", "-T", "60", "-o", str(path), "-q")
    wait_until(lambda: intervals(path) >= 2, "two intervals")
    filler = small_disk / "filler"
    file = os.open(filler, os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while True:
            os.write(file, b"x" * 4096)
    os.close(file)
    _, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 2, err
    assert "full" in err
    assert "Traceback" not in err
    filler.unlink(missing_ok=True)
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    for suffix in ("-wal", "-shm"):
        if (extra := Path(f"{path}{suffix}")).exists():
            shutil.copy(extra, f"{copy}{suffix}")
    assert intervals(copy) >= 2


def cuts(path: Path) -> int:
    """Cuts that a drill has recorded, 0 while there is no such file or table."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return int(db.execute("select count(*) from cut").fetchone()[0])
    except sqlite3.Error:
        return 0


def mounts_below(home: Path) -> list[str]:
    return [line for line in Path("/proc/mounts").read_text().splitlines() if f"{home}/" in line]


def cluster_folders(home: Path) -> set[Path]:
    """Other tests' servers have theirs here too."""
    return set((home / "clusters").glob("*/"))


DRILL = ("drill", "-s", "1", "-c", "4", "--load", "400ms", "--cuts", "50", "-o", "run.db", "-q")


@pytest.mark.long
def test_kill_9_in_a_drill_is_cleared_up_by_the_next_start(
    start: Start, tmp_path: Path, home: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount the disks that this drill fills")
    before, folders = servers_below(home), cluster_folders(home)
    run = start(*DRILL, "--fault", "disk-full")
    wait_until(lambda: cuts(tmp_path / "run.db") >= 1, "a cut")
    assert mounts_below(home), "it has disks of its own"
    run.kill()
    run.communicate()
    again = start("run", "select-only", "-T", "300ms", "-o", "again.db", "-q")
    _, err = again.communicate(timeout=PATIENCE_S)
    assert again.returncode in (0, 4), err  # On a busy machine it is not trusted.
    assert mounts_below(home) == []
    wait_until(lambda: servers_below(home) <= before, "its server is gone")
    assert cluster_folders(home) <= folders, "its folder is gone"
    assert RunFile(tmp_path / "run.db").run.status == "interrupted"
