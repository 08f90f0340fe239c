"""The kernel's parameters are as they were, whatever becomes of pgdyno and of its guardian."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from patience import wait_until
from pgdyno.kernel import _record as records
from pgdyno.kernel import restore_left_parameters
from pgdyno.server.locks import try_lock

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("own_home")]

_CHANGING = """
import sys
from pgdyno.kernel import KernelChanges, OneFile
changes = KernelChanges()
changes.set(OneFile("vm.test", sys.argv[1]), "10", "kernel.x")
print("changed", flush=True)
sys.stdin.readline()
print(*changes.restore_all(), flush=True)
"""
_UNDER_LOAD = """
import sys
from pathlib import Path
from pgdyno.conduct import Silent, open_session
from pgdyno.spec import spec_from_fields
spec = spec_from_fields({"kernel": {"dirty_background": sys.argv[1]}, "workload": {"scale": 1},
                         "clients": [{"count": 2, "think": "20ms"}]})
with open_session(spec, run=Path(sys.argv[2]), command="run", spec_text="",
                  watcher=Silent()) as session:
    session.start_load()
    session.wait(0.5)
    print("loaded", flush=True)
    session.wait(600)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Processes that print a line when they have changed something."""
    runs: list[subprocess.Popen[str]] = []

    def begin(program: str, *arguments: str) -> subprocess.Popen[str]:
        run = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        runs.append(run)
        return run

    yield begin
    for run in runs:
        run.kill()
        run.communicate()


def changed(start: Start, tmp_path: Path) -> tuple[subprocess.Popen[str], Path]:
    file = tmp_path / "parameter"
    file.write_text("60\n")
    run = start(_CHANGING, str(file))
    assert run.stdout is not None
    assert run.stdout.readline() == "changed\n"
    assert file.read_text() == "10\n"
    return run, file


def guardian_of(run: subprocess.Popen[str]) -> int:
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    (guardian,) = map(int, children)
    return guardian


def is_free() -> bool:
    lock = try_lock(records.lock_path())
    if lock is not None:
        os.close(lock)
    return lock is not None


def test_the_end_of_a_run_puts_it_back(start: Start, tmp_path: Path) -> None:
    run, file = changed(start, tmp_path)
    assert run.communicate("\n")[0] == "vm.test is 60 again\n"
    assert file.read_text() == "60\n"
    assert not records.path().exists()
    assert is_free()


def test_kill_9_puts_it_back(start: Start, tmp_path: Path) -> None:
    run, file = changed(start, tmp_path)
    run.kill()
    wait_until(lambda: file.read_text() == "60\n", "the guardian puts it back")
    wait_until(lambda: not records.path().exists() and is_free(), "the guardian ends")


def test_kill_9_of_both_leaves_it_to_the_next_pgdyno(start: Start, tmp_path: Path) -> None:
    run, file = changed(start, tmp_path)
    os.kill(guardian_of(run), signal.SIGKILL)
    run.kill()
    run.wait()
    wait_until(is_free, "both have ended")
    assert file.read_text() == "10\n"
    assert restore_left_parameters() == snapshot(["left by a killed run: vm.test is 60 again"])
    assert file.read_text() == "60\n"


def test_what_a_running_pgdyno_has_changed_is_left_to_it(start: Start, tmp_path: Path) -> None:
    _, file = changed(start, tmp_path)
    assert restore_left_parameters() == []
    assert file.read_text() == "10\n"


def test_kill_9_under_load_puts_the_kernel_back(
    start: Start, tmp_path: Path, installation_of: Callable[[int], object]
) -> None:
    installation_of(18)
    ratio = Path("/proc/sys/vm/dirty_background_ratio")
    before = ratio.read_text()
    other = "9%" if before.strip() != "9" else "8%"
    run = start(_UNDER_LOAD, other, str(tmp_path / "run.db"))
    assert run.stdout is not None
    if not may_change(ratio):
        assert run.wait() != 0, "refused"
        return
    assert run.stdout.readline() == "loaded\n"
    assert f"{ratio.read_text().strip()}%" == other
    run.kill()
    wait_until(lambda: ratio.read_text() == before, "the guardian puts it back")


def may_change(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError:
        return False
    return True
