"""The account that runs servers plants links, pipes and directories where pgdyno works as root.

No file of root's is touched, given away or shown by that, and nothing waits for ever.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pgdyno.errors import PgdynoError, SetupError
from pgdyno.server import Cluster, Installation
from pgdyno.server.local import controldata
from pgdyno.server.local.account import change_owner, server_account
from pgdyno.server.local.clean_copy import CleanCopy
from pgdyno.server.local.guarded import last_line, log_text
from pgdyno.server.local.leftovers import _posix_handles, _recorded_segment
from pgdyno.server.local.safefiles import (
    as_server_account,
    copy_tree,
    make_directory,
    remove_directory,
)
from pgdyno.server.replication.standby import Standby

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has an account for servers")

SECRET = "the password is swordfish\n"
# Puts a link in the place of a directory and back again, as fast as it can.
SWAPPER = """
import os, sys
uid, gid, path, victim = sys.argv[1:]
os.setgroups([]); os.setgid(int(gid)); os.setuid(int(uid))
print("ready", flush=True)
while True:
    try:
        os.rename(path, path + ".aside"); os.symlink(victim, path)
        os.unlink(path); os.rename(path + ".aside", path)
    except OSError:
        pass
"""


class Roots:
    """A directory of root's with a secret in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(mode=0o755)
        self.file = folder / "PG_VERSION"
        self.file.write_text(SECRET)
        self.file.chmod(0o600)
        self._before = self._look()

    def untouched(self) -> bool:
        return self._look() == self._before

    def _look(self) -> object:
        paths = [self.folder, *sorted(self.folder.rglob("*"))]
        seen = [(path.name, path.lstat()) for path in paths]
        marks = [(name, it.st_uid, it.st_gid, it.st_mode, it.st_nlink) for name, it in seen]
        return marks, self.file.read_text()


@pytest.fixture
def roots(open_dir: Path) -> Iterator[Roots]:
    made = Roots(open_dir / "roots")
    yield made
    assert made.untouched()


@pytest.fixture
def cluster(installation_of: Callable[[int], Installation]) -> Iterator[Cluster]:
    """A server that has not been started."""
    made = Cluster.create(installation_of(18), {"fsync": "off"})
    yield made
    made.destroy()
    assert not made.directory.exists()


def as_account(script: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a shell script as the server's account."""
    account = server_account()
    assert account is not None
    return subprocess.run(
        ["/bin/sh", "-ec", script, "sh", *map(str, words)],
        user=account.uid, group=account.gid, extra_groups=(), cwd="/",
        capture_output=True, text=True, check=True,
    )  # fmt: skip


@contextmanager
def swapped(path: Path, victim: Path) -> Iterator[None]:
    """Within the block the account swaps a directory of its own for a link, and back."""
    account = server_account()
    assert account is not None
    swapper = subprocess.Popen(
        [sys.executable, "-c", SWAPPER, *map(str, (account.uid, account.gid, path, victim))],
        stdout=subprocess.PIPE,
    )
    try:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        yield
    finally:
        swapper.kill()
        swapper.communicate()


def contents(folder: Path) -> str:
    """All text in the files of a folder, links followed by nobody."""
    files = (path for path in folder.rglob("*") if stat.S_ISREG(path.lstat().st_mode))
    return "".join(path.read_text(errors="replace") for path in files)


def test_the_account_has_nothing_in_common_with_the_system_s_postgresql() -> None:
    account = server_account()
    assert account is not None
    assert account.name == "pgdyno"


@pytest.mark.parametrize("name", ["postgresql.conf", "postmaster.pid", "PG_VERSION"])
def test_a_link_is_not_read(cluster: Cluster, roots: Roots, name: str) -> None:
    as_account('ln -sf "$1" "$2"', roots.file, cluster.data_dir / name)
    said = ""
    try:
        cluster.start()
    except SetupError as problem:
        said = f"{problem.message} {problem.hint}"
    assert "swordfish" not in said
    assert "swordfish" not in contents(cluster.directory)


def test_a_link_in_place_of_the_configuration_is_named(cluster: Cluster, roots: Roots) -> None:
    path = cluster.data_dir / "postgresql.conf"
    as_account('ln -sf "$1" "$2"', roots.file, path)
    with pytest.raises(SetupError, match=f"cannot read {path}: Too many levels of symbolic links"):
        cluster.start()


def test_a_pipe_is_not_waited_for(cluster: Cluster) -> None:
    path = cluster.data_dir / "postgresql.conf"
    as_account('rm "$1"; mkfifo "$1"', path)
    with pytest.raises(SetupError, match="it is not a regular file"):
        cluster.start()


def test_a_pipe_in_place_of_the_control_file_is_not_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controldata, "_S_MAX", 0.5)
    as_account('rm "$1"; mkfifo "$1"', cluster.data_dir / "global/pg_control")
    assert cluster.control_data() == controldata.ControlData()


def test_of_a_log_without_end_only_the_end_is_read(open_dir: Path) -> None:
    log = open_dir / "log"
    log.write_text("first\n" + "x" * 100 + "\nlast\n")
    assert log_text(log, 6) == "x" * 100 + "\nlast\n"
    assert log_text(log, bytes_max=7) == "x\nlast\n"
    assert last_line(log) == "last"


def test_what_a_standby_is_told_goes_into_no_planted_file(
    new_cluster: Callable[..., Cluster], roots: Roots
) -> None:
    primary = new_cluster(18, fsync="off")
    standby = Standby.create(primary, "standby_1")
    try:
        for name in ("standby.signal", "postgresql.auto.conf", "postgresql.auto.conf.pgdyno"):
            as_account('ln -sf "$1" "$2"', roots.file, standby.cluster.data_dir / name)
        standby._point_at_primary()
        standby.start()
        standby.wait_caught_up()
    finally:
        standby.destroy()


def test_a_hard_link_is_not_given_away(cluster: Cluster, roots: Roots) -> None:
    path = cluster.data_dir / "postgresql.auto.conf"
    path.unlink()
    os.link(roots.file, path)  # As the account may, where fs.protected_hardlinks is 0.
    with pytest.raises(SetupError, match=r"cannot read .*: Permission denied"):
        cluster.forget_settings(["fsync"])
    path.unlink()


def test_the_wal_s_link_leads_a_move_nowhere(
    cluster: Cluster, roots: Roots, open_dir: Path
) -> None:
    (roots.folder / ("0" * 23 + "1")).touch()
    roots._before = roots._look()
    as_account('mv "$1" "$1.mine"; ln -s "$2" "$1"', cluster.data_dir / "pg_wal", roots.folder)
    make_directory(open_dir / "there")
    for place in (open_dir / "there", None):
        with suppress(PgdynoError):
            cluster.move_wal(place)


@pytest.fixture
def theirs(open_dir: Path) -> Path:
    """A directory of the account that contains ``way``, a link to ``real``."""
    make_directory(open_dir / "theirs")
    as_account('cd "$1"; mkdir real; ln -s real way', open_dir / "theirs")
    return open_dir / "theirs"


def point(link: Path, target: Path) -> None:
    """Have a link of the account's lead elsewhere."""
    as_account('ln -sfn "$1" "$2"', target, link)


def test_what_a_wal_s_link_said_is_no_place_to_put_back(
    cluster: Cluster, roots: Roots, theirs: Path
) -> None:
    wal = cluster.data_dir / "pg_wal"
    as_account('mv "$1" "$2/real/evil"; ln -s "$2/way/evil" "$1"', wal, theirs)
    copy = CleanCopy(cluster, cluster.directory / "clean-copy")
    copy.take()
    point(theirs / "way", roots.folder)
    copy.restore()
    assert not (roots.folder / "evil").exists()


def test_no_folder_is_made_or_removed_past_a_link_of_the_account_s(
    roots: Roots, theirs: Path
) -> None:
    (roots.folder / "empty").mkdir()
    roots._before = roots._look()
    point(theirs / "way", roots.folder)
    point(theirs / "above", roots.folder.parent)
    for way in (theirs / "way", theirs / "above" / roots.folder.name):
        with pytest.raises(SetupError, match="Permission denied"):
            make_directory(way / "evil")
        with pytest.raises(SetupError, match="Permission denied"):
            copy_tree(theirs / "real", way / "evil")
        remove_directory(way / "empty")


def test_a_link_of_root_s_leads_where_it_says(open_dir: Path) -> None:
    (open_dir / "there").mkdir(mode=0o755)
    for name, target in {"near": Path("there"), "far": open_dir / "near"}.items():
        (open_dir / name).symlink_to(target)
        make_directory(open_dir / name / "made")
        account = server_account()
        assert account is not None
        assert (open_dir / "there/made").stat().st_uid == account.uid
        remove_directory(open_dir / name / "made")
        assert not (open_dir / "there/made").exists()


def test_who_acts_as_the_account_makes_nothing_as_root(roots: Roots) -> None:
    with as_server_account(), pytest.raises(SetupError, match="Permission denied"):
        make_directory(roots.folder / "evil")


def test_a_pipe_in_place_of_shared_memory_is_not_waited_for(
    new_cluster: Callable[..., Cluster],
) -> None:
    cluster = new_cluster(18, fsync="off")
    recorded = _recorded_segment(cluster.data_dir)
    assert recorded is not None
    control = Path(f"/dev/shm/PostgreSQL.{_posix_handles(recorded[1])[-1]}")
    as_account('rm "$1"; mkfifo "$1"', control)
    cluster.kill()
    assert not control.exists()


def test_a_kept_cluster_lies_in_a_folder_of_ours(
    installation_of: Callable[[int], Installation], open_dir: Path
) -> None:
    theirs = open_dir / "theirs"
    theirs.mkdir()
    change_owner(theirs, server_account())
    with pytest.raises(SetupError, match=f"{theirs} belongs to another user"):
        Cluster.create(installation_of(18), keep_dir=theirs)
    assert list(theirs.iterdir()) == []


def _copy(cluster: Cluster) -> None:
    copy = cluster.directory / "copy"
    with suppress(PgdynoError):
        copy_tree(cluster.data_dir, copy)
    remove_directory(copy)
    with suppress(PgdynoError):
        copy_tree(cluster.data_dir, copy)


def _put_back(cluster: Cluster) -> None:
    copy = CleanCopy(cluster, cluster.directory / f"clean-copy-{time.monotonic_ns()}")
    with suppress(PgdynoError):
        copy.take()
        copy.restore()


def _move(cluster: Cluster) -> None:
    for place in (cluster.directory / "wal", None):
        with suppress(PgdynoError):
            cluster.move_wal(place)


def _write(cluster: Cluster) -> None:
    with suppress(PgdynoError):
        cluster.forget_settings(["fsync"])
    with suppress(PgdynoError):
        cluster._write_configuration()


@pytest.mark.parametrize("deed", [_copy, _put_back, _move, _write])
@pytest.mark.parametrize("name", ["pg_wal", "base"])
def test_a_directory_swapped_for_a_link_while_pgdyno_works(
    cluster: Cluster, roots: Roots, deed: Callable[[Cluster], None], name: str
) -> None:
    make_directory(cluster.directory / "wal")
    with swapped(cluster.data_dir / name, roots.folder):
        for _ in range(2):
            deed(cluster)
    assert "swordfish" not in contents(cluster.directory)


def test_a_whole_tree_swapped_while_it_is_removed(roots: Roots, open_dir: Path) -> None:
    """In a directory that the account owns, as the root of a disk."""
    make_directory(open_dir / "disk")
    for _ in range(8):
        make_directory(open_dir / "disk/tree")
        with as_server_account():
            for number in range(50):
                (open_dir / f"disk/tree/{number}").mkdir()
        with swapped(open_dir / "disk/tree", roots.folder):
            remove_directory(open_dir / "disk/tree")
        remove_directory(open_dir / "disk/tree")
        remove_directory(open_dir / "disk/tree.aside")


def test_only_the_thread_that_acts_is_the_account(roots: Roots) -> None:
    with as_server_account():
        with pytest.raises(PermissionError):
            roots.file.read_text()
        with as_server_account(), pytest.raises(PermissionError):
            roots.file.read_text()
        assert os.geteuid() == 0
    assert roots.file.read_text() == SECRET
