"""A cluster of pgdyno's own: starts, restarts, dies with its owner, and explains itself."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from patience import wait_until
from pgdyno.disk import dismantle
from pgdyno.errors import SetupError, UsageError
from pgdyno.server import Cluster, Installation, sweep
from pgdyno.server.local.account import change_owner, server_account
from pgdyno.server.local.controldata import ControlData
from pgdyno.server.local.leftovers import _posix_handles, _recorded_segment
from pgdyno.server.local.programs import free_ports
from pgdyno.server.local.safefiles import copy_tree
from remains import processes_in

pytestmark = pytest.mark.server

Find = Callable[[int], Installation]

# Recovery need not flush each file of the data directory first.
FAST = {"fsync": "off"}

_OWNER = """
import signal, sys
from pathlib import Path
from pgdyno.server import Cluster, find_installation
cluster = Cluster.create(find_installation(None, int(sys.argv[1])), {})
cluster.start()
print(cluster.directory, cluster.pid, cluster._postmaster._guardian.pid, flush=True)
signal.pause()
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
    wait_until_gone(owner.folder / "data")
    sweep(dismantle)


def wait_until_gone(data_dir: Path) -> None:
    """Wait for its processes to end."""
    wait_until(lambda: not processes_in(data_dir), "no process is left")


def stop(pids: Iterable[int]) -> None:
    """Have processes stand still, unless they have ended meanwhile."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)


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


@pytest.mark.alike
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
        folder, data_dir = cluster.directory, cluster.data_dir
    assert not folder.exists()
    assert not processes_in(data_dir)


def test_an_error_in_the_block_leaves_nothing_either(installation_of: Find) -> None:
    with pytest.raises(RuntimeError), Cluster.create(installation_of(18), {}) as cluster:
        raise RuntimeError
    assert not cluster.directory.exists()


@pytest.mark.alike
@pytest.mark.parametrize("owner", [18, 15], indirect=True)
def test_a_killed_owner_s_server_ends_and_its_folder_goes(owner: Owner) -> None:
    data_dir = owner.folder / "data"
    assert sweep(dismantle) == []
    assert processes_in(data_dir)
    owner.kill()
    wait_until(lambda: not owner.folder.exists(), "its folder is gone")
    assert not processes_in(data_dir)
    assert sweep(dismantle) == []


@pytest.mark.parametrize("owner", [18], indirect=True)
def test_what_a_killed_guardian_leaves_is_swept(owner: Owner) -> None:
    os.kill(owner.guardian, signal.SIGKILL)
    owner.kill()
    wait_until_gone(owner.folder / "data")
    (said,) = sweep(dismantle)
    assert said.endswith(f" {owner.folder}")
    assert not owner.folder.exists()
    assert sweep(dismantle) == []


@pytest.mark.parametrize("owner", [18], indirect=True)
def test_a_folder_stays_while_its_owner_lives(owner: Owner) -> None:
    """Whoever ends the guardian, pgdyno may need the server's log, and start it again."""
    os.kill(owner.guardian, signal.SIGTERM)
    wait_until_gone(owner.folder / "data")
    wait_until(lambda: not alive(owner.guardian), "the guardian has ended")
    assert (owner.folder / "data").exists()


@pytest.mark.parametrize("owner", [18], indirect=True)
def test_server_dies_even_if_its_guardian_is_killed_first(owner: Owner) -> None:
    os.kill(owner.guardian, signal.SIGKILL)
    wait_until_gone(owner.folder / "data")


@pytest.mark.alike
@pytest.mark.parametrize("owner", [18, 15], indirect=True)
@pytest.mark.parametrize("orphans", [False, True])
def test_a_server_that_stands_still_dies_with_a_killed_owner(owner: Owner, orphans: bool) -> None:
    data_dir = owner.folder / "data"
    stop(processes_in(data_dir))
    if orphans:  # Its children then have the guardian for a parent.
        os.kill(owner.postmaster, signal.SIGKILL)
    owner.kill()
    wait_until_gone(data_dir)


@pytest.mark.parametrize("owner", [18], indirect=True)
def test_a_guardian_that_stands_still_is_swept(owner: Owner) -> None:
    stop([owner.guardian, *processes_in(owner.folder / "data")])
    owner.kill()
    (said,) = sweep(dismantle)
    assert said.endswith(f" {owner.folder}")
    with suppress(OSError):  # Until init has waited for it, it is there, without a command line.
        assert Path(f"/proc/{owner.guardian}/cmdline").read_bytes() == b""
    wait_until_gone(owner.folder / "data")


@pytest.mark.parametrize("owner", [18], indirect=True)
def test_interrupt_from_the_terminal_reaches_only_pgdyno(owner: Owner) -> None:
    assert os.getpgid(owner.postmaster) != os.getpgid(owner.process.pid)
    assert os.getsid(owner.guardian) != os.getsid(owner.process.pid)


@pytest.mark.alike
@pytest.mark.parametrize("owner", [18, 15], indirect=True)
def test_sweep_removes_shared_memory_of_a_killed_postmaster(owner: Owner) -> None:
    segment = _recorded_segment(owner.folder / "data")
    assert segment is not None
    os.kill(owner.postmaster, signal.SIGKILL)
    wait_until_gone(owner.folder / "data")
    handles = _posix_handles(segment[1])
    files = [Path(f"/dev/shm/PostgreSQL.{handle}") for handle in handles]
    assert files
    assert all(file.exists() for file in files)
    owner.kill()
    sweep(dismantle)
    assert not any(file.exists() for file in files)
    assert f" {segment[1]} " not in Path("/proc/sysvipc/shm").read_text()


def test_kept_cluster_is_taken_up_again(open_dir: Path, installation_of: Find) -> None:
    kept = open_dir / "kept"
    with Cluster.create(installation_of(18), {}, keep_dir=kept) as cluster:
        with psycopg.connect(**cluster.conninfo.kwargs()) as conn:
            conn.execute("create table kept as select 1 as id")
        with pytest.raises(UsageError, match="another pgdyno is using"):
            Cluster.create(installation_of(18), {}, keep_dir=kept)
    with pytest.raises(UsageError, match=r"belongs to PostgreSQL 18, not 15"):
        Cluster.create(installation_of(15), {}, keep_dir=kept)
    with Cluster.create(installation_of(18), {}, keep_dir=kept) as cluster:
        assert value_of(cluster, "select count(*) from kept") == 1


class Shelves:
    """Places on plain folders, which stay when they are closed so that a test can look."""

    def __init__(self, data: Path | None = None, wal: Path | None = None) -> None:
        self.data, self.wal = data, wal
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def shelf(parent: Path, name: str) -> Path:
    """A folder that the server's account may write to."""
    folder = parent / name
    folder.mkdir(mode=0o700)
    change_owner(folder, server_account())
    return folder


@pytest.mark.alike
@pytest.mark.parametrize("major", [18, 15])
def test_data_and_wal_lie_where_the_places_say(
    open_dir: Path, installation_of: Find, major: int
) -> None:
    places = Shelves(shelf(open_dir, "a"), shelf(open_dir, "b"))
    asked = []

    def disks(folder: Path) -> Shelves:
        asked.append(folder)
        return places

    with Cluster.create(installation_of(major), {}, disks=disks) as cluster:
        assert asked == [cluster.directory]
        assert cluster.data_dir == open_dir / "a/pgdata"
        assert cluster.wal_dir == open_dir / "b/pg_wal"
        assert (cluster.data_dir / "pg_wal").readlink() == cluster.wal_dir
        assert list(cluster.wal_dir.glob("0000*"))
        assert value_of(cluster, "select pg_is_in_recovery()") is False
        assert value_of(cluster, "show data_directory") == str(open_dir / "a/pgdata")
    assert places.closed == 1
    assert not processes_in(open_dir)


def test_places_are_closed_when_the_cluster_cannot_be_made(
    open_dir: Path, installation_of: Find
) -> None:
    places = Shelves(wal=shelf(open_dir, "wal"))
    (open_dir / "wal/pg_wal").mkdir()
    with pytest.raises(SetupError, match="already contains pg_wal"):
        Cluster.create(installation_of(18), {}, disks=lambda _: places)
    assert places.closed == 1


@pytest.mark.alike
@pytest.mark.parametrize("major", [18, 15])
def test_the_wal_moves_on_a_stopped_server(
    open_dir: Path, installation_of: Find, major: int
) -> None:
    with Cluster.create(installation_of(major), {}) as cluster:
        value_of(cluster, "select count(*) from pg_class")
        with pytest.raises(UsageError, match="while the server runs"):
            cluster.move_wal(open_dir)
        inside = cluster.wal_dir
        for count, place in enumerate([shelf(open_dir, "a"), shelf(open_dir, "b"), None, None]):
            with psycopg.connect(**cluster.conninfo.kwargs()) as conn:
                conn.execute(f"create table t{count} as select 1 as id".encode())
            cluster.stop()
            before = cluster.wal_dir
            cluster.move_wal(place)
            assert cluster.wal_dir == (inside if place is None else place / "pg_wal")
            assert cluster.wal_dir.stat().st_mode & 0o777 == 0o700
            assert before.resolve() == cluster.wal_dir or not before.exists()
            cluster.start()
        tables = "select count(*) from pg_class where relname ~ '^t[0-9]$'"
        assert value_of(cluster, tables) == 4
        assert not (cluster.data_dir / "pg_wal.before").exists()


@pytest.mark.alike
@pytest.mark.parametrize("major", [18, 15])
def test_spare_segments_stay_with_their_disk(
    open_dir: Path, installation_of: Find, major: int
) -> None:
    """Each disk keeps what it had for reuse; whatever comes next is accepted by recovery too."""
    settings = {**FAST, "max_wal_size": "256MB", "min_wal_size": "256MB"}
    places = [shelf(open_dir, "a"), None]
    with Cluster.create(installation_of(major), settings) as cluster:
        cluster.start()
        spares: dict[Path | None, int] = {}
        for count in range(4):
            with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as conn:
                for _ in range(5):
                    conn.execute("select pg_switch_wal()")
                    conn.execute("select pg_logical_emit_message(false, 'pgdyno', 'x')")
                conn.execute("checkpoint")
                conn.execute(f"create table t{count} as select 1 as id".encode())
            here = places[(count + 1) % 2]
            cluster.stop()
            before = len(list(cluster.wal_dir.glob("0000*")))
            cluster.move_wal(places[count % 2])
            cluster.start()
            after = len(list(cluster.wal_dir.glob("0000*")))
            assert before > 3
            # The last one, and the next, into which the checkpoint's record may reach.
            assert after == 2 + spares.get(places[count % 2], 0)
            spares[here] = before - 2
            cluster.kill()
            cluster.start()
        tables = "select count(*) from pg_class where relname ~ '^t[0-9]$'"
        assert value_of(cluster, tables) == 4


def test_a_move_of_the_wal_that_was_broken_off_is_undone(
    open_dir: Path, installation_of: Find
) -> None:
    with Cluster.create(installation_of(18), {}, keep_dir=open_dir / "kept") as cluster:
        inside = cluster.wal_dir
    inside.rename(inside.with_name("pg_wal.before"))
    with Cluster.create(installation_of(18), {}, keep_dir=open_dir / "kept") as cluster:
        assert cluster.wal_dir == inside
        assert value_of(cluster, "select 1") == 1


@pytest.mark.parametrize("major", [18, 15])
@pytest.mark.parametrize("checksums", [True, False, None])
def test_checksums_as_wanted(installation_of: Find, major: int, checksums: bool | None) -> None:
    with Cluster.create(installation_of(major), {}, checksums=checksums) as cluster:
        default = major >= 18
        wanted = default if checksums is None else checksums
        assert value_of(cluster, "show data_checksums") == ("on" if wanted else "off")


@pytest.mark.parametrize("major", [18, 15])
def test_the_control_file_is_read_and_a_damaged_one_says_nothing(
    installation_of: Find, major: int
) -> None:
    with Cluster.create(installation_of(major), FAST, checksums=True) as cluster:
        assert cluster.control_data().in_production
        cluster.stop()
        said = cluster.control_data()
        assert (said.shut_down, said.in_production) == (True, False)
        assert (said.page_bytes, said.checksums, said.timeline) == (8192, True, 1)
        assert said.redo_lsn > 0
        assert said.redo_segment in {path.name for path in cluster.wal_dir.iterdir()}
        control = cluster.data_dir / "global/pg_control"
        control.write_bytes(bytes(control.stat().st_size))
        assert cluster.control_data() == ControlData()


@pytest.mark.alike
@pytest.mark.parametrize("major", [18, 15])
def test_a_copy_of_a_crashed_server_shares_nothing_with_it(
    open_dir: Path, installation_of: Find, major: int
) -> None:
    places = Shelves(wal=shelf(open_dir, "wal"))
    with Cluster.create(installation_of(major), FAST, disks=lambda _: places) as original:
        with psycopg.connect(**original.conninfo.kwargs()) as conn:
            conn.execute("create table kept as select 1 as id")
        original.kill()
        with Cluster.create(installation_of(major), FAST, source=original.data_dir) as copy:
            assert copy.wal_dir == copy.data_dir / "pg_wal"
            assert value_of(copy, "select count(*) from kept") == 1
            other = 15 if major == 18 else 18
            with pytest.raises(UsageError, match=f"belongs to PostgreSQL {major}, not {other}"):
                Cluster.create(installation_of(other), {}, source=original.data_dir)
        original.start()
        assert value_of(original, "select count(*) from kept") == 1


def test_a_data_directory_that_the_place_holds_is_taken_up(
    open_dir: Path, installation_of: Find
) -> None:
    """As after a power cut: copies of both disks, mounted elsewhere, with the old link."""
    places = Shelves(shelf(open_dir, "a"), shelf(open_dir, "b"))
    with Cluster.create(installation_of(18), FAST, disks=lambda _: places) as original:
        with psycopg.connect(**original.conninfo.kwargs()) as conn:
            conn.execute("create table kept as select 1 as id")
        original.kill()
        copies = Shelves(open_dir / "a2", open_dir / "b2")
        copy_tree(open_dir / "a", open_dir / "a2")
        copy_tree(open_dir / "b", open_dir / "b2")
    with Cluster.create(installation_of(18), FAST, disks=lambda _: copies) as copy:
        assert copy.wal_dir == open_dir / "b2/pg_wal"
        assert value_of(copy, "select count(*) from kept") == 1


def test_a_lost_wal_is_named(open_dir: Path, installation_of: Find) -> None:
    places = Shelves(shelf(open_dir, "a"), shelf(open_dir, "b"))
    Cluster.create(installation_of(18), {}, disks=lambda _: places).destroy()
    shutil.rmtree(open_dir / "b/pg_wal")
    places.wal = None
    with pytest.raises(SetupError, match=r"the WAL is missing: \S+ points to \S+/b/pg_wal"):
        Cluster.create(installation_of(18), {}, disks=lambda _: places)


def test_a_kept_cluster_takes_no_disks(open_dir: Path, installation_of: Find) -> None:
    places = Shelves()
    with pytest.raises(UsageError, match="is kept: it cannot get disks"):
        Cluster.create(installation_of(18), {}, keep_dir=open_dir / "kept", disks=lambda _: places)


@pytest.mark.alike
@pytest.mark.parametrize("major", [18, 15])
def test_kill_ends_all_processes_at_once(installation_of: Find, major: int) -> None:
    with Cluster.create(installation_of(major), {}) as cluster:
        conn = psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True)
        conn.pgconn.send_query(b"copy (select 1) to program 'sleep 600'")
        wait_until(lambda: processes_in(cluster.data_dir, "sleep"), "its program sleeps")
        expected = {cluster.pid, *processes_in(cluster.data_dir)}
        killed = cluster.kill()
        assert set(killed) >= expected
        assert not any(alive(pid) for pid in killed)
        assert cluster.kill() == []
        conn.close()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("owner", [18], indirect=True)
def test_sweep_lets_the_disks_go_before_it_removes_the_folder(owner: Owner) -> None:
    os.kill(owner.guardian, signal.SIGKILL)
    owner.kill()
    wait_until_gone(owner.folder / "data")
    released = []

    def release(folder: Path) -> list[str]:
        released.append((folder, (folder / "cluster.json").exists()))
        return ["unmounted something"]

    said = sweep(release)
    assert released == [(owner.folder, True)]
    assert said[0] == "unmounted something"
    assert [str(owner.folder) in each for each in said] == [False, True]


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
        offers = itertools.chain([taken.getsockname()[1]], free_ports(1))
        monkeypatch.setattr("pgdyno.server.local.cluster.free_ports", lambda number: [next(offers)])
        with Cluster.create(installation_of(18), {}) as cluster:
            assert value_of(cluster, "select 1") == 1


def test_a_place_that_the_server_cannot_enter_is_named(
    tmp_path: Path, installation_of: Find
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root runs the server under another account")
    tmp_path.chmod(0o700)
    with pytest.raises(SetupError, match=f"which cannot enter {tmp_path}"):
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
    assert not cluster.directory.exists()
