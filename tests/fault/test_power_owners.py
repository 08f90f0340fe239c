"""From a byte of a disk to a file, a relation and its block, and the WAL records that touch it."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import psycopg
import pytest

from pgdyno.drill.power._explain import read_records
from pgdyno.drill.power._location import BlockOf, FileMap, Location, Names, read_names
from pgdyno.server import Cluster
from pgdyno.server.lsn import lsn_text, parse_lsn


@contextlib.contextmanager
def mounted(fs: str, image: Path, root: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    if not Path("/dev/loop-control").exists():
        pytest.skip("this kernel has no loop devices")
    if shutil.which(f"mkfs.{fs}") is None:
        pytest.skip(f"mkfs.{fs} is not installed")
    image.touch()
    os.truncate(image, 400 << 20)
    subprocess.run([f"mkfs.{fs}", "-q", str(image)], check=True)
    root.mkdir()
    subprocess.run(["mount", "-o", "loop", str(image), str(root)], check=True)
    try:
        yield root
    finally:
        subprocess.run(["umount", str(root)], check=True)


@pytest.mark.parametrize("fs", ["ext4", "xfs"])
def test_every_byte_has_its_file(fs: str, open_dir: Path) -> None:
    image = open_dir / "image"
    with mounted(fs, image, open_dir / "root") as root:
        folder = root / "base" / "5"
        folder.mkdir(parents=True)
        wanted = {}
        for number in range(12):  # Interleaved, so that files lie in several pieces.
            for name in ("1", "2"):
                with (folder / name).open("ab") as file:
                    content = f"file {name} part {number:04}".encode().ljust(8192, b".")
                    file.write(content)
                    os.fsync(file.fileno())
                    wanted[content] = (PurePosixPath("base/5") / name, number * 8192)
        (folder / "hole").touch()
        os.truncate(folder / "hole", 1 << 20)
        owners = FileMap.of(root)
    disk = image.read_bytes()
    for content, owner in wanted.items():
        assert owners.owner(disk.index(content)) == owner
        assert owners.owner(disk.index(content) + 8191) == (owner[0], owner[1] + 8191)
    assert owners.owner(1024) is None  # The superblock on ext4, the heads of group 0 on XFS.
    assert owners.owner(len(disk) + 1) is None


@pytest.mark.parametrize(
    ("path", "byte", "name", "block"),
    [
        ("base/5/16397.1", 8192 * 3, "accounts", BlockOf(1663, 5, 16397, "main", 131075)),
        ("base/5/16397_vm", 0, "accounts", BlockOf(1663, 5, 16397, "vm", 0)),
        ("base/5/t3_77", 0, "", BlockOf(1663, 5, 77, "main", 0)),
        ("global/1262", 8192, "", BlockOf(1664, 0, 1262, "main", 1)),
        ("pg_tblspc/99/PG_15_202209061/5/7", 0, "", BlockOf(99, 5, 7, "main", 0)),
    ],
)
def test_relations_are_read_from_paths(path: str, byte: int, name: str, block: BlockOf) -> None:
    names = Names(relations={"base/5/16397": ("accounts", "r")})
    location = names.locate((PurePosixPath("pgdata") / path, byte + 512), 0)
    assert (location.name, location.block, location.byte_of_block) == (name, block, 512)
    assert (location.file, location.byte, location.wal) == (path, byte + 512, None)


@pytest.mark.parametrize(
    ("path", "wal"),
    [
        ("pgdata/global/pg_control", None),
        ("pgdata/pg_xact/0000", None),
        ("pgdata/pg_wal/archive_status/x.done", None),
        ("pgdata/pg_wal/000000010000000200000003", (2 << 32) + (3 << 24) + 512),
        ("pg_wal/000000010000000200000003", (2 << 32) + (3 << 24) + 512),
    ],
)
def test_other_paths_are_read(path: str, wal: int | None) -> None:
    location = Names().locate((PurePosixPath(path), 512), 0)
    assert location == Location(path.removeprefix("pgdata/"), 512, wal=wal)


def test_sentences() -> None:
    names = Names(relations={"base/5/16397": ("accounts", "r")})

    def said(path: str, byte: int) -> str:
        return names.locate((PurePosixPath(path), byte), 0).sentence()

    assert said("pgdata/base/5/16397", 8704) == "accounts, block 1, byte 512 (base/5/16397)"
    assert said("pgdata/base/5/16397_fsm", 0) == "accounts, fsm fork, block 0, byte 0 (base/5/16397_fsm)"  # fmt: skip
    assert said("pgdata/base/1/7", 0) == "relation 7 of database 1, block 0, byte 0 (base/1/7)"
    assert said("pg_wal/000000010000000000000002", 32) == "WAL at 0/2000020 (pg_wal/000000010000000000000002)"  # fmt: skip
    assert said("pgdata/pg_xact/0000", 5) == "pg_xact/0000, byte 5"
    assert names.locate(None, 77).sentence() == "metadata of the file system, byte 77 of the disk"
    assert lsn_text(parse_lsn("A/1F000028")) == "A/1F000028"


@pytest.mark.parametrize("major", [15, 18])
def test_records_name_the_blocks_that_they_touch(
    new_cluster: Callable[..., Cluster], major: int
) -> None:
    cluster = new_cluster(major)
    with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as conn:
        conn.execute(
            "create table plenty as select g, repeat('x', 500) from generate_series(1, 60) g"
        )
        conn.execute("checkpoint")
        row = conn.execute(
            "select pg_current_wal_insert_lsn(), pg_relation_filepath('plenty')"
        ).fetchone()
        assert row
        begin, path = row
        conn.execute("update plenty set g = -1 where g = 20")
        names = read_names(conn)
    assert names.layout.wal_segment_bytes == 16 << 20
    location = names.locate((PurePosixPath("pgdata") / path, 8192 + 512), 0)
    assert (location.name, location.kind, location.byte_of_block) == ("plenty", "r", 512)
    wal = cluster.data_dir / "pg_wal"
    records = list(read_records(cluster.installation, wal, 1, parse_lsn(begin)))
    touched_by = [record for record in records if location.block in record.blocks]
    assert touched_by
    assert touched_by[-1].kind.startswith("Heap/")
    assert location.block in touched_by[0].images  # The first change after a checkpoint.
    assert all(one.next_lsn == then.lsn for one, then in itertools.pairwise(records))
    cluster.destroy()
