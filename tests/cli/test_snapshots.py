"""``pgdyno snapshot``: states that are saved, listed, started from, removed; what is refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from patience import wait_until
from pgdyno.conduct import installation_of as installation_of_spec
from pgdyno.disk import dismantle
from pgdyno.disk.mounting import make_image, mount_image, unmount_all
from pgdyno.errors import SetupError, UsageError
from pgdyno.record import RunFile
from pgdyno.server import Installation, sweep
from pgdyno.server.directories import clusters_dir, snapshots_dir
from pgdyno.server.local.account import server_account
from pgdyno.server.local.snapshots import (
    list_snapshots,
    opened,
    read_snapshot,
    remove_snapshot,
    saving,
    sweep_snapshots,
)
from pgdyno.spec import spec_from_fields
from remains import running_in

Pgdyno = Callable[..., Any]
pytestmark = [pytest.mark.server, pytest.mark.usefixtures("nothing_left")]
SHORT = ("-T", "1", "-c", "2", "--think", "20ms", "-q", "--format", "json")


@pytest.fixture(autouse=True)
def _no_snapshots() -> Iterator[None]:
    yield
    for name, _ in list_snapshots():
        remove_snapshot(name)
    assert [path.name for path in snapshots_dir().iterdir()] in ([], [".lock"])


def saved(pgdyno: Pgdyno, name: str, *arguments: str) -> dict[str, Any]:
    said = pgdyno("snapshot", "save", name, *arguments, "-q", "--format", "json")
    assert said.status == 0, said.err
    made: dict[str, Any] = json.loads(said.out)
    return made


def run_of(pgdyno: Pgdyno, *arguments: str) -> RunFile:
    said = pgdyno("run", *arguments, *SHORT, "-o", "run.db")
    assert said.status in (0, 4), said.err
    return RunFile(Path("run.db"))


def digest_of(name: str) -> str:
    """Return the digest of all of a snapshot's files."""
    whole = sha256()
    for path in sorted(snapshots_dir().joinpath(name).rglob("*")):
        whole.update(f"{path} {path.lstat().st_mode}".encode())
        whole.update(path.read_bytes() if path.is_file() else b"")
    return whole.hexdigest()


def test_a_server_starts_from_a_snapshot_which_never_changes(pgdyno: Pgdyno) -> None:
    made = saved(pgdyno, "loaded", "tpcb-like", "-s", "1", "-c", "2", "-T", "1")
    assert made["rows"]["public.pgbench_accounts"] == 100_000
    written = made["rows"]["public.pgbench_history"]
    assert written > 0
    assert (made["load_s"], made["parent"]) == (1, None)
    with RunFile(Path(made["run_file"])) as run:
        assert run.run.command == "run"
        assert run.ledger().done == written
    data_dir = snapshots_dir() / "loaded" / "data"
    account = server_account()
    assert data_dir.stat().st_uid == (account.uid if account else os.geteuid())
    assert data_dir.stat().st_mode & 0o777 == 0o700
    before = digest_of("loaded")
    # Nine clients: without a snapshot the scale would be nine.
    with run_of(pgdyno, "--snapshot", "loaded", "-c", "9") as run:
        assert run.run.server["snapshot"] == "loaded"
        assert run.run.server["tables"] == "kept"
        assert run.run.spec["workload"]["scale"] == 1
    said = pgdyno("show", "run.db")
    assert "started by pgdyno from the snapshot loaded" in " ".join(said.out.split())
    later = saved(pgdyno, "later", "--snapshot", "loaded", "-T", "1")
    assert later["rows"]["public.pgbench_history"] > written, "the history was kept"
    assert later["parent"] == "loaded"
    assert digest_of("loaded") == before
    listed = json.loads(pgdyno("snapshot", "list", "--format", "json").out)
    assert [each["name"] for each in listed] == ["later", "loaded"]
    text = pgdyno("snapshot", "list").out.splitlines()
    assert text[0].split()[:3] == ["name", "version", "size"]
    assert "snapshot loaded, 1 s of load" in text[1]
    assert pgdyno("snapshot", "remove", "later").out == snapshot("removed the snapshot later\n")
    assert [name for name, _ in list_snapshots()] == ["loaded"]


def test_a_spec_names_it_and_its_tables_are_used_as_they_are(pgdyno: Pgdyno) -> None:
    Path("tables.sql").write_text("create table t (a int); insert into t values (1)")
    Path("t.sql").write_text("insert into t values (2);\n")
    spec = Path("spec.toml")
    spec.write_text(
        '[workload]\nsetup = "tables.sql"\nscript = [{ file = "t.sql" }]\n'
        '[load]\nhold = "300ms"\nmax_other_programs = 1\n'
    )
    made = saved(pgdyno, "mine", str(spec))
    assert (made["rows"], made["load_s"], made["workload"]) == ({"public.t": 1}, 0, ["t.sql"])
    spec.write_text('[server]\nsnapshot = "mine"\n' + spec.read_text())
    said = pgdyno("run", str(spec), "-q", "--format", "json", "-o", "run.db")
    assert said.status in (0, 4), said.err
    # The setup, which would fail a second time, made its tables already.
    said = pgdyno("run", "run.db", "-q", "--format", "json", "-o", "again.db")
    assert said.status in (0, 4), said.err


@pytest.mark.parametrize("major", [15, 18])
def test_an_age_is_part_of_it(
    major: int, pgdyno: Pgdyno, installation_of: Callable[[int], Installation]
) -> None:
    version = ("--pg-version", str(installation_of(major).major))
    made = saved(pgdyno, "old", "mixed", "--age", "1.7e9", *version)
    assert made["aged"] == "xid"
    assert 1_700_000_000 <= made["xid_age"] < 1_700_100_000
    later = saved(pgdyno, "later", "mixed", "--snapshot", "old")
    assert later["xid_age"] >= made["xid_age"]
    assert (later["aged"], later["parent"]) == ("xid", "old")
    assert later["version_num"] // 10_000 == major, "the version is the snapshot's"
    said = pgdyno("run", "mixed", "--snapshot", "old", "--set", "wal_level=replica", *SHORT)
    assert (said.status, said.code) == (1, "snapshot-settings")


def test_what_is_refused(pgdyno: Pgdyno) -> None:
    saved(pgdyno, "small", "business", "-s", "1")

    def refused(*arguments: str) -> str:
        said = pgdyno(*arguments)
        assert said.status == 1
        return str(said.err)

    assert refused("snapshot", "save", "small") == snapshot("""\
error: there is a snapshot small already

hint: choose another name, or pgdyno snapshot remove small
""")
    assert refused("run", "--snapshot", "smal", *SHORT) == snapshot("""\
error: there is no snapshot smal

hint: did you mean small?
""")
    assert refused("snapshot", "remove", "other") == snapshot("""\
error: there is no snapshot other

hint: pgdyno snapshot list shows what there is
""")
    assert refused("snapshot", "save", "../small") == snapshot("""\
error: "../small" cannot be the name of a snapshot

hint: letters, digits, dots, hyphens and underscores, beginning with a letter or a digit, up to 80 characters
""")
    assert refused("snapshot", "save", "x", "-h", "localhost") == snapshot("""\
error: pgdyno snapshot saves only servers that pgdyno starts: it stops the server to copy its data

hint: leave the connection out; --from copies a database of your server
""")
    assert refused("snapshot", "save", "x", "nosuchworkload") == snapshot("""\
error: "nosuchworkload" is not a workload

hint: workloads are tpcb-like, simple-update, select-only, mixed, business, entity-resolution, ingest, tpcc-like, tpcc-functions; pgdyno snapshot save is only for servers that pgdyno starts, so it takes no database
""")
    assert refused("snapshot", "save", "x", "--standby", "on") == snapshot("""\
error: a snapshot has no standbys: their slots would keep WAL that nobody fetches

hint: leave standby out here, and use it where a server starts from the snapshot
""")
    assert refused("snapshot", "save", "x", "--multixact") == snapshot("""\
error: --multixact is about the age, and --age is missing

hint: for example --age 1.7e9 --multixact
""")
    assert refused("snapshot", "save", "x", "--age", "3e9") == snapshot("""\
error: --age 3e9: an age is a number from 1 to 2,146,983,648

hint: for example --age 1.7e9; at 2^31, 2,147,483,648, the oldest rows would be in the future
""")
    assert refused("run", "--snapshot", "small", "-h", "localhost") == snapshot(
        "error: --snapshot cannot be used with a running server, only with one started by pgdyno\n"
    )
    assert refused("run", "business", "--snapshot", "small", "-s", "2", "-q") == snapshot("""\
error: the snapshot has tables of scale 1, and scale 2 was requested

hint: leave the scale out, or save another snapshot
""")
    Path("spec.toml").write_text('[server]\nsnapshot = "a/b"\n')
    assert "server.snapshot" in refused("run", "spec.toml")
    Path("spec.toml").write_text('[server]\nkind = "existing"\nsnapshot = "a"\n')
    assert refused("run", "spec.toml") == snapshot(
        "error: spec.toml: server: snapshot can only be used with kind = embedded\n"
    )
    assert [name for name, _ in list_snapshots()] == ["small"]


def test_other_tables_and_a_disk_that_is_too_small_are_refused(pgdyno: Pgdyno) -> None:
    saved(pgdyno, "full", "tpcb-like", "-s", "1")
    said = pgdyno("run", "--snapshot", "full", "-F", "80", *SHORT)
    assert (said.code, "fillfactor 80" in said.err) == ("snapshot-tables", True)
    said = pgdyno("run", "--snapshot", "full", "-s", "2", *SHORT)
    assert said.code == "snapshot-scale"
    if os.geteuid() == 0:  # Nobody else may mount a disk in memory.
        said = pgdyno("run", "--snapshot", "full", "--data-disk", "tmpfs:128MB", *SHORT)
        assert (said.status, said.code, " 128 MB " in said.err) == (1, "copy-space", True)


def test_another_version_or_build_is_refused(
    pgdyno: Pgdyno, installation_of: Callable[[int], Installation]
) -> None:
    other = str(installation_of(15).bindir)
    saved(pgdyno, "new", "mixed", "--pg-version", "18")
    said = pgdyno("run", "mixed", "--snapshot", "new", "--pg-bindir", other, *SHORT)
    assert (said.code, "PostgreSQL 18" in said.err) == ("snapshot-version", True)
    description = snapshots_dir() / "new" / "snapshot.json"
    fields = json.loads(description.read_text())
    lacks_lz4 = not fields["capabilities"]["lz4"]
    fields["capabilities"] |= {"lz4": True}
    description.write_text(json.dumps(fields))
    said = pgdyno("run", "mixed", "--snapshot", "new", *SHORT)
    assert (said.code == "snapshot-build") is lacks_lz4
    # A description that cannot be is refused with its key.
    description.write_text(json.dumps(fields | {"xid_age": 10**18}))
    why = f"{description}: xid_age: should be less than 2147483648"
    listed = pgdyno("snapshot", "list")
    assert "new   damaged" in listed.out
    assert listed.err == f"warning: the snapshot new is damaged: {why}\n"
    (of_it,) = json.loads(pgdyno("snapshot", "list", "--format", "json").out)
    assert of_it == {"name": "new", "damaged": True, "why": why}
    said = pgdyno("run", "mixed", "--snapshot", "new", *SHORT)
    assert (said.code, f": {why}\n" in said.err) == ("snapshot-damaged", True)


def test_binaries_that_are_gone_are_named(
    pgdyno: Pgdyno, installation_of: Callable[[int], Installation], open_dir: Path
) -> None:
    here = installation_of(18)
    saved(pgdyno, "moved", "mixed", "--pg-bindir", str(here.bindir))
    description = snapshots_dir() / "moved" / "snapshot.json"
    fields = json.loads(description.read_text())
    gone = "/nowhere/18/bin"
    description.write_text(json.dumps(fields | {"bindir": gone}))
    said = pgdyno("run", "mixed", "--snapshot", "moved", *SHORT)
    assert said.status in (0, 4), said.err
    assert gone in said.err
    elsewhere = open_dir / "bin"
    elsewhere.symlink_to(here.bindir)
    description.write_text(json.dumps(fields | {"bindir": str(elsewhere)}))
    spec = spec_from_fields({"server": {"snapshot": "moved"}})
    assert installation_of_spec(spec).bindir == elsewhere, "it is where nobody looks otherwise"


def test_a_file_system_that_can_clone_does(
    pgdyno: Pgdyno, open_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("an image file needs root and loop devices")
    if shutil.which("mkfs.xfs") is None:
        pytest.skip("mkfs.xfs is not installed")
    home = open_dir / "home"
    home.mkdir(0o755)
    make_image(open_dir / "image", "xfs", 1 << 30)
    mount_image(open_dir / "image", home, "xfs")
    try:
        with monkeypatch.context() as patch:
            patch.setenv("PGDYNO_HOME", str(home))
            assert saved(pgdyno, "quick", "mixed")["cloned"]
            with run_of(pgdyno, "mixed", "--snapshot", "quick") as run:
                assert run.ledger().done > 0
    finally:
        unmount_all(home, patience_s=10)


def test_two_at_once() -> None:
    with saving("one") as place, saving("other"):
        with pytest.raises(UsageError, match="another pgdyno is saving") as found:
            saving("one").__enter__()
        assert found.value.code == "snapshot-busy"
        assert place.directory.is_dir(), "the first one goes on"
        assert sweep_snapshots() == []
    assert list_snapshots() == [], "nothing was put there"


def test_one_that_is_being_copied_is_not_removed(pgdyno: Pgdyno) -> None:
    saved(pgdyno, "busy", "mixed")
    with opened("busy") as data_dir, opened("busy"):
        with pytest.raises(SetupError, match="a server is just starting from the snapshot busy"):
            remove_snapshot("busy")
        assert data_dir.is_dir()


def test_a_link_in_the_place_of_one_is_not_followed(pgdyno: Pgdyno, tmp_path: Path) -> None:
    saved(pgdyno, "real", "mixed")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for link in ("planted", ".next.part"):
        snapshots_dir().joinpath(link).symlink_to(elsewhere)
    try:
        for refused in (lambda: read_snapshot("planted"), lambda: remove_snapshot("planted")):
            with pytest.raises(SetupError, match="is a symbolic link"):
                refused()
        with pytest.raises(UsageError, match="there is a snapshot planted already"):
            saving("planted").__enter__()
        with pytest.raises(SetupError, match="is a symbolic link"):
            saving("next").__enter__()
        assert sweep_snapshots() == []
        assert [*elsewhere.iterdir()] == []
    finally:
        for link in ("planted", ".next.part"):
            snapshots_dir().joinpath(link).unlink()


def test_nothing_is_left_of_one_whose_save_was_killed(tmp_path: Path) -> None:
    before = set(clusters_dir().iterdir())
    words = ["snapshot", "save", "killed", "mixed", "-T", "10min", "-q", "-o", "run.db"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pgdyno", *words], start_new_session=True, cwd=tmp_path
    )
    part = snapshots_dir() / ".killed.part"
    run = tmp_path / "run.db"
    try:
        wait_until(lambda: part.is_dir() and run.exists(), "a load before it is saved")
        assert list_snapshots() == []
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    (directory,) = set(clusters_dir().iterdir()) - before - {clusters_dir() / ".lock"}
    wait_until(lambda: not running_in(directory), "the end of the server")
    assert any(line.endswith(f" {part}") for line in sweep(dismantle))
    assert not part.exists()
    assert list_snapshots() == []


def test_nothing_is_left_of_one_whose_copy_was_interrupted() -> None:
    def interrupted() -> None:
        with saving("half") as place:
            place.data_dir.mkdir()
            (place.data_dir / "PG_VERSION").write_text("18\n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list_snapshots() == []
    assert not snapshots_dir().joinpath(".half.part").exists()
