"""A cluster of pgdyno's own: starts, restarts, dies with its owner, and explains itself."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from pgdyno.errors import SetupError, UsageError
from pgdyno.server import Cluster, Installation, sweep
from pgdyno.server.sharedmem import _posix_handles, _recorded_segment

pytestmark = pytest.mark.server

Find = Callable[[int], Installation]

_OWNER = """
import sys, time
from pathlib import Path
from pgdyno.server import Cluster, find_installation
cluster = Cluster.create(find_installation(None, int(sys.argv[1])), {})
cluster.start()
print(cluster.folder, cluster.pid, cluster._postmaster._guardian.pid, flush=True)
time.sleep(600)
"""


class Owner:
    """Another process that owns a cluster, to be killed."""

    def __init__(self, major: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _OWNER, str(major)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        folder, postmaster, guardian = self.process.stdout.readline().split()
        self.folder, self.postmaster, self.guardian = Path(folder), int(postmaster), int(guardian)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def owner(request: pytest.FixtureRequest, installation_of: Find) -> Iterator[Owner]:
    installation_of(request.param)
    owner = Owner(request.param)
    yield owner
    owner.kill()
    assert gone_within(owner.folder / "data", 5)
    sweep()


def processes_in(data_dir: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str((entry / "cwd").readlink()).startswith(str(data_dir)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def gone_within(data_dir: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while processes_in(data_dir):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def value_of(cluster: Cluster, statement: str) -> object:
    with psycopg.connect(**cluster.conninfo.kwargs()) as conn:
        row = conn.execute(statement.encode()).fetchone()
    assert row is not None
    return row[0]


def test_takes_connections_through_socket_and_loopback(pg: Cluster) -> None:
    for conninfo in (pg.conninfo, pg.conninfo_tcp):
        with psycopg.connect(**conninfo.kwargs()) as conn:
            row = conn.execute("select current_database(), current_user").fetchone()
        assert row == ("pgdyno", "pgdyno")


def test_tcp_asks_for_the_password(pg: Cluster) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(**{**pg.conninfo_tcp.kwargs(), "password": "wrong"})


def test_only_the_server_s_account_can_enter_socket_and_data(pg: Cluster) -> None:
    for directory in (Path(pg.conninfo.host), pg.data_dir):
        assert directory.stat().st_mode & 0o077 == 0


def test_runs_unprivileged(pg: Cluster) -> None:
    assert pg.pid is not None
    assert Path(f"/proc/{pg.pid}").stat().st_uid != 0


@pytest.mark.parametrize("major", [18, 15])
def test_settings_hold_over_restart_and_crash(
    new_cluster: Callable[..., Cluster], major: int
) -> None:
    cluster = new_cluster(major, shared_buffers="16MB", application_name="it's \\ quoted")
    port = cluster.conninfo.port
    with psycopg.connect(**cluster.conninfo.kwargs()) as conn:
        conn.execute("create table kept as select 1 as id")
    cluster.restart()
    assert value_of(cluster, "select count(*) from kept") == 1
    cluster.kill()
    assert not cluster.running
    assert not processes_in(cluster.data_dir)
    cluster.start()
    assert cluster.conninfo.port == port
    assert value_of(cluster, "select count(*) from kept") == 1
    assert value_of(cluster, "show shared_buffers") == "16MB"
    assert value_of(cluster, "select boot_val from pg_settings where name = 'port'") == "5432"


def test_nothing_is_left_after_a_block(installation_of: Find) -> None:
    with Cluster.create(installation_of(18), {}) as cluster:
        folder, data_dir = cluster.folder, cluster.data_dir
    assert not folder.exists()
    assert not processes_in(data_dir)


def test_an_error_in_the_block_leaves_nothing_either(installation_of: Find) -> None:
    with pytest.raises(RuntimeError), Cluster.create(installation_of(18), {}) as cluster:
        raise RuntimeError
    assert not cluster.folder.exists()


@pytest.mark.parametrize("owner", [18, 15], indirect=True)
def test_server_dies_with_a_killed_owner_and_is_swept(owner: Owner) -> None:
    data_dir = owner.folder / "data"
    assert sweep() == []
    assert processes_in(data_dir)
    owner.kill()
    assert gone_within(data_dir, 5)
    assert sweep() == [f"removed the server of a crashed run in {owner.folder}"]
    assert not owner.folder.exists()
    assert sweep() == []


@pytest.mark.parametrize("owner", [18], indirect=True)
def test_server_dies_even_if_its_guardian_is_killed_first(owner: Owner) -> None:
    os.kill(owner.guardian, signal.SIGKILL)
    assert gone_within(owner.folder / "data", 5)


@pytest.mark.parametrize("owner", [18], indirect=True)
def test_interrupt_from_the_terminal_reaches_only_pgdyno(owner: Owner) -> None:
    assert os.getpgid(owner.postmaster) != os.getpgid(owner.process.pid)
    assert os.getsid(owner.guardian) != os.getsid(owner.process.pid)


@pytest.mark.parametrize("owner", [18, 15], indirect=True)
def test_sweep_removes_shared_memory_of_a_killed_postmaster(owner: Owner) -> None:
    segment = _recorded_segment(owner.folder / "data")
    assert segment is not None
    os.kill(owner.postmaster, signal.SIGKILL)
    assert gone_within(owner.folder / "data", 5)
    handles = _posix_handles(segment[1])
    files = [Path(f"/dev/shm/PostgreSQL.{handle}") for handle in handles]
    assert files
    assert all(file.exists() for file in files)
    owner.kill()
    sweep()
    assert not any(file.exists() for file in files)
    assert f" {segment[1]} " not in Path("/proc/sysvipc/shm").read_text()


def test_kept_cluster_is_taken_up_again(open_dir: Path, installation_of: Find) -> None:
    kept = open_dir / "kept"
    with Cluster.create(installation_of(18), {}, keep_dir=kept) as cluster:
        with psycopg.connect(**cluster.conninfo.kwargs()) as conn:
            conn.execute("create table kept as select 1 as id")
        with pytest.raises(UsageError, match="another pgdyno is using"):
            Cluster.create(installation_of(18), {}, keep_dir=kept)
    with pytest.raises(UsageError, match=r"is of PostgreSQL 18, not 15"):
        Cluster.create(installation_of(15), {}, keep_dir=kept)
    with Cluster.create(installation_of(18), {}, keep_dir=kept) as cluster:
        assert value_of(cluster, "select count(*) from kept") == 1


def test_long_state_paths_get_a_short_socket(
    open_dir: Path, monkeypatch: pytest.MonkeyPatch, installation_of: Find
) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(open_dir / ("long" * 20)))
    with Cluster.create(installation_of(18), {}) as cluster:
        socket_dir = Path(cluster.conninfo.host)
        assert value_of(cluster, "select 1") == 1
    assert not socket_dir.exists()


def test_a_port_taken_meanwhile_is_no_obstacle(
    installation_of: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        offers = iter([taken.getsockname()[1], free_port()])
        monkeypatch.setattr("pgdyno.server.cluster._free_port", lambda: next(offers))
        with Cluster.create(installation_of(18), {}) as cluster:
            assert value_of(cluster, "select 1") == 1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_place_that_the_server_cannot_enter_is_named(
    tmp_path: Path, installation_of: Find
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root runs the server under another account")
    tmp_path.chmod(0o700)
    with pytest.raises(SetupError, match=f"who cannot enter {tmp_path}"):
        Cluster.create(installation_of(18), {}, keep_dir=tmp_path / "kept")


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        (
            {"shared_bufers": "1GB"},
            "shared_bufers: PostgreSQL 18 has no such setting",
            "did you mean shared_buffers",
        ),
        (
            {"synchronous_commit": "maybe"},
            'synchronous_commit: "maybe" is not one of on, off, local, remote_write, remote_apply',
            "also takes true",
        ),
        ({"fsync": "2"}, 'fsync: "2" is not one of on, off', "also takes true"),
        ({"shared_buffers": "1kB"}, "shared_buffers: 0 8kB is outside the valid range", None),
        ({"wal_compression": "lz4"}, 'wal_compression: "lz4" is not one of on, off, pglz', None),
        ({"port": "5432"}, "port: pgdyno needs this setting as it is", None),
    ],
)
def test_wrong_settings_are_refused_before_anything_starts(
    installation_of: Find, settings: dict[str, str], message: str, hint: str | None
) -> None:
    with pytest.raises(UsageError) as caught:
        Cluster.create(installation_of(18), settings)
    assert caught.value.message.startswith(message)
    assert hint is None or hint in (caught.value.hint or "")


def test_a_server_that_cannot_start_says_why(installation_of: Find) -> None:
    cluster = Cluster.create(installation_of(18), {"shared_preload_libraries": "no_such_thing"})
    with pytest.raises(SetupError) as caught, cluster:
        pass
    assert caught.value.message == (
        f"PostgreSQL {cluster.installation.version} did not start:"
        ' could not access file "no_such_thing": No such file or directory'
    )
    assert not cluster.folder.exists()
