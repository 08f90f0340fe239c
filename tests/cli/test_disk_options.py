"""Disks on the command line: what is refused and how; what a result says of emulated ones."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from printed import Said

from pgdyno.record import RunFile

Pgdyno = Callable[..., Said]

TRUSTED_OR_NOT = (0, 4)
"""Whether the figures can be trusted, a busy machine decides too."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("run", "--wal-disk", "tmpfs:10MB"),
            '--wal-disk: "10MB": tmpfs needs at least 32MB, for two WAL segments',
        ),
        (
            ("run", "--data-disk", "plain:here"),
            '--data-disk: "plain:here": expected an absolute path, such as plain:/mnt/fast',
        ),
        (
            ("run", "--data-disk", "slow"),
            "--data-disk: a slow disk needs flush, write or both, such as slow:flush=2ms,write=100MB",
        ),
        (
            ("run", "-d", "mine", "--wal-disk", "tmpfs"),
            "--wal-disk cannot be used with a running server, only with one started by pgdyno",
        ),
        (
            ("run", "-d", "mine", "--no-checksums"),
            "--checksums cannot be used with a running server, only with one started by pgdyno",
        ),
        (
            ("compare", "--vary", "disk.wal=plain:"),
            'disk.wal: "plain:": an option must follow the colon',
        ),
        (
            ("compare", "--vary", "disk.data=tmpfs"),
            'disk.data: "plain" is on no loop device, and only these can differ between slices',
        ),
        (
            ("compare", "-d", "mine", "--vary", "disk.wal=tmpfs"),
            "disk can only be used with server.kind = embedded; an existing server keeps its disks",
        ),
    ],
)
def test_what_cannot_be_had_is_refused_before_anything_starts(
    pgdyno: Pgdyno, arguments: tuple[str, ...], said: str
) -> None:
    done = pgdyno(*arguments)
    assert (done.status, done.out) == (1, "")
    assert done.err.split("\n\n")[0].strip() == f"error: {said}"


@pytest.mark.server
def test_a_disk_of_a_comparison_that_is_missing_fails_before_the_load(
    pgdyno: Pgdyno, tmp_path: Path
) -> None:
    done = pgdyno(
        "compare", "-q", "--vary", "disk.wal=plain:/nowhere", "-o", str(tmp_path / "a.db")
    )
    assert (done.status, done.out, done.err) == snapshot(
        (1, "", "error: plain:/nowhere: there is no such directory\n")
    )
    with RunFile(tmp_path / "a.db") as run:
        assert run.slices() == []


@needs_root
@pytest.mark.server
def test_a_run_on_emulated_disks_says_so(pgdyno: Pgdyno, tmp_path: Path) -> None:
    path = str(tmp_path / "run.db")
    done = pgdyno(
        *("run", "select-only", "-c", "2", "--think", "20ms", "-T", "1", "-q", "-o", path),
        *("--no-checksums", "--wal-disk", "slow:flush=1ms,size=128MB"),
        *("--data-disk", "tmpfs:512MB"),
    )
    assert done.status in TRUSTED_OR_NOT, done.err
    words = " ".join(done.out.split())
    assert "data on tmpfs of 512MB and WAL on an emulated slow disk of 128MB" in words
    assert words.endswith(
        "emulated WAL on an emulated slow disk of 128MB (a flush takes 1 ms): figures are"
        " not those of a real disk"
    )
    with RunFile(Path(path)) as run:
        assert run.run.server["settings"]["data_checksums"] == "off"
        assert run.run.result["emulated"].startswith("WAL on an emulated slow disk")


@needs_root
@pytest.mark.server
@pytest.mark.long
def test_the_wal_s_disk_can_be_what_is_compared(pgdyno: Pgdyno, tmp_path: Path) -> None:
    """From an emulated disk to memory: the comparison is emulated, for one of its sides is."""
    (tmp_path / "paced.sql").write_text(
        "insert into pgbench_history (tid) values (1);\n\\sleep 20 ms\n"
    )
    done = pgdyno(
        *("compare", "-f", "paced.sql", "-c", "2", "-q", "-o", str(tmp_path / "run.db")),
        *("--wal-disk", "slow:flush=1ms,size=256MB", "--vary", "disk.wal=tmpfs:512MB"),
        *("--slice", "200ms", "--pairs", "6", "--format", "json"),
    )
    assert done.status in TRUSTED_OR_NOT, done.err
    result = json.loads(done.out)
    assert result["change"] == {"spec": {"disk.wal": "tmpfs:512MB"}}
    assert result["emulated"].startswith("WAL on an emulated slow disk of 256MB")
    assert result["effect"]["throughput_ratio"] > 0
    with RunFile(tmp_path / "run.db") as run:
        for part in run.slices():
            space = run.series("metric_space", [part.id], where={"holds": "wal"})
            assert set(space["filesystem"]) == {"tmpfs" if part.change else "ext4"}
