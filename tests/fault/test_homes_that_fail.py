"""PGDYNO_HOME that is full, read-only, open to everybody, without locks, or oddly named; and a disk
whose process is killed: one message with a hint, and nothing left behind."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from patience import wait_until
from pgdyno.conduct import Silent
from pgdyno.disk import _cleanup
from pgdyno.disk.mounting import mounts_below
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill.model import DrillOptions
from pgdyno.drill.running import run_drill
from pgdyno.errors import RunError, SetupError
from pgdyno.server import Cluster, Installation
from pgdyno.server.directories import clusters_dir, state_home
from pgdyno.server.local._template import _copy_binaries, _runs, _tree_root
from pgdyno.server.local.account import server_account
from pgdyno.server.locks import try_lock
from pgdyno.spec import spec_from_fields

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


@pytest.fixture
def small(open_dir: Path) -> Iterator[Path]:
    """A file system of 24 MB, too small for a server."""
    command = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=755", "tmpfs"]
    subprocess.run([*command, str(open_dir)], check=True)
    yield open_dir
    when_unused("umount", str(open_dir))


def when_unused(*command: str) -> None:
    """Run a command that fails while a file is open: a process of pgdyno's may just be ending."""

    def done() -> bool:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    wait_until(done, " ".join(command))


def run(home: str, output: Path) -> subprocess.CompletedProcess[str]:
    words = ["run", "select-only", "-T", "1", "--think", "20ms", "-q", "-o", str(output)]
    return subprocess.run(
        [sys.executable, "-m", "pgdyno", *words],
        env={**os.environ, "PGDYNO_HOME": home},
        capture_output=True,
        text=True,
        check=False,
    )


def one_message(done: subprocess.CompletedProcess[str], message: str) -> bool:
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("error: ") == done.stderr.count("hint: ") == 1, done.stderr
    assert "internal error" not in done.stderr
    return message in done.stderr


@as_root
@pytest.mark.parametrize("filled_mb", [0, 23, 24])
def test_a_full_one(small: Path, tmp_path: Path, filled_mb: int) -> None:
    (small / "fill").write_bytes(b"x" * (filled_mb << 20))
    done = run(str(small / "home"), tmp_path / "run.db")
    assert one_message(done, "No space left on device")
    assert list((small / "home/clusters").glob("*-*")) == []


@as_root
def test_programs_that_have_to_be_copied_to_a_full_one(
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    installation_of: Callable[[int], Installation],
) -> None:
    """As those in root's home, which the server's account cannot run."""
    (small / "fill").write_bytes(b"x" * (20 << 20))
    monkeypatch.setenv("PGDYNO_HOME", str(small / "home"))
    given = installation_of(18)
    with pytest.raises(SetupError, match=r"programs to .*: No space left on device"):
        _copy_binaries(given, _tree_root(given.bindir), small / "home/cache/programs/part")
    assert not (small / "home/cache/programs/part").exists()


@as_root
def test_a_read_only_one(small: Path, tmp_path: Path) -> None:
    run(str(small / "home"), tmp_path / "first.db")
    when_unused("mount", "-o", "remount,ro", str(small))
    done = run(str(small / "home"), tmp_path / "run.db")
    assert one_message(done, "Read-only file system")


def test_one_that_everybody_may_write_to(open_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_dir.chmod(0o777)
    monkeypatch.setenv("PGDYNO_HOME", str(open_dir))
    with pytest.raises(SetupError, match=f"{open_dir} is world-writable"):
        state_home()


def test_one_without_locks(open_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(SetupError, match=f"cannot lock {open_dir}/lock: No locks available"):
        try_lock(open_dir / "lock")


def test_a_name_with_a_line_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", "/tmp/two\nlines")
    with pytest.raises(SetupError, match=r"PGDYNO_HOME is '/tmp/two\\nlines'"):
        state_home()


@pytest.mark.parametrize("name", ['it\'s "two" words', "x" * 200])
def test_a_name_that_has_to_be_quoted_or_is_long(
    open_dir: Path, name: str, monkeypatch: pytest.MonkeyPatch,
    installation_of: Callable[[int], Installation],
) -> None:  # fmt: skip
    installation, account = installation_of(18), server_account()
    monkeypatch.setenv("PGDYNO_HOME", str(open_dir / name))
    if '"' in name and account and not _runs(installation.binary("postgres"), account):
        with pytest.raises(SetupError, match="do not start where a name has a quote"):
            Cluster.create(installation)
        return
    with Cluster.create(installation) as cluster:
        socket_dir = Path(cluster.conninfo.host)
        assert cluster.running
    assert not socket_dir.exists()
    assert not cluster.directory.exists()


@as_root
def test_the_process_of_a_disk_is_killed(
    installation_of: Callable[[int], Installation],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not (Path("/dev/fuse").exists() and Path("/dev/loop-control").exists()):
        pytest.skip("power cuts need FUSE and loop devices")
    installation_of(18)
    let_run = LoadedServer.let_run

    def killed(self: LoadedServer, rng: Any) -> None:
        let_run(self, rng)
        for pid in _cleanup._daemons(self.cluster.directory):
            os.kill(pid, signal.SIGKILL)

    monkeypatch.setattr(LoadedServer, "let_run", killed)
    fields = {
        "name": "daemon",
        "server": {"version": 18},
        "disk": {"data": "blackout:size=600MB"},
        "clients": [{"count": 2, "think": "20ms"}],
    }
    with pytest.raises(RunError, match=r"the process that serves .* has ended"):
        run_drill(
            spec_from_fields(fields),
            DrillOptions(fault="kill", cuts=1, load_s=0.5),
            watcher=Silent(),
            run=tmp_path / "run.db",
        )
    assert mounts_below(clusters_dir()) == []
