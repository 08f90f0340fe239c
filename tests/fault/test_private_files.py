"""Whatever pgdyno writes is readable by its user alone, whatever the umask is."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pgdyno.record import Recorder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_to_others(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if mode(path) & 0o077]


def pgdyno(folder: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pgdyno", *words],
        cwd=folder, umask=0, check=False, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode in (0, 4), "whether it can be trusted is not looked at"


def test_a_run_s_files(tmp_path: Path) -> None:
    words = ["run", "tpcb-like", "-c", "2", "-T", "1", "--think", "20ms", "--acks", "acks", "-q"]
    pgdyno(tmp_path, *words)
    (run,) = tmp_path.glob("pgdyno-runs/*.db")
    pgdyno(tmp_path, "report", str(run), "-o", "page.html")
    assert list(tmp_path.glob("acks/*"))
    assert (tmp_path / "page.html").exists()
    assert open_to_others(tmp_path) == []


@pytest.mark.long
def test_a_kept_recording(tmp_path: Path) -> None:
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("power cuts need root and FUSE")
    words = ["drill", "--fault", "power", "--cuts", "1", "--load", "500ms", "-c", "2"]
    pgdyno(tmp_path, *words, "--recording", "kept", "-o", "run.db", "-q")
    assert (tmp_path / "kept/log-0").exists()
    assert open_to_others(tmp_path) == []


def test_a_run_file_and_those_beside_it_while_it_grows(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Recorder.create(
            tmp_path / "run.db", name="n", command="run", spec_text="", spec={}, server={},
            host={}, engine={},
        ) as recorder:  # fmt: skip
            recorder.update_run(result={})
            names = {path.name for path in tmp_path.iterdir()}
            assert "run.db-wal" in names
            assert open_to_others(tmp_path) == []
    finally:
        os.umask(before)
