"""Disks under real servers: plain folders, tmpfs, a WAL that moves; and nothing left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from inline_snapshot import snapshot

from pgdyno.disk import OpenDisks, dismantle, open_disk, open_disks
from pgdyno.errors import PgdynoError, SetupError, UsageError
from pgdyno.server import Cluster, Installation, sweep
from pgdyno.spec import DiskSpec
from pgdyno.spec.disk import disk_plan

pytestmark = [pytest.mark.server, pytest.mark.alike]

Find = Callable[[int], Installation]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a tmpfs")

_OWNER = """
import signal, sys
from pgdyno.disk import open_disks
from pgdyno.server import Cluster, find_installation
from pgdyno.spec import DiskSpec
disks = open_disks(DiskSpec(data=sys.argv[1], wal=sys.argv[2]))
cluster = Cluster.create(find_installation(None, 18), {}, disks=disks)
cluster.start()
print(cluster.directory, flush=True)
signal.pause()
"""


def mounts_below(folder: Path) -> list[str]:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if Path(point).is_relative_to(folder)]


@pytest.fixture(autouse=True)
def _nothing_stays_mounted(open_dir: Path) -> Iterator[None]:
    """Of this test session's own; other tests on the machine have theirs."""
    yield
    for folder in (Path(os.environ["PGDYNO_HOME"]), open_dir):
        assert mounts_below(folder) == []


def rows_after_a_crash(cluster: Cluster) -> object:
    with psycopg.connect(**cluster.conninfo.kwargs()) as conn:
        conn.execute("create table kept as select generate_series(1, 1000) as id")
    cluster.kill()
    cluster.start()
    with psycopg.connect(**cluster.conninfo.kwargs()) as conn:
        row = conn.execute("select count(*) from kept").fetchone()
    return row and row[0]


def test_plain_folders_elsewhere_are_fresh_and_go_away(
    open_dir: Path, installation_of: Find
) -> None:
    (open_dir / "mine").write_text("stays")
    spec = DiskSpec(data=f"plain:{open_dir}", wal=f"plain:{open_dir}")
    with Cluster.create(installation_of(18), {}, disks=open_disks(spec)) as cluster:
        assert cluster.data_dir.is_relative_to(open_dir)
        assert cluster.wal_dir.is_relative_to(open_dir)
        assert not cluster.wal_dir.is_relative_to(cluster.data_dir)
        assert rows_after_a_crash(cluster) == 1000
    assert [path.name for path in open_dir.iterdir()] == ["mine"]


@needs_root
@pytest.mark.parametrize("major", [18, 15])
def test_tmpfs_for_data_and_wal(installation_of: Find, major: int) -> None:
    spec = DiskSpec(data="tmpfs:256MB", wal="tmpfs:64MB")
    with Cluster.create(installation_of(major), {}, disks=open_disks(spec)) as cluster:
        for path, size in ((cluster.data_dir, 256 << 20), (cluster.wal_dir, 64 << 20)):
            room = os.statvfs(path)
            assert room.f_blocks * room.f_frsize == size
        assert rows_after_a_crash(cluster) == 1000
        folder = cluster.directory
    assert not folder.exists()


@needs_root
def test_a_tmpfs_without_size_gets_one_and_says_so(open_dir: Path) -> None:
    places = OpenDisks(DiskSpec(wal="tmpfs"), open_dir)
    assert places.wal is not None
    room = os.statvfs(places.wal)
    size_mb = room.f_blocks * room.f_frsize >> 20
    assert size_mb >= 64
    (note,) = places.notes
    assert note.startswith("WAL on tmpfs of ")
    places.close()


@needs_root
@pytest.mark.parametrize("major", [18, 15])
def test_emulated_disks_under_a_server(installation_of: Find, major: int) -> None:
    spec = DiskSpec(data="blackout:size=512MB", wal="slow:flush=1ms,size=256MB")
    with Cluster.create(installation_of(major), {}, disks=open_disks(spec)) as cluster:
        assert rows_after_a_crash(cluster) == 1000
        folder = cluster.directory
        assert len(mounts_below(folder)) == 4  # Each a FUSE file and the file system on it.
    assert not folder.exists()


@needs_root
def test_what_an_emulated_disk_says_of_itself(open_dir: Path) -> None:
    disk = open_disk(disk_plan("slow:flush=2ms"), open_dir)
    try:
        assert disk.emulated == snapshot("an emulated slow disk (a flush takes 2 ms)")
        room = os.statvfs(disk.path)
        assert room.f_blocks * room.f_frsize <= 4 << 30
        assert open_disk(disk_plan("plain"), open_dir / "plain").emulated is None
    finally:
        disk.close()


@needs_root
def test_an_image_larger_than_what_is_free_is_refused(open_dir: Path) -> None:
    with pytest.raises(SetupError, match=r"a disk of \d+MB does not fit into"):
        open_disk(disk_plan("slow:flush=2ms,size=900TB"), open_dir)


@needs_root
def test_disks_of_changes_are_opened_once_and_closed_at_the_end(
    open_dir: Path, installation_of: Find
) -> None:
    opened = []

    def disks(folder: Path) -> OpenDisks:
        opened.append(OpenDisks(DiskSpec(), folder))
        return opened[0]

    with Cluster.create(installation_of(18), {}, disks=disks) as cluster:
        places = opened[0]
        tmpfs = places.wal_directory("tmpfs:64MB")
        assert places.wal_directory("tmpfs:64MB") == tmpfs
        elsewhere = places.wal_directory(f"plain:{open_dir}")
        assert places.wal_directory("data") is None
        for place in (tmpfs, elsewhere, None, tmpfs):
            cluster.stop()
            cluster.move_wal(place)
            cluster.start()
        with psycopg.connect(**cluster.conninfo.kwargs()) as conn:
            conn.execute("create table kept as select 1 as id")
    assert list(open_dir.iterdir()) == []


@needs_root
def test_a_disk_that_cannot_be_had_takes_the_others_with_it(
    open_dir: Path, installation_of: Find
) -> None:
    spec = DiskSpec(data="tmpfs:256MB", wal=f"plain:{open_dir}/missing")
    with pytest.raises(UsageError, match="there is no such directory"):
        Cluster.create(installation_of(18), {}, disks=open_disks(spec))


@needs_root
def test_an_interruption_while_disks_open_leaves_nothing(
    open_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the work and before anyone knows of it: the worst moments."""
    elsewhere = open_dir / "elsewhere"
    elsewhere.mkdir(mode=0o755)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pgdyno.disk._plain.PlainDisk", interrupted)
    monkeypatch.setattr("pgdyno.disk._tmpfs.TmpfsDisk", interrupted)
    for text in (f"plain:{elsewhere}", "tmpfs:64MB"):
        with pytest.raises(KeyboardInterrupt):
            OpenDisks(DiskSpec(wal=text), open_dir / "cluster")
        assert list(elsewhere.iterdir()) == []
        assert mounts_below(open_dir) == []


def test_folders_that_cannot_be_used(open_dir: Path, tmp_path: Path) -> None:
    def refused(path: Path) -> PgdynoError:
        with pytest.raises((UsageError, SetupError)) as caught:
            OpenDisks(DiskSpec(wal=f"plain:{path}"), open_dir / "cluster")
        assert caught.value.code == "disk-directory"
        assert caught.value.message.startswith(f"plain:{path}: ")
        return caught.value

    (open_dir / "file").touch()
    assert isinstance(refused(open_dir / "file"), UsageError)
    assert isinstance(refused(Path("/proc")), SetupError)
    if os.geteuid() == 0:
        tmp_path.chmod(0o700)
        denied = refused(tmp_path)
        assert isinstance(denied, UsageError)
        assert "chmod o+x" in (denied.hint or "")


@needs_root
def test_a_tmpfs_larger_than_memory_is_refused(open_dir: Path) -> None:
    with pytest.raises(
        UsageError, match=r"tmpfs:900TB: more than the [\d,]+ MB of available memory"
    ):
        OpenDisks(DiskSpec(wal="tmpfs:900TB"), open_dir)


@needs_root
def test_a_killed_owner_s_disks_are_swept(open_dir: Path, installation_of: Find) -> None:
    installation_of(18)
    sweep(dismantle)  # what tests before have left
    disks = ["tmpfs:256MB", f"plain:{open_dir}"]
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, *disks], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    folder = Path(owner.stdout.readline().strip())
    (elsewhere,) = open_dir.iterdir()
    assert sweep(dismantle) == []
    owner.kill()
    owner.wait()
    owner.stdout.close()
    said = sweep(dismantle)
    assert all(any(str(path) in each for each in said) for path in (elsewhere, folder))
    assert not folder.exists()
    assert not mounts_below(folder)
    assert list(open_dir.iterdir()) == []


def test_a_note_does_not_remove_what_it_does_not_own(open_dir: Path) -> None:
    """A cluster's folder that says so is not enough: the folder elsewhere has to agree."""
    mine = open_dir / "mine"
    mine.mkdir()
    (mine / "file").touch()
    note = open_dir / "cluster/disks/wal/elsewhere"
    note.parent.mkdir(parents=True)
    note.write_text(str(mine))
    assert dismantle(open_dir / "cluster") == []
    assert (mine / "file").exists()


@needs_root
@pytest.mark.parametrize("disk", ["tmpfs:64MB", "slow:flush=1ms,size=64MB"])
def test_root_that_may_not_mount_is_told_so(tmp_path: Path, disk: str) -> None:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("setpriv, which takes a capability away, is not installed")
    asked = (
        "import sys; from pathlib import Path\n"
        "from pgdyno.disk import open_disk; from pgdyno.errors import SetupError\n"
        "from pgdyno.spec.disk import disk_plan\n"
        "try: open_disk(disk_plan(sys.argv[1]), Path(sys.argv[2]))\n"
        "except SetupError as problem: print(problem.code)\n"
    )
    without = [setpriv, "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", sys.executable]
    said = subprocess.run(
        [*without, "-c", asked, disk, str(tmp_path / "disk")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "disk-mount\n", said.stderr
